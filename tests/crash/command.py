"""Small experts on a tiny base, trained through the real command line."""

import os
import sys
from pathlib import Path
from typing import Any

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


def rows_of(seed: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "prompt": f"w{row % 90 + 1} w{row % 7 + 3} ",
            "completion": f"w{row % 11 + 5 + seed} w{row % 13 + 2}",
        }
        for row in range(40)
    ]


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
        "packing": False,
        "save_strategy": "steps",
        "save_steps": 2,
        **settings,
    }
    return {
        "name": name,
        "version": "1.0.0",
        "schema_version": "2.0",
        "description": "Words that follow words.",
        "base_models": [{"name": base, "quantization": "none", "prompt_template": "alpaca"}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": config},
    }
