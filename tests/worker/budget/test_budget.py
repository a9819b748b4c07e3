"""`plan`'s memory estimate against the measured peak of a real step, each in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
CLI = Path(os.environ.get("EXPERT_CLI", REPOSITORY / "target" / "release" / "expert-cli"))

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
GEMMA = {
    **LLAMA,
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 32,
    "sliding_window": 4096,
}
QWEN = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 64}
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lora": (LLAMA, {}),
    "lora-bf16": (LLAMA, {"bf16": True}),
    "lora-attention": (LLAMA, {"target_modules": ["q_proj", "v_proj"]}),
    "dora-qwen": (QWEN, {"adapter_type": "dora"}),
    "lora-qwen-selective": (QWEN, {"gradient_checkpointing": "selective"}),
    "lora-full": (LLAMA, {"gradient_checkpointing": "full", "max_seq_length": 4096}),
    "gemma": (GEMMA, {}),
    "gemma-bf16": (GEMMA, {"bf16": True}),
    "gemma-dora": (GEMMA, {"adapter_type": "dora"}),
    "gemma-dora-bf16": (GEMMA, {"adapter_type": "dora", "bf16": True}),
    "gemma-dora-bf16-dropout": (GEMMA, {"adapter_type": "dora", "bf16": True, "dropout": 0.1}),
    "prompt": (LLAMA, {"adapter_type": "prompt", "max_seq_length": 512}),
}
VIRTUAL_TOKENS = 2048


def plan(folder: Path, config: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    (folder / "base").mkdir()
    (folder / "base" / "config.json").write_text(json.dumps(config))
    (folder / "train.jsonl").write_text('{"text": "a"}\n')
    training = {"batch_size": 1, "max_seq_length": 3072}
    manifest: dict[str, Any] = {"name": "sized", "base_models": [{"name": "base"}]}
    if settings.get("adapter_type") == "prompt":
        manifest["soft_prompts"] = [{"tokens": VIRTUAL_TOKENS}]
    else:
        training |= {"rank": 8, "alpha": 16, "target_modules": ALL}
    manifest["training"] = {"dataset": {"path": "train.jsonl"}, "config": {**training, **settings}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    command = [str(CLI), "plan", "--json", "--device", "cpu", "-m", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    document: dict[str, Any] = json.loads(done.stdout)["plan"]
    return document


# At every change the terminal's test compares a whole run with its plan.
@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="resident sizes are read from /proc")
@pytest.mark.parametrize("case", CASES)
def test_estimate_is_near_the_measured_peak(case: str, tmp_path: Path) -> None:
    document = plan(tmp_path, *CASES[case])
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, str(HERE / "peak.py"), str(file)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    measured = json.loads(done.stdout)["added"]
    estimate = document["machine"]["estimate"]
    expected = sum(estimate[part] for part in ("gradients", "optimizer", "activations", "logits"))
    assert 0.9 <= expected / measured <= 1.1, (
        f"estimated {expected / 2**20:.0f} MiB, {measured / 2**20:.0f} measured"
    )
