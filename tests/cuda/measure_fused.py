"""Passes of several experts on the stand-in driver, fused and alone: a JSON object for each trial.

`measure_fused.py TRIALS`: a JSON file with a list of plan, base and how many experts. Bases are those of
measure_steps.py.
"""

from __future__ import annotations

import ctypes
import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from measure_steps import KINDS, base_on_device

import torch  # isort: skip

from expert_worker.plan import load_plan
from expert_worker.process.leave import leave
from expert_worker.train import fuse_probe, fused

DRIVER = ctypes.CDLL(None)
DRIVER.fakecuda_count.restype = ctypes.c_longlong


def counted(work: Callable[[], object]) -> dict[str, int]:
    """What a pass launches, how often the host waits in it, and the allocator's peak."""
    # Copies of A and B are made by the first pass after a step, and the allocator's cache is filled.
    work()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    waits: list[str] = []
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, *_, **__: waits.append(str(message))  # type: ignore[assignment]
    torch.cuda.set_sync_debug_mode("warn")
    before = {name: int(DRIVER.fakecuda_count(ord(kind))) for kind, name in KINDS.items()}
    work()
    after = {name: int(DRIVER.fakecuda_count(ord(kind))) for kind, name in KINDS.items()}
    torch.cuda.set_sync_debug_mode("default")
    waited = [it for it in waits if "called a synchronizing CUDA operation" in it]
    return {
        **{name: after[name] - before[name] for name in ("kernels", "products")},
        "waits": len(waited),
        "peak_reserved": torch.cuda.max_memory_reserved(),
    }


def measured(path: str, base: str, experts: int) -> dict[str, Any]:
    plan = load_plan(Path(path))
    fused.locate = lambda *_: Path(base)  # type: ignore[assignment]
    fused.load_base = lambda *given, like=None, **__: (  # type: ignore[assignment]
        like or base_on_device(base, *given)
    )
    length = plan.recipe.batch.max_seq_length
    wanted = fuse_probe.Wanted(
        plan=plan, documents=plan.machine.micro_batch, tokens=length, sizes=[experts], seconds=0.0
    )
    torch.cuda.empty_cache()
    group, members = fuse_probe._group(fused.Member.computed(plan), experts)
    batches = {member: fuse_probe._batch(wanted, seed) for seed, member in enumerate(members)}

    def without_gradients(work: Callable[[], object]) -> Callable[[], object]:
        """As a step's first micro-batch finds them."""

        def one() -> None:
            for member in members:
                for parameter in member.alone.trained:
                    parameter.grad = None
            work()

        return one

    together = without_gradients(fuse_probe._fused(group, members, batches))
    alone = without_gradients(lambda: members[0].alone.backward(batches[members[0]], 1.0))
    found = {"fused": group.compute(partial(counted, together)), "alone": counted(alone)}
    return {**found, "helpers": len(psutil.Process().children())}


def main() -> None:
    for trial in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps(measured(**trial)), flush=True)


if __name__ == "__main__":
    main()
    leave(0)
