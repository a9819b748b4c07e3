"""Adapters that bring code, fit another base, or lack their tensors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.areas.bases import evil, write
from tests.adversary.attempt import Area, Attempt

Spoil = Callable[[Path], None]


@cache
def intact() -> Path:
    folder = world.FOLDER / "intact-adapter"
    world.inside("save_adapter", str(folder), str(world.base()))
    return folder


def config(**changes: Any) -> Spoil:
    def spoil(adapter: Path) -> None:
        path = adapter / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return spoil


def pickled(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").unlink()
    evil(adapter / "adapter_model.bin")


def a_pickle_by_name(adapter: Path) -> None:
    evil(adapter / "adapter_model.safetensors")


def cut(adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-50])


def gone(name: str) -> Spoil:
    return lambda adapter: (adapter / name).unlink()


def no_tensors(adapter: Path) -> None:
    text = b"{}      "
    (adapter / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)


def renamed_tensors(adapter: Path) -> None:
    path = adapter / "adapter_model.safetensors"
    content = path.read_bytes()
    assert b"q_proj" in content
    path.write_bytes(content.replace(b"q_proj", b"x_proj").replace(b"down_proj", b"dawn_proj"))


CASES: dict[str, tuple[Spoil, bool]] = {
    "a pickle": (pickled, True),
    "a pickle named safetensors": (a_pickle_by_name, True),
    "megatron_core": (config(megatron_config={"a": 1}, megatron_core="evil"), False),
    "a type that is none": (config(peft_type="EVIL"), True),
    "another task": (config(task_type="SEQ_CLS"), False),
    "auto_mapping": (config(auto_mapping={"base_model_class": "Evil", "parent_library": "evil"}), False),
    "a rank of 10^9": (config(r=10**9), True),
    "a rank below zero": (config(r=-4), True),
    "a rank in text": (config(r="4"), True),
    "another rank": (config(r=8), True),
    "an alpha in text": (config(lora_alpha="eight"), True),
    "modules that are not there": (config(target_modules=["nowhere"]), True),
    "modules by a slow regex": (config(target_modules="(.*a?){40}q_projx"), True),
    "modules by a regex that is none": (config(target_modules="((("), True),
    "an unknown key": (config(evil_key={"a": 1}), False),
    "a config cut": (write("adapter_config.json", '{"peft_type": "LO'), True),
    "a config that is a list": (write("adapter_config.json", "[]"), True),
    "no config": (gone("adapter_config.json"), True),
    "no weights": (gone("adapter_model.safetensors"), True),
    "weights cut": (cut, True),
    "weights without a tensor": (no_tensors, True),
    "weights of other modules": (renamed_tensors, True),
}


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else CASES:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    """`must_refuse`: what does not fit may not answer as if it did."""
    spoil, must_refuse = CASES[name]
    adapter = folder / "adapter"
    shutil.copytree(intact(), adapter)
    (adapter / "evil.py").write_text(f"open({str(folder / 'pwned')!r}, 'w')\n")
    spoil(adapter)
    world.write_rows(folder / "train.jsonl", world.rows(count=2))
    arguments = (str(folder), str(world.base()), str(adapter))
    value = world.inside("generate", *arguments, seconds=120, memory=6 << 30)
    assert not (folder / "pwned").exists() and not (folder.parent / "pwned").exists(), (
        "the adapter's code ran"
    )
    world.refused_or_done(value)
    assert not must_refuse or value["exit"], "it answered as if the adapter fitted"


AREA = Area("adapters", "adapters (pickles, megatron_core, ranks, configs)", attempts)
