"""Model families, as `families.json` lists them: a copy of the table in `contract/src`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

FILE = Path(__file__).with_suffix(".json")


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True)


class Ia3(_Entry):
    """What ia3 scales if the manifest names no module."""

    target: tuple[str, ...]
    feedforward: tuple[str, ...]


class Family(_Entry):
    name: str
    architectures: tuple[str, ...]
    # Those that cannot compute rows longer than the positions that they have.
    bounded_positions: tuple[str, ...] = ()
    ia3: Ia3
    # The module of `train/fast/families` that reads its layers.
    fast_path: str | None = None


class Table(_Entry):
    families: tuple[Family, ...]
    routers: frozenset[str]
    outside: frozenset[str]
    # Reason -> architectures that cannot be trained.
    refused: dict[str, tuple[str, ...]] = Field(default_factory=dict)


@cache
def table() -> Table:
    return Table.model_validate(json.loads(FILE.read_bytes()))


def family(architecture: str) -> Family | None:
    """The family of a `model_type`."""
    return next((it for it in table().families if architecture in it.architectures), None)


def refusal(architecture: str) -> str | None:
    """Why this architecture cannot be trained."""
    return next((reason for reason, all_of in table().refused.items() if architecture in all_of), None)


def is_adaptable(name: str) -> bool:
    """Whether a linear layer of this name is part of `all-linear`: it is in one of the decoder's blocks, and
    is neither an expert nor what chooses between experts."""
    parts = name.split(".")
    if table().outside.intersection(parts) or parts[-1] in table().routers:
        return False
    return any(part.isdecimal() for part in parts)


def selects(entry: str, name: str) -> bool:
    """Whether peft puts an adapter on the module `name` for this entry of `target_modules`."""
    return name == entry or name.endswith("." + entry)
