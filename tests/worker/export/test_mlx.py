"""The adapter in MLX's layout: what mlx-lm would compute from the files is what peft computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from expert_worker.errors import BadInput, Failed
from expert_worker.export import mlx_export

from .test_gguf import MODULES, base, export, trained, use_in

__all__ = ["base"]
KINDS: dict[str, dict[str, Any]] = {"lora": {}, "rslora": {"use_rslora": True}, "dora": {"use_dora": True}}


def mlx_weight(folder: Path, place: str, plain: np.ndarray) -> np.ndarray:
    """As `LoRALinear.fuse` and `DoRALinear.fuse` of mlx-lm document it."""
    arrays = load_file(folder / "adapters.safetensors")
    scale = json.loads((folder / "adapter_config.json").read_text())["lora_parameters"]["scale"]
    merged: np.ndarray = plain + (scale * arrays[f"{place}.lora_b"].T) @ arrays[f"{place}.lora_a"].T
    if f"{place}.m" in arrays:
        merged *= (arrays[f"{place}.m"] / np.linalg.norm(merged, axis=1))[:, None]
    return merged


@pytest.mark.parametrize("kind", KINDS)
def test_mlx_computes_the_weights_that_peft_merges(kind: str, base: Path, tmp_path: Path) -> None:
    final, target = trained(base, **KINDS[kind]), tmp_path / "out"
    found = export(base, final, target, gguf=False, mlx=True)
    assert found["logits_difference"] < 1e-5 and "answers" not in found
    about = json.loads((target / "adapter_config.json").read_text())
    assert about["num_layers"] == 2 and about["lora_parameters"]["rank"] == 4
    assert about["fine_tune_type"] == ("dora" if kind == "dora" else "lora")
    blocks = {
        name: "mlp" if name.split("_")[0] in ("gate", "up", "down") else "self_attn" for name in MODULES
    }
    assert about["lora_parameters"]["keys"] == sorted(f"{block}.{name}" for name, block in blocks.items())
    plain = AutoModelForCausalLM.from_pretrained(base)
    before = {name: weight.detach().numpy().copy() for name, weight in plain.named_parameters()}
    merged = PeftModel.from_pretrained(plain, final).merge_and_unload()
    after = {name: weight.detach().numpy() for name, weight in merged.named_parameters()}
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert len(changed) == 2 * len(MODULES)
    for name in changed:
        place = name.removesuffix(".weight")
        np.testing.assert_allclose(mlx_weight(target, place, before[name]), after[name], atol=2e-5)
    names = {path.name for path in target.iterdir()}
    assert {"chat_template.jinja", "generation_config.json", "expert.json", "README.md"} <= names
    assert "adapters.safetensors" in json.loads((target / "expert.json").read_text())["files"]
    assert f"--adapter-path {target}" in found["commands"][0]
    matter, commands = use_in((target / "README.md").read_text(), target)
    assert (matter["library_name"], matter["base_model_relation"]) == ("mlx", "adapter")
    assert "base_model:adapter:Org/Tiny" in matter["tags"]
    assert commands == [found["commands"][0].replace(f"{target}/", "").replace(str(target), ".")]


def test_arrays_that_say_otherwise_are_not_exported(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = mlx_export.mlx_config
    monkeypatch.setattr(
        mlx_export,
        "mlx_config",
        lambda config, *rest: right({**config, "use_rslora": False}, *rest),
    )
    with pytest.raises(Failed, match="The adapter for MLX does not say"):
        export(base, trained(base, use_rslora=True), tmp_path / "out", gguf=False, mlx=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [{"peft_type": "IA3"}, {"rank_pattern": {"q_proj": 8}}])
def test_adapters_without_a_form_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="no form in MLX"):
        mlx_export.check_kind({"peft_type": "LORA", **change})
    with pytest.raises(BadInput, match="lora_embedding_A has no form in MLX"):
        mlx_export.mlx_arrays({"base_model.model.model.embed_tokens.lora_embedding_A": torch.zeros(4, 8)})
