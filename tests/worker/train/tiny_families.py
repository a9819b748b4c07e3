"""A tiny random base of any architecture: transformers' own defaults with a few dimensions made small."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from transformers import AutoConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = Path(__file__).parents[3]
# Every name that an architecture has for a dimension; a config takes those that it knows.
SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "n_inner": 48,
    "ffn_dim": 48,
    "ffn_hidden_size": 48,
    "shared_expert_intermediate_size": 40,
    "moe_intermediate_size": 24,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "max_seq_len": 128,
    "sliding_window": 8,
    "rotary_dim": 4,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 95,
}
# What a general name does not reach.
OWN: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "intermediate_size": 48, "window_size": 8},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2},
    "opt": {"word_embed_proj_dim": 32},
    "mistral": {"sliding_window": None},
}
# What an architecture computes from the rest.
LEFT_OUT = {"falcon": {"head_dim"}}


def config(architecture: str) -> Any:
    known = CONFIG_MAPPING[architecture]()
    own = OWN.get(architecture, {})
    small = {
        key: value
        for key, value in SMALL.items()
        if hasattr(known, key) and key not in LEFT_OUT.get(architecture, ())
    }
    return AutoConfig.for_model(architecture, **{**small, **own})


def planned(folder: Path, **settings: Any) -> dict[str, Any]:
    """What `expert-cli plan` says of the base in `folder/base`."""
    (folder / "train.jsonl").write_text('{"text": "a"}\n')
    manifest = {
        "name": "tiny",
        "base_models": [{"name": "base"}],
        "training": {
            "dataset": {"path": "train.jsonl"},
            "config": {"rank": 4, "alpha": 8, **settings},
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    cli = os.environ.get("EXPERT_CLI", ROOT / "target" / "release" / "expert-cli")
    command = [str(cli), "plan", "--json", "--device", "cpu", "-m", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
