"""How the fast path reads a base: one module per layout of layers. `fast_path` in `families.json` names the
module of an architecture; it has `layer` (a block's parts) and `obstacle` (why a base cannot be read so)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from expert_worker.base.families import family


@dataclass(frozen=True)
class LayerParts:
    """The modules of one block, as transformers and peft hold them."""

    query: Any
    key: Any
    value: Any
    output: Any
    gate: Any
    up: Any
    down: Any
    # RMSNorm before attention and before the MLP; of each head, or None.
    before: Any
    between: Any
    query_norm: Any | None
    key_norm: Any | None
    head_width: int
    # What the products of queries and keys are multiplied by.
    scale: float


class Layout(Protocol):
    def layer(self, block: Any) -> LayerParts:
        """The parts of one block of the base."""

    def obstacle(self, config: Any) -> str | None:
        """Why a base with this config cannot be computed, for the user."""


def layout(architecture: str) -> Layout | None:
    """None for an architecture that only the plain path computes."""
    known = family(architecture)
    if known is None or known.fast_path is None:
        return None
    return cast(Layout, import_module(f"{__name__}.{known.fast_path}"))
