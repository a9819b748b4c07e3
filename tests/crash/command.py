"""Small experts on a tiny base, trained through the real command line by the settings that users run.

A test here compares runs with each other, which says nothing where a run trains nothing: each holds its
undisturbed run against `assert_learnt`.
"""

import json
import os
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from pretokenize.bases import gpt2_like, write_base
from tiny import CONFIGS
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parents[2]


def find_cli() -> Path | None:
    """EXPERT_CLI names another build than the one that `make setup` leaves."""
    named = os.environ.get("EXPERT_CLI")
    found = Path(named) if named else ROOT / "target" / "release" / "expert-cli"
    return found if found.is_file() else None


def surroundings(threads: int) -> dict[str, str]:
    """The worker's sources of this repository, under this interpreter."""
    paths = [str(ROOT / "worker" / "python"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "EXPERT_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": str(threads),
    }


def save_base(folder: Path) -> Path:
    """A random Qwen3 with a byte-level tokenizer, which the fast encoder takes, and a chat template."""
    if folder.exists():
        return folder
    tokenizer = gpt2_like()
    config = deepcopy(CONFIGS["qwen3"])
    config.vocab_size = tokenizer.get_vocab_size()
    config.eos_token_id = tokenizer.token_to_id("<|im_end|>")
    config.pad_token_id = tokenizer.token_to_id("<|endoftext|>")
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return write_base(folder, tokenizer, pad_token="<|endoftext|>")


def rows_of(seed: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "prompt": f"total of {row % 90 + 1} and {row % 7 + 3}",
            "completion": f"SELECT {row % 11 + 5 + seed} {row % 13 + 2}",
        }
        for row in range(40)
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def manifest_of(name: str, base: str, **settings: object) -> dict[str, Any]:
    config = {
        "method": "sft",
        "adapter_type": "lora",
        "rank": 4,
        "alpha": 8,
        "dropout": 0.1,
        "learning_rate": 0.01,
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_seq_length": 64,
        "packing": True,
        "bf16": True,
        "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "lr_scheduler": "cosine",
        "warmup_ratio": 0.05,
        "save_strategy": "steps",
        "save_steps": 2,
        **settings,
    }
    return {
        "name": name,
        "version": "1.0.0",
        "schema_version": "2.0",
        "description": "Words that follow words.",
        "base_models": [{"name": base, "quantization": "none"}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": config},
    }
