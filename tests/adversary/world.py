"""A base, experts and plans to attack. The base is made once, by the forge; the rest is files."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.adversary import cli
from tests.adversary.attempt import REFUSED
from tests.adversary.forge import FAILED, Ended, Forge

_FOLDER = tempfile.TemporaryDirectory(prefix="expert-adversary-")
FOLDER = Path(_FOLDER.name)
FORGE = Forge(FOLDER)
cli.SHARED_HOME = FOLDER / "home"


@cache
def base() -> Path:
    folder = FOLDER / "base"
    ended = FORGE.call("tests.adversary.inside:save_base", str(folder), seconds=120)
    assert ended.code == 0, ended.said
    return folder


def rows(seed: int = 0, count: int = 24) -> list[dict[str, Any]]:
    return [
        {"prompt": f"total of {row + 1} and {row % 7}", "completion": f"SELECT {row % 11 + seed} {row % 13}"}
        for row in range(count)
    ]


def write_rows(path: Path, given: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in given))
    return path


def manifest(base_name: str, config: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The settings that `init` writes, small: default optimizer, bf16, packing, seven modules."""
    settings = {
        "method": "sft",
        "adapter_type": "lora",
        "rank": 4,
        "alpha": 8,
        "dropout": 0.0,
        "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "max_steps": 6,
        "learning_rate": 0.01,
        "lr_scheduler": "cosine",
        "warmup_ratio": 0.05,
        "max_grad_norm": 1.0,
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_seq_length": 64,
        "packing": True,
        "bf16": True,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": 2,
        **(config or {}),
    }
    return {
        "name": "ash",
        "version": "1.0.0",
        "schema_version": "2.0",
        "description": "Sums that become queries.",
        "base_models": [{"name": base_name, "quantization": "none"}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": settings},
        **more,
    }


def expert(folder: Path, config: Mapping[str, Any] | None = None, *, seed: int = 0, **more: Any) -> Path:
    """An expert in its own folder, with a copy of the base beside it."""
    place = folder / "ash"
    place.mkdir(parents=True)
    if not (folder / "base").exists():
        shutil.copytree(base(), folder / "base")
    write_rows(place / "train.jsonl", rows(seed))
    (place / "manifest.json").write_text(json.dumps(manifest("../base", config, **more)))
    return place


def train(place: Path, *words: object, seconds: float = 120, forged: bool = True, **env: str) -> cli.Said:
    more = {**(FORGE.environment if forged else {}), **env}
    command = ["train", "-m", place, "--device", "cpu", *words]
    return cli.run(*command, cwd=place.parent, env=more, seconds=seconds)


def run_of(place: Path) -> Path:
    return place / "weights/base"


def adapter_of(run: Path) -> str:
    return digest(run / "final/adapter_model.safetensors")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below, with its content: what must not have changed."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def inside(function: str, *arguments: Any, seconds: float = 60, memory: int = 4 << 30) -> Any:
    """A function of `inside.py` in a child of the forge; how it ended is checked, its value returned."""
    seconds *= cli.PATIENCE
    ended = FORGE.call(f"tests.adversary.inside:{function}", *arguments, seconds=seconds, memory=memory)
    assert not ended.timed_out, f"no end within {seconds:g} s"
    assert ended.code >= 0, f"ended by signal {-ended.code}: {ended.said[-300:]}"
    if ended.value is None and ended.code in REFUSED:
        return failed_in(ended)
    assert ended.code == 0, ended.said[-400:]
    return ended.value


def failed_in(ended: Ended) -> dict[str, Any]:
    """The failure that a stage reported from its watchdog thread before it ended its process."""
    lines = [line for line in ended.said.splitlines() if line.startswith(FAILED)]
    assert lines, f"exit {ended.code} without a reported failure: {ended.said[-300:]}"
    body = json.loads(lines[-1].removeprefix(FAILED))
    return {"exit": ended.code, "code": body["code"], "message": body["message"], "result": None, "steps": []}


def refused_or_done(value: Mapping[str, Any]) -> None:
    """What `inside.stage` returns: a documented end in words."""
    assert value["exit"] in {0, 1, 2, 3, 4, 5}, value
    if value["exit"]:
        assert value["message"].strip(), value
        assert value["code"] != "unforeseen", value["message"]


__all__ = ["FOLDER", "FORGE", "Ended", "base", "expert", "inside", "manifest", "rows", "train"]
