"""The layers that the adapter is put on: names of the recipe, `all-linear` and defaults, found in the loaded
base. A name without a layer is an error, and so is any difference from what the plan counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from expert_worker.base.families import family, is_adaptable, refusal, selects
from expert_worker.errors import BadInput, Failed
from expert_worker.plan import Adapter

ALL_LINEAR = "all-linear"


@dataclass(frozen=True)
class Modules:
    target: tuple[str, ...] = ()
    feedforward: tuple[str, ...] = ()
    # Full names that an entry of `target` also matches, outside the decoder's blocks.
    exclude: tuple[str, ...] = ()


def find(base: Any, recipe: Adapter) -> Modules:
    architecture = str(base.config.model_type)
    _refuse(architecture)
    if recipe.kind == "prompt":
        return Modules()
    names = [name for name, module in base.named_modules() if name and _is_linear(module)]
    adaptable = [name for name in names if is_adaptable(name)]
    target, feedforward = recipe.target_modules, recipe.feedforward_modules
    if target == (ALL_LINEAR,):
        target = tuple(sorted({_short(name) for name in adaptable}))
    elif not target:
        target, feedforward = _ia3(architecture, adaptable, feedforward)
    words = [name for name, module in base.named_modules() if isinstance(module, nn.Embedding)]
    _demand("target_modules", target, [*names, *words], adaptable, architecture)
    _demand("feedforward_modules", feedforward, names, adaptable, architecture)
    return Modules(target, feedforward, tuple(_others(base, target, adaptable)))


def check_count(planned: int | None, count: int, base: str) -> None:
    """`count` parameters are trained: as many as the plan shows, if it shows them."""
    if planned is None or planned == count:
        return
    raise Failed(
        f"The plan counts {planned:,} trained parameters, and the adapter on "
        f"{base} has {count:,}: nothing is trained",
        hint="Plan again if the base changed since. Otherwise report it, with the base's config.json.",
        code="trained-parameters-differ",
    )


def _refuse(architecture: str) -> None:
    reason = refusal(architecture)
    if reason is not None:
        raise BadInput(
            f"The base's architecture {architecture} cannot be trained: it has {reason}",
            hint="Choose a base made of attention and MLP layers, such as Qwen/Qwen3-0.6B.",
            code="base-unsupported",
        )


def _ia3(
    architecture: str, adaptable: Sequence[str], feedforward: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = family(architecture)
    if known is None:
        raise BadInput(
            f"There are no default modules of ia3 for the architecture {architecture}",
            hint=f"Set target_modules to some of {_listed(adaptable)}.",
            code="adapter-modules",
        )
    return tuple(sorted(known.ia3.target)), feedforward or known.ia3.feedforward


def _demand(
    key: str, entries: Iterable[str], names: Sequence[str], adaptable: Sequence[str], architecture: str
) -> None:
    strays = [entry for entry in entries if not any(selects(entry, name) for name in names)]
    if strays:
        verb = "matches" if len(strays) == 1 else "match"
        raise BadInput(
            f"{', '.join(strays)} of {key} {verb} no layer of the base (architecture {architecture})",
            hint=f"Its layers are {_listed(adaptable)}.",
            code="module-missing",
        )


def _others(base: Any, target: Sequence[str], adaptable: Sequence[str]) -> Iterable[str]:
    """peft goes by the end of a name: a vision tower's `q_proj` is one too."""
    wanted = {entry for entry in target if any(selects(entry, name) for name in adaptable)}
    inside = frozenset(adaptable)
    for name, _ in base.named_modules():
        if name not in inside and any(selects(entry, name) for entry in wanted):
            yield name


def _is_linear(module: nn.Module) -> bool:
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, nn.Linear | Conv1D)


def _short(name: str) -> str:
    """The last part; of a list's items the last two."""
    parts = name.split(".")
    return ".".join(parts[-2:] if parts[-1].isdecimal() else parts[-1:])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted({_short(name) for name in names}))
