"""Checkpoints: committed atomically, verified before use, retained by policy, mirrored in the background.

The store is imported when it is first asked for: `files` must cost no import of torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expert_worker.checkpoint.compatible import lengthens, refuse_unless_same
    from expert_worker.checkpoint.store import Content, Loaded, Store

_HOMES = {
    "Content": "store",
    "Loaded": "store",
    "Store": "store",
    "lengthens": "compatible",
    "refuse_unless_same": "compatible",
}

__all__ = ["Content", "Loaded", "Store", "lengthens", "refuse_unless_same"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
