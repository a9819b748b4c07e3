"""`state.json` and what it lists: each kind of damage has its own reason, and the format is fixed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from expert_worker.checkpoint import Store, files
from expert_worker.checkpoint.record import DamagedError, finite, read
from expert_worker.checkpoint.verify import verify
from expert_worker.events import Events
from expert_worker.results import CheckpointFacts


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    store = Store(tmp_path / "out", Events.in_memory()[0])
    store.open()
    facts = CheckpointFacts.model_validate(
        {
            "recipe_digest": "d" * 64, "recipe": {"expert": "Zürich"}, "cache_key": "c" * 64,
            "total_steps": 9, "micro_batch": 1, "totals": {}, "metrics": {},
        }
    )  # fmt: skip
    store.commit(1, {"x.safetensors": {"a": torch.ones(3)}}, facts)
    return store.path(1)


def rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "state.json"
    path.write_bytes(files.json_bytes({**json.loads(path.read_bytes()), **changes}))


def test_the_format_and_its_seal_stay_as_older_versions_wrote_them(saved: Path) -> None:
    document = json.loads((saved / "state.json").read_bytes())
    seal = document.pop("seal")
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert "Zürich" in text and seal == hashlib.sha256(text.encode()).hexdigest()
    assert document["format"] == 2
    assert read(saved).step == 1


def test_a_record_without_newer_fields_is_read_as_it_was_written(saved: Path) -> None:
    path = saved / "state.json"
    older = json.loads(path.read_bytes())
    older.pop("seal")
    for name in ("inputs", "threads", "fp32_products", "processor", "layers"):
        older["facts"].pop(name, None)
    text = json.dumps(older, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_bytes(files.json_bytes({**older, "seal": hashlib.sha256(text.encode()).hexdigest()}))
    facts = read(saved).facts
    assert facts.threads is None and facts.layers is None


def test_the_same_content_in_another_layout_is_not_as_it_was_written(saved: Path) -> None:
    path = saved / "state.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=7))
    with pytest.raises(DamagedError, match="not as it was written"):
        read(saved)


def test_each_damage_of_the_description_has_its_reason(saved: Path) -> None:
    rewrite(saved, step=2)
    with pytest.raises(DamagedError, match="does not match its own digest"):
        read(saved)
    rewrite(saved, format=3)
    with pytest.raises(DamagedError, match="is of format 3, this version reads 2"):
        read(saved)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (bytes(4096), "is empty"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00{", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"format": 2}', "lacks what a checkpoint's record has"),
    ],
)
def test_a_description_that_is_cut_or_of_another_kind_is_damaged(
    saved: Path, content: bytes, reason: str
) -> None:
    (saved / "state.json").write_bytes(content)
    with pytest.raises(DamagedError, match=f"^state.json {reason}$"):
        read(saved)


def test_a_file_of_another_length_says_how_long_it_was(saved: Path) -> None:
    path = saved / "x.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"0")
    with pytest.raises(DamagedError, match=f"has {size + 1} bytes, {size} were written"):
        verify(saved)


def test_a_file_that_cannot_be_read_is_damaged(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "sha256", refuse)
    with pytest.raises(DamagedError, match=r"x\.safetensors cannot be read: Permission denied"):
        verify(saved)


def test_metrics_that_json_cannot_hold_are_left_out() -> None:
    assert finite({"loss": 1.5, "diverged": float("inf"), "none": float("nan")}) == {"loss": 1.5}
