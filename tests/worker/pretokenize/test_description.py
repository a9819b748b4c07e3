"""cache.json: believed only where it is as it was written, and the Arrow files only by their content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from expert_worker.pretokenize.record import (
    DATA_FILE,
    FILE,
    FORMAT,
    damage,
    is_cache_folder,
    read_description,
    sealed,
    slow_encoder,
    totals,
)
from expert_worker.results import CacheRecord, EncoderCost, SourceCounts, SplitStatistics

KEY = "0123456789abcdef" * 2
COUNTS = {
    name: number
    for number, name in enumerate(
        [
            "read", "used", "bad", "truncated", "split_rows", "dropped_pieces", "dropped_tokens",
            "dropped_overlong", "dropped_unsupervised", "dropped_duplicate", "dropped_near", "dropped_short",
            "dropped_long", "dropped_mixture", "repeated", "unanswered", "thoughts_left_out",
            "parsed_dialogues", "interpreted", "eos_added", "tokens", "supervised_tokens", "bytes",
        ],
        start=1,
    )
}  # fmt: skip


def description(content: bytes = b"rows") -> CacheRecord:
    split = SplitStatistics(
        rows=1, documents=1, tokens=2, supervised_tokens=1, length_histogram=((0, 0), (2, 1)),
        length_quantiles=(2,), bytes=len(content), sha256=hashlib.sha256(content).hexdigest(),
    )  # fmt: skip
    sources = tuple(SourceCounts(name=name, split="train", **COUNTS) for name in ("a", "b"))
    return CacheRecord(
        format=FORMAT,
        key=KEY,
        inputs={"of": "Zürich"},
        encoder="native",
        sources=sources,
        splits={"train": split},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / KEY
    (folder / "train").mkdir(parents=True)
    (folder / "train" / DATA_FILE).write_bytes(b"rows")
    (folder / FILE).write_bytes(sealed(description()))
    return folder


def rewrite(folder: Path, *, seal: bool, **changes: object) -> None:
    document = json.loads((folder / FILE).read_bytes())
    if seal:
        document.pop("digest")
        changed = CacheRecord.model_validate_json(json.dumps({**document, **changes}))
        (folder / FILE).write_bytes(sealed(changed))
    else:
        (folder / FILE).write_text(json.dumps({**document, **changes}))


def test_the_totals_are_sums_over_the_sources_with_the_tokens_of_the_split() -> None:
    sums = {name: 2 * number for name, number in COUNTS.items()}
    assert dict(totals(description())) == sums | {"tokens": 2, "supervised_tokens": 1}
    assert not any(dict(totals(description(), "validation")).values())


def test_what_was_written_is_read(folder: Path) -> None:
    assert read_description(folder) == description()
    assert damage(folder, description()) is None


def test_a_count_that_older_versions_did_not_keep_is_0() -> None:
    older = {name: number for name, number in COUNTS.items() if name != "interpreted"}
    assert SourceCounts(name="a", split="train", **older).interpreted == 0


def test_a_record_of_an_older_version_is_read(folder: Path) -> None:
    document = json.loads((folder / FILE).read_bytes())
    for name in ("digest", "slow_encoder", "template"):
        document.pop(name, None)
    for source in document["sources"]:
        del source["interpreted"]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    document["digest"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / FILE).write_text(json.dumps(document))
    read = read_description(folder)
    assert read is not None and read.template is None
    assert totals(read).interpreted == 0 and totals(read).read == 2


def test_the_cost_of_the_slow_encoder_in_words() -> None:
    def words(speed: float | None, slower: float | None) -> str:
        cost = EncoderCost(reason="WordPiece", rows=64, megabytes_per_second=speed, times_slower=slower)
        found = slow_encoder(cost)
        assert (found.reason, found.rows, found.times_slower) == ("WordPiece", 64, slower)
        return found.words

    assert words(0.71, 48.26) == "48.3 times slower, measured on 64 rows"
    assert words(0.714, None) == (
        "0.71 MB of text per CPU second, measured on 64 rows; the fast encoder cannot encode them, "
        "so how much slower that is stays unknown"
    )
    assert words(None, None) == "how much slower is unknown: no row could be measured"


def test_the_digest_is_that_of_the_sorted_document() -> None:
    document = json.loads(sealed(description()))
    seal = document.pop("digest")
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert seal == hashlib.sha256(text.encode()).hexdigest()


def test_a_changed_description_is_none(folder: Path) -> None:
    rewrite(folder, seal=False, encoder="tokenizers")
    assert read_description(folder) is None


@pytest.mark.parametrize("changes", [{"format": FORMAT + 1}, {"format": 0}, {"key": "another"}])
def test_another_format_or_folder_is_none(folder: Path, changes: dict[str, object]) -> None:
    rewrite(folder, seal=True, **changes)
    assert read_description(folder) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"digest": 1}', "[" * 100_000])
def test_an_invalid_description_is_none(folder: Path, text: str) -> None:
    (folder / FILE).write_text(text)
    assert read_description(folder) is None


def test_rows_of_the_same_size_are_compared_by_content(folder: Path) -> None:
    path = folder / "train" / DATA_FILE
    path.write_bytes(b"rowz")
    assert damage(folder, description()) == f"train/{DATA_FILE} is not the file that was written"
    path.write_bytes(b"rows and more")
    assert damage(folder, description()) == f"train/{DATA_FILE} is not the file that was written"
    path.unlink()
    assert damage(folder, description()) == f"train/{DATA_FILE} cannot be read"


def test_a_cache_folder_is_known_by_its_name_and_its_files(folder: Path, tmp_path: Path) -> None:
    assert is_cache_folder(folder) is True
    for name in ("dataset_info.json", "state.json"):
        (folder / "train" / name).touch()
    (folder / "validation").mkdir()
    (folder / "spill.bin").touch()
    assert is_cache_folder(folder) is True

    link = tmp_path / KEY[::-1]
    link.symlink_to(folder)
    assert is_cache_folder(link) is False
    for name in (f"{KEY}0", KEY[1:], "photographs"):
        (tmp_path / name).mkdir()
        assert is_cache_folder(tmp_path / name) is False
    file = tmp_path / ("0" * 32)
    file.touch()
    assert is_cache_folder(file) is False


@pytest.mark.parametrize("name", ["notes.txt", "train/notes.txt", "validation/notes.txt"])
def test_a_folder_with_other_files_is_not_a_cache(folder: Path, name: str) -> None:
    (folder / "validation").mkdir()
    (folder / name).touch()
    assert is_cache_folder(folder) is False


def test_a_file_in_place_of_the_rows_folder_is_not_a_cache(folder: Path) -> None:
    (folder / "validation").touch()
    assert is_cache_folder(folder) is False
