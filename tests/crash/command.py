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
from defaults import ROOT, Case, settings_of
from pretokenize.bases import gpt2_like, write_base
from tiny import CONFIGS
from transformers import AutoModelForCausalLM


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
        # Threads that wait sleep: other tests have the processor meanwhile.
        "OMP_WAIT_POLICY": "passive",
    }


HUSH = "hush-4f1c"
# Each with that value: no file that a run leaves and no line that it prints may contain it.
SECRETS = dict.fromkeys(
    (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "WANDB_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
    ),
    HUSH,
)


def leaks(*folders: Path) -> list[Path]:
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(found) > 10
    return [path for path in found if HUSH.encode() in path.read_bytes()]


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


# Base 1 is not quantized, so that two processes can train it together.
SAMPLE = Case("expert-sql base 1", ROOT / "experts" / "expert-sql" / "manifest.json", base=1)
# Of a case only these change: sizes, and a rate at which a tiny base learns in a dozen steps.
SIZES: dict[str, object] = {
    "learning_rate": 0.01,
    "batch_size": 2,
    "gradient_accumulation_steps": 2,
    "max_seq_length": 64,
    "save_strategy": "steps",
    "save_steps": 2,
}


def manifest_of(name: str, base: str, case: Case = SAMPLE, **settings: object) -> dict[str, Any]:
    """An expert with the settings of a case of `defaults`: what users run, on a tiny base and few rows."""
    config, quantization = settings_of(case)
    config = {key: value for key, value in config.items() if key not in ("epochs", "pretokenized_cache")}
    config |= {**SIZES, **settings}
    dataset: dict[str, object] = {"path": "train.jsonl"}
    if config.get("evaluation_strategy", "no") != "no":
        config |= {"evaluation_strategy": "steps", "eval_steps": 2, "eval_rows": 4}
        if config.get("metric_for_best_model") == "accuracy":  # It needs a file of its rows and their scorer.
            config |= {"metric_for_best_model": "eval_loss", "greater_is_better": False}
        dataset["validation_split"] = 0.2
    if config.get("warmup_steps"):
        config["warmup_steps"] = 1
    return {
        "name": name,
        "version": "1.0.0",
        "schema_version": "2.0",
        "description": "Words that follow words.",
        "base_models": [{"name": base, "quantization": quantization}],
        "training": {"dataset": dataset, "config": config},
    }
