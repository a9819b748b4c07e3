"""Before the first step: the batch that needs most memory is tried, so that a run does not fail hours
later."""

from __future__ import annotations

import torch

from expert_worker.events import Events
from expert_worker.train.data import Order, Rows, row_lengths
from expert_worker.train.window import Window


def try_largest(window: Window, rows: Rows, order: Order, device: torch.device, events: Events) -> None:
    """On a device whose memory is its own. A CPU shares the machine's: it would swap, not refuse."""
    if device.type == "cpu":
        return
    events.stage("try largest batch", 600.0)
    lengths = row_lengths(rows)
    longest = sorted(range(len(rows)), key=lambda row: -lengths[row])[: order.rows_per_step]
    window.gather(0, longest[: window.micro_batch])
    window.clear()
    events.applied("micro_batch.tried", window.micro_batch)
