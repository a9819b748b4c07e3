"""What a `Trainer` of transformers does (TRL, Unsloth and Axolotl have one): time and memory of its steps.

These programs may be installed in other environments, where the worker's native module is not.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from typing import Any

import torch
from history import PACKAGES, versions
from shapes import FIRST_TOKEN, Case, Shape
from transformers import TrainerCallback


def given() -> tuple[str, Case, Shape, torch.device]:
    """BASE CASE-JSON SHAPE-JSON DEVICE, which each of these scripts is called with."""
    base, case, shape, device = sys.argv[1:]
    return base, Case(**json.loads(case)), Shape(**json.loads(shape)), torch.device(device)


class Clock(TrainerCallback):
    """Wall time of each step, the device's work included."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.marks = device, list[float]()

    def mark(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.marks.append(time.perf_counter())

    def on_train_begin(self, *_args: Any, **_kwargs: Any) -> None:
        self.mark()

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        self.mark()


def watched(trainer: Any, case: Case, device: torch.device, program: str) -> None:
    """Trains, and prints what was measured. The first step, in which kernels are compiled, is separate."""
    clock, tokens = Clock(device), list[Any]()
    step = trainer.training_step

    def counted(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Without padding. Read at the end only: the host would wait for the device.
        tokens.append((inputs["input_ids"] >= FIRST_TOKEN).sum())
        return step(model, inputs, *args, **kwargs)

    trainer.training_step = counted
    trainer.add_callback(clock)
    trainer.train()
    # Not before: it sets how torch allocates, and each program is measured as it sets that itself.
    from expert_worker.train import memory

    seconds = [after - before for before, after in pairwise(clock.marks)]
    seen = sum(int(it) for it in tokens)
    told = {
        # A program may refuse to pack here: then most of its batches is padding, or they are short.
        "filled": seen / (case.rows * case.length * len(tokens)),
        "tokens_per_second": sum(int(it) for it in tokens[1:]) / sum(seconds[1:]),
        "first_step_seconds": seconds[0],
        "peak_bytes": memory.peak(device),
        "versions": versions(dict.fromkeys((*PACKAGES, program))),
    }
    print(json.dumps(told))
