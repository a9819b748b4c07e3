"""The four manifests say the same about the two bases, and name what is there."""

import json
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.scorers import check_scorer

EXPERTS = Path(__file__).resolve().parents[2] / "experts"
NAMES = sorted(path.parent.name for path in EXPERTS.glob("*/manifest.json"))
OPTIMIZED = {
    "batch_size": 16,
    "gradient_accumulation_steps": 4,
    "max_seq_length": 2048,
    "bf16": True,
    "use_tf32": True,
    "use_sdpa": True,
    "optim": "adamw_torch_fused",
    "packing": True,
    "gradient_checkpointing": False,
    "pretokenized_cache": "datasets_optimized/{expert-name}/tokenized",
}


def manifest(expert: str) -> dict[str, Any]:
    text = (EXPERTS / expert / "manifest.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("expert", NAMES)
def test_the_optimized_settings_stand_there(expert: str) -> None:
    config = manifest(expert)["training"]["config"]
    assert {key: config.get(key) for key in OPTIMIZED} == OPTIMIZED


@pytest.mark.parametrize("expert", NAMES)
def test_both_bases_are_offered(expert: str) -> None:
    bases = manifest(expert)["base_models"]
    assert [(base["name"], base["quantization"]) for base in bases] == [
        ("Qwen/Qwen3-0.6B", "int4"),
        ("smollm2-135m-instruct", "none"),
    ]
    assert "overrides" not in bases[0]
    assert bases[1]["overrides"]["max_seq_length"] <= 1024


@pytest.mark.parametrize("expert", NAMES)
def test_what_a_manifest_names_is_there(expert: str) -> None:
    found = manifest(expert)
    assert found["name"] == expert
    assert found["schema_version"] == "2.0"
    dataset = found["training"]["dataset"]
    for key in ("path", "validation_path", "test_path"):
        assert (EXPERTS / expert / dataset[key]).is_file()
    assert found["evaluation"]["test_sets"] == {"people": "datasets/people.jsonl"}
    assert (EXPERTS / expert / "datasets/people.jsonl").is_file()
    check_scorer(found["evaluation"]["scorer"])
