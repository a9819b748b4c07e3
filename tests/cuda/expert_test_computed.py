"""A stage of the worker on the stand-in driver, with values (EXPERT_TEST_STAGE): see computed.py.

What the driver and torch's allocator counted is written to the folder that COMPUTED_FIGURES names, one file
per stage.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from computed import Computed

from expert_worker.evaluate import decode
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.stages import find_stage

KINDS = {"waits": "S", "launches": "K", "products": "G"}


def run(plan: Plan, events: Events) -> Any:
    del os.environ["EXPERT_TEST_STAGE"]
    stage, driver = find_stage(plan.request.stage), ctypes.CDLL("libcuda.so.1")

    def counted() -> dict[str, int]:
        return {name: driver.fakecuda_count(ord(kind)) for name, kind in KINDS.items()}

    batches: list[dict[str, int]] = []
    decode.write_tokens = _counting(decode.write_tokens, counted, batches)
    with Computed():
        result = stage(plan, events)
    figures = {
        "device": torch.cuda.get_device_name(),
        "peak_bytes": torch.cuda.max_memory_reserved(),
        "planned_bytes": plan.machine.estimate.total,
        "batches": batches,
        **counted(),
    }
    (Path(os.environ["COMPUTED_FIGURES"]) / f"{plan.request.stage}.json").write_text(json.dumps(figures))
    return result


def _counting(
    write_tokens: Callable[..., torch.Tensor],
    counted: Callable[[], dict[str, int]],
    batches: list[dict[str, int]],
) -> Callable[..., torch.Tensor]:
    def write(*args: Any, **named: Any) -> torch.Tensor:
        before = counted()
        found = write_tokens(*args, **named)
        batches.append(
            {"rows": found.shape[0], "tokens": found.shape[1]}
            | {name: count - before[name] for name, count in counted().items()}
        )
        return found

    return write
