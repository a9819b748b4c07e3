"""Base folders that bring code, lie about their tensors, or ask for the impossible."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt

Spoil = Callable[[Path], None]


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.marker), "w"))


def evil(path: Path) -> None:
    path.write_bytes(pickle.dumps(Evil(path.parents[1] / "pwned")))


def pickled(*names: str, keep: bool = False) -> Spoil:
    def spoil(base: Path) -> None:
        if not keep:
            (base / "model.safetensors").unlink()
        for name in names:
            evil(base / name)

    return spoil


def config(**changes: Any) -> Spoil:
    def spoil(base: Path) -> None:
        path = base / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return spoil


def write(name: str, content: str | bytes) -> Spoil:
    def spoil(base: Path) -> None:
        (base / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return spoil


def header(change: Callable[[dict[str, Any]], None] | None, length: int | None = None) -> Spoil:
    def spoil(base: Path) -> None:
        path = base / "model.safetensors"
        content = path.read_bytes()
        (size,) = struct.unpack("<Q", content[:8])
        document = json.loads(content[8 : 8 + size])
        if change:
            change(document)
        text = json.dumps(document).encode()
        path.write_bytes(
            struct.pack("<Q", len(text) if length is None else length) + text + content[8 + size :]
        )

    return spoil


def first(document: dict[str, Any]) -> dict[str, Any]:
    tensor: dict[str, Any] = next(value for name, value in document.items() if name != "__metadata__")
    return tensor


def rename(document: dict[str, Any]) -> None:
    for name in [name for name in document if name != "__metadata__"]:
        document[f"x.{name}"] = document.pop(name)


def cut(base: Path) -> None:
    path = base / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def auto_map(base: Path) -> None:
    config(auto_map={"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}, model_type="evil")(base)
    (base / "evil.py").write_text(f"open({str(base.parent / 'pwned')!r}, 'w')\nclass Evil: pass\n")


def auto_map_far(base: Path) -> None:
    config(auto_map={"AutoModelForCausalLM": "someone/evil--evil.Evil"})(base)


def index(document: Any) -> Spoil:
    def spoil(base: Path) -> None:
        (base / "model.safetensors").rename(base / "model-00001-of-00001.safetensors")
        (base / "model.safetensors.index.json").write_text(json.dumps(document))

    return spoil


CASES: dict[str, Spoil] = {
    "pytorch_model.bin": pickled("pytorch_model.bin"),
    "pytorch_model.bin beside safetensors": pickled("pytorch_model.bin", "training_args.bin", keep=True),
    "a pickle named safetensors": pickled("model.safetensors"),
    "an index of pickles": index({"weight_map": {"lm_head.weight": "pytorch_model.bin"}}),
    "an index that climbs": index({"weight_map": {"lm_head.weight": "../../../../etc/passwd"}}),
    "an index that is none": index([1, 2]),
    "auto_map": auto_map,
    "auto_map of another repository": auto_map_far,
    "generation code": write("generation_config.json", '{"custom_generate": "x"}'),
    "weights cut": cut,
    "weights of nothing": write("model.safetensors", b""),
    "a header of 2^63 bytes": header(None, 2**63 - 1),
    "a header of 0 bytes": header(None, 0),
    "offsets beyond the file": header(lambda d: first(d).update(data_offsets=[0, 2**40])),
    "offsets below zero": header(lambda d: first(d).update(data_offsets=[-4, 4])),
    "another shape": header(lambda d: first(d).update(shape=[1, 1])),
    "a type that is none": header(lambda d: first(d).update(dtype="F99")),
    "another model's tensors": header(rename),
    "config.json cut": write("config.json", '{"model_type": "qwen'),
    "config.json a list": write("config.json", "[]"),
    "a type of model that is none": config(model_type="../../evil"),
    "layers of 10^9": config(num_hidden_layers=10**9),
    "a hidden size of 10^9": config(hidden_size=10**9),
    "heads of zero": config(num_attention_heads=0, num_key_value_heads=0),
    "a size in text": config(hidden_size="32"),
    "a vocabulary below zero": config(vocab_size=-1),
    "another type's quantization": config(quantization_config={"quant_method": "gptq", "bits": 4}),
    "a rope of text": config(rope_scaling={"type": "evil", "factor": "x"}),
    "a dtype that is none": config(dtype="os.system"),
    "an attention that is none": config(attn_implementation="someone/evil"),
}  # fmt: skip


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else CASES:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    base = folder / "base"
    shutil.copytree(world.base(), base)
    CASES[name](base)
    world.write_rows(folder / "train.jsonl", world.rows(count=2))
    value = world.inside("generate", str(folder), str(base), None, seconds=90, memory=6 << 30)
    assert not (folder / "pwned").exists(), "the base's code ran"
    world.refused_or_done(value)


AREA = Area("bases", "base folders (pickles, auto_map, headers, configs)", attempts)
