"""An adapter from anywhere: it is used whole, or refused in words before it can cost anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluate import tiny
from peft import LoKrConfig, LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from expert_worker.adapter import CONFIG, EXPERT, WEIGHTS, check_adapter
from expert_worker.base.adapter import load_adapter
from expert_worker.errors import BadInput
from expert_worker.exit import Exit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = get_peft_model(tiny.model(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(std=2.0, generator=torch.Generator().manual_seed(4))
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def changed(folder: Path, **keys: Any) -> None:
    document = json.loads((folder / CONFIG).read_text()) | keys
    (folder / CONFIG).write_text(json.dumps(document))


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.arange(9)[None]).logits


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"target_modules": r".*\.self_attn\.(q|v)_proj"},
        {"rank_pattern": {"q_proj": 4}, "r": 3, "alpha_pattern": {r"layers\.\d+\.self_attn\.v_proj": 8}},
    ],
    ids=["as saved", "pattern", "patterns of ranks"],
)
def test_an_adapter_is_what_plain_peft_makes_of_it(folder: Path, keys: dict[str, Any]) -> None:
    from peft import PeftModel

    if "rank_pattern" in keys:
        keys["rank_pattern"]["v_proj"] = 4
    changed(folder, **keys)
    plain = logits(PeftModel.from_pretrained(tiny.model(), str(folder)).eval())
    assert torch.equal(logits(load_adapter(tiny.model(), folder)), plain)
    assert not torch.equal(plain, logits(tiny.model()))


def tensors(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], None]:
    return lambda folder: save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def config(**keys: Any) -> Callable[[Path], None]:
    return lambda folder: changed(folder, **keys)


def written(name: str, content: bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(content)


def cut(folder: Path) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-100])


def first(found: dict[str, torch.Tensor]) -> str:
    return min(found)


ODD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "other weights": (tensors(lambda t: {f"x.{name}": part for name, part in t.items()}), "have no place"),
    "no tensors": (tensors(lambda t: {}), "holds no tensors"),
    "one missing": (tensors(lambda t: {n: p for n, p in t.items() if n != first(t)}), "are missing, such as"),
    "one too many": (
        tensors(lambda t: t | {"base_model.model.model.layers.7.x": t[first(t)].clone()}),
        "layers.7.x",
    ),
    "another rank": (tensors(lambda t: {n: p.repeat(2, 2) for n, p in t.items()}), "and its settings need"),
    "integers": (tensors(lambda t: {n: p.int() for n, p in t.items()}), "has the type I32"),
    "not finite": (tensors(lambda t: t | {first(t): t[first(t)] * float("nan")}), "not finite"),
    "cut off": (cut, "cannot be read"),
    "huge header": (written(WEIGHTS, b"\xff" * 8 + b"{}"), "cannot be read"),
    "a pickle": (written(WEIGHTS, b"\x80\x04cos\nsystem\n."), "cannot be read"),
    "empty": (written(WEIGHTS, b""), "cannot be read"),
    "config cut off": (written(CONFIG, b'{"peft_type": "LO'), "is not JSON"),
    "config nested": (written(CONFIG, b"[" * 100_000), "is not JSON"),
    "config a list": (written(CONFIG, b"[]"), "not a JSON object"),
    "another kind": (config(peft_type="XLORA"), "'XLORA', not one of LORA"),
    "no kind": (config(peft_type=None), "None, not one of LORA"),
    "kind a list": (config(peft_type=["LORA"]), "not one of LORA"),
    "megatron": (config(megatron_config={"a": 1}, megatron_core="os"), "code to import"),
    "huge rank": (config(r=60_000), "no tensor in adapter_model.safetensors is that large"),
    "huger rank": (config(r=10**12), "sets r to 1e"),
    "rank text": (config(r="8"), "cannot load it"),
    "rank zero": (config(r=0), "cannot load it"),
    "no modules": (config(target_modules=["nothing"]), "cannot load it"),
    "backtracking": (
        config(target_modules="(m|o|d|e|l|[a-z_.]|.)*(.*.*.*.*)*x" + "y"),
        "takes too long|no module",
    ),
    "no pattern": (config(target_modules="(("), "not a regular expression"),
    "pattern of layers": (config(layers_pattern="(a+)+", layers_to_transform=[0]), "regular expression"),
}


@pytest.mark.parametrize(("change", "said"), ODD.values(), ids=ODD.keys())
def test_an_odd_adapter_is_refused_in_words(folder: Path, change: Callable[[Path], Any], said: str) -> None:
    change(folder)
    with pytest.raises(BadInput, match=said) as caught:
        load_adapter(tiny.model(), folder)
    assert str(folder) in caught.value.message and caught.value.hint
    assert caught.value.code == "adapter-unusable" and caught.value.exit_code == Exit.BAD_INPUT


@pytest.mark.parametrize("kind", [LoraConfig, LoKrConfig], ids=lambda kind: kind.__name__)
def test_an_adapter_of_a_wider_base_is_refused_with_both_shapes(tmp_path: Path, kind: Any) -> None:
    config = tiny.model().config
    wider = type(config)(**{**config.to_dict(), "hidden_size": 2 * config.hidden_size})
    model = get_peft_model(type(tiny.model())(wider), kind(target_modules=["q_proj", "v_proj"]))
    model.save_pretrained(tmp_path / "adapter")
    with pytest.raises(
        BadInput, match=r"layers\.0\.\S+ has the shape \[.+\], and its settings need \["
    ) as caught:
        load_adapter(tiny.model(), tmp_path / "adapter")
    assert caught.value.hint == "Use the base that it was trained on: see its README.md."


def test_an_adapter_that_is_not_the_recorded_one_is_refused(tmp_path: Path) -> None:
    for name in (CONFIG, WEIGHTS):
        (tmp_path / name).write_bytes(name.encode())
    check_adapter(tmp_path)
    digests = {name: {"sha256": hashlib.sha256(name.encode()).hexdigest()} for name in (CONFIG, WEIGHTS)}
    (tmp_path / EXPERT).write_text(json.dumps({"format": 1, "files": digests}))
    check_adapter(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(b"other")
    with pytest.raises(BadInput, match=f"{WEIGHTS} is damaged or was changed") as raised:
        check_adapter(tmp_path)
    assert raised.value.code == "adapter-damaged" and raised.value.hint
