"""A trial: a manifest planned by the CLI for a card, and a few of its steps on the stand-in driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stand_in import ROOT, Card, Driver

PROGRAM = Path(__file__).with_name("measure_steps.py")
CLI = ROOT / "target" / "release" / ("expert-cli.exe" if os.name == "nt" else "expert-cli")
_HEAD = {
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
}


def config_of(kind: str, **dimensions: Any) -> dict[str, Any]:
    architecture = {"qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM"}[kind]
    return {"model_type": kind, "architectures": [architecture], "hidden_act": "silu", **_HEAD, **dimensions}


BASES = {
    "tiny": config_of(
        "qwen3", vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=40960,
        tie_word_embeddings=True,
    ),
    "qwen3-0.6b": config_of(
        "qwen3", vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
        num_attention_heads=16, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960,
        tie_word_embeddings=True, rope_theta=1e6,
    ),
    "qwen3-8b": config_of(
        "qwen3", vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36,
        num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960,
        tie_word_embeddings=False, rope_theta=1e6,
    ),
    "llama-8b": config_of(
        "llama", vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=131072,
        tie_word_embeddings=False, rope_theta=5e5,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """`config` are keys of training.config; the rest of it is what `init` writes for a card."""

    base: str = "qwen3-0.6b"
    card: Card | None = None
    rows: int = 4
    length: int = 2048
    steps: int = 4
    measured: int = 2
    """The step that is measured. The first ones make the optimizer's state and fill the allocator's cache."""
    quantization: str = "none"
    config: dict[str, Any] = field(default_factory=dict)
    others_take: float = 0.0
    """GiB that other processes take before the measured step."""
    fault: str | None = None
    """What is done to the measured step to see that it is found: see FAULTS in measure_steps.py."""
    traced: bool = False
    """Whether the measured step's operations are listed (op_trace.py). Its launches are not counted then."""


Found = tuple[dict[str, Any], dict[str, Any]]
"""The plan, and what was measured, with the plan's forecast."""


def run(driver: Driver, trial: Trial, card: Card, folder: Path) -> Found:
    return run_all(driver, {trial.base: trial}, card, folder)[trial.base]


def run_all(driver: Driver, trials: Mapping[str, Trial], card: Card, folder: Path) -> dict[str, Found]:
    """One after another in one process: importing torch takes longer than a small trial."""
    environment = driver.environment(card)
    asked, plans, forecasts = [], {}, []
    for name, trial in trials.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        base = write_base(place / trial.base, BASES[trial.base])
        home = {"EXPERT_HOME": str(folder / "home")}
        plans[name], forecast = _planned(trial, base, place, driver.for_cli(card) | home)
        forecasts.append(forecast)
        path = place / "plan.json"
        path.write_text(json.dumps(plans[name]))
        keys = ("rows", "length", "steps", "measured", "others_take", "fault", "traced")
        settings = {key: getattr(trial, key) for key in keys}
        asked.append({"path": str(path), "base": str(base), "settings": settings})
    (folder / "trials.json").write_text(json.dumps(asked))
    done = subprocess.run(
        [sys.executable, PROGRAM, folder / "trials.json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [one | {"forecast": forecast} for one, forecast in zip(found, forecasts, strict=True)]
    return {name: (plans[name], one) for name, one in zip(trials, found, strict=True)}


def manifest_of(base: str, config: dict[str, Any], quantization: str = "none") -> dict[str, Any]:
    """`config`: keys of training.config, beside what `init` writes for a card."""
    whole = {
        **({"adapter_type": "lora", "rank": 16, "alpha": 32} if "adapter_type" not in config else {}),
        "target_modules": "all-linear",
        "max_seq_length": 2048,
        "packing": True,
        "learning_rate": 1e-4,
        "bf16": True,
        "optim": "adamw_torch_fused",
        **config,
    }
    return {
        "name": "expert-card",
        "base_models": [{"name": base, "quantization": quantization}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": whole},
    }


def _planned(
    trial: Trial, base: Path, folder: Path, environment: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    (folder / "train.jsonl").write_text('{"text": "a"}\n')
    config = {
        "batch_size": trial.rows,
        "max_seq_length": trial.length,
        "max_steps": trial.steps,
        **trial.config,
    }
    manifest = manifest_of(str(base), config, trial.quantization)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    command = [CLI, "plan", "--json", "--device", "cuda", "-m", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    document = json.loads(done.stdout)
    plan: dict[str, Any] = document["plan"]
    plan["request"] = {"stage": "bench", "limit_seconds": 600.0}
    plan["machine"]["logging"]["trackers"] = []
    plan["recipe"]["saving"]["strategy"] = "no"
    return plan, document["forecast"]


def write_base(folder: Path, config: dict[str, Any]) -> Path:
    """A base without weights: its config, a tokenizer of two words, a file that stands for the weights."""
    folder.mkdir(exist_ok=True)
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    words = {"type": "WordLevel", "vocab": {"<eos>": 0, "<unk>": 1}, "unk_token": "<unk>"}
    tokenizer = {"version": "1.0", "added_tokens": [{"id": 0, "content": "<eos>", **special}], "model": words}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "pad_token": "<eos>"}
    head = b'{"x":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}'
    head += b" " * (-len(head) % 8)
    documents = {"config.json": config, "tokenizer.json": tokenizer, "tokenizer_config.json": kind}
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(2))
    return folder
