"""A small valid plan for tests: `example_plan(tmp_path, {"recipe.batch.packing": False})`."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expert_worker.plan import Plan, parse_plan

_DECODING = {
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "stop_sequences": [],
    "max_new_tokens": 64,
}

_RECIPE: dict[str, Any] = {
    "expert": "expert-sample",
    "base": {"name": "tiny", "sha256": None, "quantization": "none", "rope_scaling": None},
    "template": {"kind": "chatml", "source": None},
    "data": {
        "train": [{"name": "datasets/train.jsonl", "format": "jsonl", "weight": 1.0, "task": None}],
        "validation": [{"name": "datasets/validation.jsonl", "format": "jsonl", "weight": 1.0, "task": None}],
        "test": [],
        "validation_split": None,
        "field_mapping": {},
        "train_on": "completions",
        "on_bad_row": "error",
        "overlong": "truncate",
        "text_dialogue": "parse",
        "deduplicate": False,
        "min_length": None,
        "max_length": None,
        "streaming": False,
        "max_in_memory_samples": None,
    },
    "adapter": {
        "kind": "lora",
        "rank": 8,
        "alpha": 16.0,
        "dropout": 0.0,
        "target_modules": ["q_proj", "v_proj"],
        "feedforward_modules": [],
        "soft_prompts": [],
    },
    "batch": {
        "rows_per_step": 4,
        "max_seq_length": 128,
        "packing": True,
        "group_by_length": False,
        "drop_last": False,
    },
    "optimizer": {
        "name": "adamw_torch",
        "learning_rate": 0.0002,
        "weight_decay": 0.0,
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
        "max_grad_norm": 1.0,
        "neftune": None,
    },
    "schedule": {
        "kind": "linear",
        "options": {},
        "warmup": {"unit": "steps", "value": 0},
        "duration": {"unit": "steps", "value": 4},
    },
    "precision": {"compute": "fp32", "tf32": False},
    "evaluation": {
        "strategy": "no",
        "steps": None,
        "best": None,
        "suite": None,
        "scorer": None,
        "metrics": [],
        "test_set_size": None,
        "test_cases": [],
    },
    "saving": {"strategy": "steps", "steps": 2},
    "decoding": _DECODING,
    "seed": 42,
}

_MACHINE: dict[str, Any] = {
    "device": {"kind": "cpu", "index": 0, "name": "cpu", "memory_bytes": None},
    "dtype": "fp32",
    "micro_batch": 2,
    "accumulation": 2,
    "fast_path": True,
    "flash_attention": False,
    "sdpa": True,
    "checkpointing": "none",
    "compile": None,
    "cuda_graphs": None,
    "memory_clear_every": None,
    "threads": {"compute": 1, "pretokenize": 1},
    "loader": {
        "use_cache": True,
        "workers": 0,
        "pin_memory": False,
        "prefetch_factor": None,
        "persistent_workers": False,
    },
    "logging": {"steps": 1, "trackers": ["tensorboard"]},
    "save_total_limit": None,
    "mirror": None,
    "estimate": {
        "weights": 0,
        "adapter": 0,
        "gradients": 0,
        "optimizer": 0,
        "activations": 0,
        "logits": 0,
        "context": 0,
        "total": 0,
    },
}

_REQUEST = {
    "stage": "train",
    "resume": {"from": "nothing"},
    "extend": False,
    "evaluate": False,
    "profile": False,
}


def example_document(folder: Path, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The plan as a JSON document; `changes` maps dotted keys to values."""
    expert = folder / "expert-sample"
    plan: dict[str, Any] = {
        "contract": 1,
        "recipe_digest": "0" * 64,
        "recipe": copy.deepcopy(_RECIPE),
        "machine": copy.deepcopy(_MACHINE),
        "request": copy.deepcopy(_REQUEST),
    }
    plan["machine"]["paths"] = {
        "manifest": str(expert / "manifest.json"),
        "expert_dir": str(expert),
        "output": str(folder / "out"),
        "cache": str(folder / "cache"),
        "home": str(folder / "home"),
        "base": str(folder / "base"),
        "data": {
            source["name"]: str(expert / source["name"])
            for part in ("train", "validation", "test")
            for source in plan["recipe"]["data"][part]
        },
    }
    for key, value in (changes or {}).items():
        *parents, last = key.split(".")
        target = plan
        for parent in parents:
            target = target[parent]
        target[last] = value
    return plan


def example_plan(folder: Path, changes: Mapping[str, Any] | None = None) -> Plan:
    return parse_plan(json.dumps(example_document(folder, changes)))
