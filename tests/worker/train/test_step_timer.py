"""Times of a step on a GPU, whose events are read once the device has reached them."""

from __future__ import annotations

import torch

from expert_worker.train.trainer import StepTimer


class Event:
    """As torch's: the time between two of them cannot be read before both are reached."""

    def __init__(self, at):
        self.at, self.reached = at, False

    def query(self):
        return self.reached

    def synchronize(self):
        self.reached = True

    def elapsed_time(self, other):
        assert other.reached, "Both events must be completed before calculating elapsed time."
        return other.at - self.at


def test_a_process_without_rows_reads_its_time(monkeypatch):
    """It has no loss to wait for."""
    marks = iter((Event(0.0), Event(1500.0)))
    monkeypatch.setattr(StepTimer, "_mark", lambda self: next(marks))
    timer = StepTimer(torch.device("cpu"))
    timer.launched()
    assert timer.timing().device_compute == 1.5
