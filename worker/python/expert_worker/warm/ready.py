"""What the warm parent has ready for its children, and whether it is still one that may fork."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from expert_worker.imports import quick_imports
from expert_worker.plan import Plan, load_plan
from expert_worker.stages import module_of

_LIBRARIES = (
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "expert_worker.pretokenize",
    "expert_worker.evaluate.stage",
    "expert_worker.report",
)
# They look for a GPU while they are imported, which the children must do for themselves.
_LOOKING_FOR_GPUS = ("peft", "bitsandbytes")
_WITH_A_MODEL = frozenset({"train", "evaluate"})


class Readiness:
    def __init__(self) -> None:
        self._threads: int | None = None
        # A stage that tests put in a real one's place needs nothing of what the real one does.
        self._real = module_of("train") == "expert_worker.train.stage"

    def import_libraries(self) -> None:
        """What cannot be imported is the child's to report."""
        # Before torch is loaded: it says how torch's threads wait.
        names = [module_of("train")]
        if self._real:
            os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
            names += _LIBRARIES
            names += () if _has_gpu() else _LOOKING_FOR_GPUS
        # A child must not copy a page of this process just because its garbage collector looked at it.
        with quick_imports():
            for name in names:
                with suppress(Exception):
                    importlib.import_module(name)

    def load_base_of(self, stage: str, plan_path: Path) -> None:
        """The weights that this stage will load, if they can be shared; the child reports errors."""
        if not self._real or stage not in _WITH_A_MODEL:
            return
        with suppress(Exception):
            self._load(load_plan(plan_path))

    def _load(self, plan: Plan) -> None:
        import torch

        from expert_worker.base import warm

        if self._threads is None:
            self._threads = torch.get_num_threads()
        # A pool of threads does not outlive a fork, and who asks it for work then waits for ever.
        torch.set_num_threads(1)
        if warm.keep(plan.recipe.base, plan.machine):
            gc.collect()
            gc.freeze()

    def restore_threads(self) -> None:
        """In the child: as if torch had been loaded there."""
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)

    def may_fork(self) -> bool:
        """A GPU's context does not survive a fork, and other threads' locks stay locked for ever."""
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join(1.0)
        torch = sys.modules.get("torch")
        untouched = torch is None or not torch.cuda.is_initialized()
        return untouched and threading.active_count() == 1


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
