"""The golden runs on this processor, or held to an older one's instructions by the environment: prints where
they ran and their losses as JSON."""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path
from typing import TypeVar

import pytest

from expert_worker.imports import quick_imports

with quick_imports():
    import torch
    from scene import put_data, rows, train

T = TypeVar("T")
RUNS = {
    "lora": {},
    "dora_dropout": {"recipe.adapter.kind": "dora", "recipe.adapter.dropout": 0.1},
    "ia3": {
        "recipe.adapter.kind": "ia3", "recipe.adapter.rank": None, "recipe.adapter.alpha": None,
        "recipe.adapter.feedforward_modules": ["down_proj"],
    },
}  # fmt: skip
STEPS = 50


def place() -> str:
    """What decides the bytes: MKL, for example, has different kernels for processors of different makers, and
    others for their models."""
    version = torch.__version__.split("+")[0]
    return f"torch {version}, {torch.backends.cpu.get_cpu_capability()}, {_maker()}"


def recorded_at(place: str, recordings: dict[str, T]) -> list[T]:
    """Those that must be met exactly. Some names of places have a maker without a model."""
    return [recorded for name, recorded in recordings.items() if place.startswith(name)]


def _maker() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return f"{named.get('vendor_id')} {named.get('cpu family')}-{named.get('model')}"


def losses(changes: dict[str, object]) -> list[float]:
    changes = {
        "recipe.schedule.duration": {"unit": "steps", "value": STEPS},
        "recipe.saving.strategy": "no",
        "machine.threads.compute": 1,
        **changes,
    }
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        put_data(patch, rows(24))
        return train(Path(folder), changes).losses


if __name__ == "__main__":
    print(json.dumps({"place": place(), "losses": {name: losses(changes) for name, changes in RUNS.items()}}))
