"""The golden runs on this processor, or held to an older one's instructions by the environment: prints where
they ran and their losses as JSON."""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path

import pytest

from expert_worker.imports import quick_imports

with quick_imports():
    import torch
    from scene import put_data, rows, train

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
    """What decides the bytes: MKL, for example, has different kernels for processors of different makers."""
    version = torch.__version__.split("+")[0]
    return f"torch {version}, {torch.backends.cpu.get_cpu_capability()}, {_maker()}"


def _maker() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")), "unknown")


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
