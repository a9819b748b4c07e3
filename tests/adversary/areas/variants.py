"""One recipe in 16 variants, each cut at step 3 and resumed: the bytes of the undisturbed run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt

NAME, KIND = "recipe.optimizer.name", "recipe.adapter.kind"
VARIANTS: dict[str, dict[str, Any]] = {
    **{
        f"{kind}, {optimizer}": {KIND: kind, NAME: optimizer}
        for kind in ("lora", "dora")
        for optimizer in (
            "adamw_torch_fused",
            "adamw_torch",
            "adamw_bnb_8bit",
            "paged_adamw_8bit",
            "paged_adamw_32bit",
        )
    },
    "dora, sgd": {KIND: "dora", NAME: "sgd"},
    "dora, adafactor": {KIND: "dora", NAME: "adafactor"},
    "lora, muon": {KIND: "lora", NAME: "muon"},
    "dora, fused, bf16": {KIND: "dora", NAME: "adamw_torch_fused", "machine.dtype": "bf16"},
    "dora, fused, int4": {KIND: "dora", NAME: "adamw_torch_fused", "recipe.base.quantization": "int4"},
    "dora, fused, recomputed": {
        KIND: "dora",
        NAME: "adamw_torch_fused",
        "machine.checkpointing": "full",
        "recipe.adapter.dropout": 0.1,
    },
}


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else VARIANTS:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    found = world.inside("cut_and_resumed", str(folder), VARIANTS[name], seconds=300)
    assert found["resumed_from"] == 3, found
    assert found["whole"] == found["resumed"], f"other bytes; losses {found['losses']}"
    assert found["whole"] != found["other"], "other rows give the same bytes: nothing was learnt"


AREA = Area("variants", "resume under 16 variants of one recipe", attempts)
