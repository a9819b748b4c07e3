"""What went in, by content."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from expert_worker.errors import BadInput
from expert_worker.evaluate.cached_scores import fingerprint
from expert_worker.results import FileDigest
from expert_worker.run_record import digests
from expert_worker.run_record.digests import (
    KnownDigests,
    base_digests,
    check_base,
    data_digests,
    final_digests,
)


def digest(content: bytes) -> FileDigest:
    return FileDigest(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))


def test_data_is_named_as_in_the_plan_and_what_is_gone_is_null(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"a row")
    found = data_digests(
        {"train": str(tmp_path / "rows"), "gone": str(tmp_path / "none"), "at": str(tmp_path)}
    )
    assert found == {"train": digest(b"a row"), "gone": None, "at": None}
    assert list(found) == ["at", "gone", "train"]


def test_a_base_is_its_weights_settings_and_tokenizer(tmp_path: Path) -> None:
    for name in ("b.safetensors", "a.gguf", "config.json", "tokenizer.json", "README.md", "notes.json"):
        (tmp_path / name).write_bytes(name.encode())
    found = base_digests(tmp_path)
    assert list(found) == ["a.gguf", "b.safetensors", "config.json", "tokenizer.json"]
    assert found["a.gguf"] == digest(b"a.gguf")
    assert base_digests(None) == {}


def test_a_second_copy_of_the_weights_does_not_count(tmp_path: Path) -> None:
    base, home = tmp_path / "base", tmp_path / "home"
    base.mkdir()
    (base / "1-of-1.safetensors").write_bytes(b"weights")
    (base / "model.safetensors.index.json").write_text('{"weight_map": {"a": "1-of-1.safetensors"}}')
    mark = fingerprint(base, home)
    (base / "consolidated.safetensors").write_bytes(b"the same")
    assert base_digests(base) == {"1-of-1.safetensors": digest(b"weights")}
    assert fingerprint(base, home) == mark


def test_the_embedded_base_is_the_one_of_the_training_whichever_version_unpacked_it(tmp_path: Path) -> None:
    """transformers writes its own version into the settings of a base that it saves."""
    unpacked, copied = tmp_path / "bases" / "smollm2-135m-instruct", tmp_path / "copied"
    for folder in (unpacked, copied):
        folder.mkdir(parents=True)
        for name in ("config.json", "model.safetensors"):
            (folder / name).write_bytes(b"of 5.23")
    trained_on = base_digests(unpacked)
    for folder in (unpacked, copied):
        (folder / "config.json").write_bytes(b"of 5.5")
    check_base(unpacked, trained_on, "sample", "a hint")
    with pytest.raises(BadInput, match=r"copied/config\.json is not the file"):
        check_base(copied, trained_on, "sample", "a hint")
    (unpacked / "model.safetensors").write_bytes(b"others")
    with pytest.raises(BadInput, match=r"model\.safetensors is not the file that sample was trained on"):
        check_base(unpacked, trained_on, "sample", "a hint")


def test_the_hub_s_name_of_a_file_is_its_digest_and_nothing_else_is(tmp_path: Path) -> None:
    """A link into the Hub's cache is believed; a file of such a name, or a link to another name, is read."""
    told = "0" * 64
    (tmp_path / "blobs").mkdir()
    for name in (told, f"{told}0", "model"):
        (tmp_path / "blobs" / name).write_bytes(b"weights")
    for number, name in enumerate((told, f"{told}0", "model")):
        (tmp_path / f"{number}.gguf").symlink_to(tmp_path / "blobs" / name)
    found = base_digests(tmp_path)
    assert found["0.gguf"] == FileDigest(sha256=told, bytes=7)
    assert found["1.gguf"] == found["2.gguf"] == digest(b"weights")
    assert data_digests({"own": str(tmp_path / "blobs" / told)})["own"] == digest(b"weights")


def test_a_finished_adapter_is_all_its_files_except_what_evaluate_rewrites(tmp_path: Path) -> None:
    for name in ("adapter_model.safetensors", "README.md", "expert.json", "more/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    found = final_digests(tmp_path)
    assert found == {
        name: digest(name.encode()) for name in ("adapter_model.safetensors", "more/config.json")
    }


def test_a_base_that_differs_in_one_byte_is_another(tmp_path: Path) -> None:
    """Same size and the same ends: only the whole file differs."""
    base, home = tmp_path / "base", tmp_path / "home"
    base.mkdir()
    weights, vocabulary = base / "model.safetensors", base / "merges.txt"
    content = bytearray(1 << 18)
    weights.write_bytes(content)
    vocabulary.write_text("a b\n")
    marks = [fingerprint(base, home), fingerprint(base, home)]
    content[1 << 17] = 1
    weights.write_bytes(content)
    marks.append(fingerprint(base, home))
    vocabulary.write_text("b a\n")
    marks.append(fingerprint(base, home))
    (base / "README.md").write_text("A note")
    marks.append(fingerprint(base, home))
    assert marks[0] == marks[1] and marks[3] == marks[4] and len(set(marks)) == 3


def test_large_files_are_read_again_only_when_they_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_LARGE", 8)
    read: list[Path] = []
    sha256 = digests._sha256

    def noted(path: Path) -> str:
        read.append(path)
        return sha256(path)

    monkeypatch.setattr(digests, "_sha256", noted)
    weights, home = tmp_path / "model.safetensors", tmp_path / "home"
    weights.write_bytes(b"0123456789")

    def look() -> str:
        return KnownDigests(home).of(weights)

    first = look()
    assert first == digest(b"0123456789").sha256
    look()
    assert len(read) == 2, "a file of this moment is not remembered"
    monkeypatch.setattr(digests, "_SETTLED_NS", -(10**18))
    assert [look(), look()] == [first, first] and len(read) == 3
    was = weights.stat()
    weights.write_bytes(b"9876543210")
    os.utime(weights, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert look() == digest(b"9876543210").sha256, "an old time of the contents hides nothing"
    for damaged in ("not json", "[]", json.dumps({str(weights): 3})):
        (home / "weight-digests.json").write_text(damaged)
        assert look() == digest(b"9876543210").sha256
