"""Trains the experts of the given plans fused on the stand-in driver, with values (computed.py): one plan is
trained alone. Each run's events are in its folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.pop("LD_PRELOAD", None)

from computed import Computed

from expert_worker import together
from expert_worker.events.sinks import Pipe
from expert_worker.process.leave import leave
from expert_worker.train import fused


def computed(work: Callable[..., Any]) -> Callable[..., Any]:
    """A mode of torch's is that of one thread."""

    def run(*given: Any) -> Any:
        with Computed():
            return work(*given)

    return run


def main() -> int:
    together._Run.carry_out = computed(together._Run.carry_out)  # type: ignore[method-assign]
    compute = fused.FusedGroup.compute
    fused.FusedGroup.compute = (  # type: ignore[method-assign]
        lambda self, work: compute(self, computed(work))
    )
    return together.carry_out_fused([Path(plan) for plan in sys.argv[1:]], Pipe.of_stdout())


if __name__ == "__main__":
    leave(main())
