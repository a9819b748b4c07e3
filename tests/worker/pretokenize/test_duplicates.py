"""Copies between training, validation and test rows: counted, warned of, and dropped where that is asked."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pretokenize.test_scripts import CLI, needs_cli
from pretokenize.workshop import Workshop

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import parse_plan
from expert_worker.pretokenize import duplicates, ensure_cache, inputs, read_files
from expert_worker.pretokenize.cache import Cache
from expert_worker.pretokenize.read_files import before_reading
from expert_worker.pretokenize.record import FILE, read_description, sealed
from expert_worker.process.work_folder import create_work_folder

PLACES = ["Porto", "Oslo", "Lima", "Cairo", "Hanoi", "Quito", "Riga", "Accra", "Perth", "Kyoto"]
TRADES = ["bakery", "forge", "mill", "press", "farm", "dairy", "mine", "yard", "garage", "school"]


def row(number: int) -> dict[str, str]:
    place, trade = PLACES[number % 10], TRADES[number // 10 % 10]
    return {
        "prompt": f"How many people work in the {trade} number {number} of {place}, counted in June?",
        "completion": f"SELECT workers FROM {trade} WHERE id = {number} AND place = '{place}'",
    }


TRAIN = [row(number) for number in range(200)]


def source(name: str) -> dict[str, Any]:
    return {"name": name, "format": "jsonl", "weight": 1.0, "task": None}


class Data(Workshop):
    """Training rows, and more parts by name."""

    def caches(self, changes: dict[str, Any] | None = None, **parts: Iterable[Any]) -> Cache:
        path = self.jsonl(parts.pop("train", TRAIN))
        files = {name: str(self.jsonl(rows, f"{name}.jsonl")) for name, rows in parts.items()}
        places = {f"{name}.jsonl": place for name, place in files.items()}
        settings: dict[str, Any] = {"machine.paths.data": {path.name: str(path), **places}}
        for name in ("validation", "test"):
            if name in parts:
                settings[f"recipe.data.{name}"] = [source(f"{name}.jsonl")]
        others = [name for name in parts if name not in ("validation", "test")]
        settings["test_sets"] = {
            name: {"sources": [source(f"{name}.jsonl")], "files": {f"{name}.jsonl": files[name]}}
            for name in others
        }
        return self.build(path, {**settings, **(changes or {})})

    def unread(self) -> list[str]:
        return [line.message for line in self.said if getattr(line, "code", "") == "test-rows-unread"]

    def leaks(self) -> list[Any]:
        return [line for line in self.said if getattr(line, "code", "") == "data-leak"]


@pytest.fixture
def data(tmp_path: Path, base: Path, home: Path) -> Data:
    return Data(tmp_path, base, home)


def counts(cache: Cache) -> list[tuple[str, str, int, int]]:
    record = cache.description.duplicates
    assert record is not None
    return [(found.part, found.of, found.exact, found.near) for found in record.found]


def test_copies_in_every_part_are_counted_with_their_places(data: Data) -> None:
    loud = {**TRAIN[7], "prompt": TRAIN[7]["prompt"].upper()}
    reworded = {**TRAIN[9], "prompt": TRAIN[9]["prompt"].replace("people", "persons")}
    cache = data.caches(
        validation=[row(number) for number in range(300, 320)] + [TRAIN[3]],
        test=[row(number) for number in range(400, 420)] + [loud, reworded],
        people=[row(300), row(500)],
    )
    assert counts(cache) == [
        ("validation", "train", 1, 0),
        ("test", "train", 0, 2),
        ("people", "validation", 1, 0),
    ]
    record = cache.description.duplicates
    assert record is not None
    assert record.rows == {"train": 200, "validation": 21, "test": 22, "people": 2}
    assert record.found[1].examples == (
        ("test.jsonl:21", "train.jsonl:8"),
        ("test.jsonl:22", "train.jsonl:10"),
    )
    assert [line.message.split(":")[0] for line in data.leaks()] == [
        "1 of 21 rows (4.8%; 1 exact, 0 near) of the validation data are copies of train rows",
        "2 of 22 rows (9.1%; 0 exact, 2 near) of the test set are copies of train rows",
        "1 of 2 rows (50.0%; 1 exact, 0 near) of the test set people are copies of validation rows",
    ]
    assert all(line.hint for line in data.leaks())


def test_rows_of_one_template_are_not_copies(data: Data) -> None:
    cache = data.caches(test=[row(number) for number in range(200, 400)])
    assert counts(cache) == [] and data.leaks() == []


def test_a_single_copy_in_a_large_set_is_counted_without_a_warning(data: Data) -> None:
    cache = data.caches(test=[row(number) for number in range(200, 400)] + [TRAIN[0]])
    assert counts(cache) == [("test", "train", 1, 0)]
    assert data.leaks() == []


def test_a_near_copy_of_a_row_that_is_not_kept_is_kept(data: Data) -> None:
    """Of three wordings the first is too long, and one of the two others is learned."""
    rows = []
    for place in PLACES:
        asked = f"which of the many small towns beside the long river near {place} has the oldest bridge"
        wordings = (f"{asked} {'qzjx' * 1000}", asked, f"{asked} please")
        rows += [{"prompt": words, "completion": f"The one at {place}."} for words in wordings]
    changes = {
        "recipe.data.deduplicate": True,
        "recipe.data.drop_near_copies": True,
        "recipe.data.overlong": "drop",
        "recipe.batch.max_seq_length": 512,
    }
    ledger = data.caches(changes, train=rows).ledger()
    assert (ledger["used"], ledger["dropped_overlong"], ledger["dropped_near"]) == (10, 10, 10)


def test_near_copies_within_the_training_rows_are_dropped_where_that_is_asked(data: Data) -> None:
    loud = {**TRAIN[7], "prompt": TRAIN[7]["prompt"].upper()}
    rows = [*TRAIN[:100], TRAIN[5], loud, *TRAIN[100:]]
    kept = data.caches(train=rows)
    near = data.caches({"recipe.data.deduplicate": True, "recipe.data.drop_near_copies": True}, train=rows)
    assert counts(kept) == counts(near) == [("train", "train", 1, 1)]
    ledger = near.ledger()
    assert (kept.ledger()["used"], ledger["used"]) == (202, 200)
    assert (ledger["dropped_duplicate"], ledger["dropped_near"]) == (1, 1)
    plain = data.caches({"recipe.data.deduplicate": True, "recipe.seed": 5}, train=rows).ledger()
    assert (plain["used"], plain["dropped_duplicate"], plain["dropped_near"]) == (201, 1, 0)


def test_repeats_are_a_leak_where_validation_rows_are_held_out_of_them(data: Data) -> None:
    rows = [*TRAIN, *TRAIN[:10]]
    data.caches(train=rows)
    assert data.leaks() == []
    data.caches({"recipe.data.validation_split": 0.1}, train=rows)
    [leak] = data.leaks()
    assert "10 of 210 rows (4.8%; 10 exact, 0 near) of the training data repeat earlier ones" in leak.message
    assert "deduplicate" in leak.hint


def test_copies_that_are_dropped_are_not_held_out(data: Data) -> None:
    dropping = {"recipe.data.validation_split": 0.1, "recipe.data.deduplicate": True}
    cache = data.caches(dropping, train=[*TRAIN, *TRAIN[:10]])
    assert counts(cache) == [("train", "train", 10, 0)] and data.leaks() == []
    loud = [{**one, "prompt": one["prompt"].upper()} for one in TRAIN[20:25]]
    data.caches(dropping, train=[*TRAIN, *TRAIN[:10], *loud])
    [leak] = data.leaks()
    counted = "5 of 205 rows (2.4%; 0 exact, 5 near) of the training data repeat earlier ones"
    assert leak.message == f"{counted}, and validation_split may hold out one of two copies"


def test_a_cache_that_is_used_again_is_compared_with_the_test_rows_of_now(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = data.caches(test=[row(number) for number in range(400, 420)])
    assert counts(first) == []
    again = data.caches(test=[*(row(number) for number in range(400, 419)), TRAIN[0]])
    assert again.existed and again.key == first.key
    assert counts(again) == [("test", "train", 1, 0)]
    assert len(data.leaks()) == 1
    assert read_description(again.folder) == again.description
    monkeypatch.delattr(duplicates, "compare")
    third = data.caches(test=[*(row(number) for number in range(400, 419)), TRAIN[0]])
    assert third.existed and len(data.leaks()) == 1
    assert sorted(path.name for path in third.folder.iterdir()) == [FILE, "train"]


def test_validation_rows_that_are_scored_in_place_of_test_rows_do_not_leak(data: Data) -> None:
    """As a search does. An expert's own test rows are other ones."""
    rows = [row(number) for number in range(300, 320)]
    same = {"recipe.data.test": [source("validation.jsonl")]}
    data.caches({**same, "recipe.evaluation.without_base": True}, validation=rows)
    assert data.leaks() == []
    data.caches(same, validation=rows)
    [leak] = data.leaks()
    assert leak.message.startswith(
        "20 of 20 rows (100.0%; 20 exact, 0 near) of the test set are copies of validation rows"
    )
    data.said.clear()
    data.caches(validation=rows, test=rows)
    assert [other.message.partition(",")[0] for other in data.leaks()] == [leak.message.partition(",")[0]]


def test_a_test_file_that_cannot_be_read_is_warned_of_and_the_others_compared(data: Data) -> None:
    missing = {"recipe.data.test": [source("none.jsonl")]}
    cache = data.caches(missing)
    assert cache.description.duplicates is not None
    assert cache.description.duplicates.rows == {"train": 200}
    [warning] = data.unread()
    assert warning.startswith("The test rows of none.jsonl are not compared with the training rows: ")
    (data.folder / "cut.json").write_text(json.dumps(TRAIN)[:-4])
    cut = {
        "recipe.data.test": [{**source("cut.json"), "format": "json"}],
        "machine.paths.data": {
            "train.jsonl": str(data.folder / "train.jsonl"),
            "cut.json": str(data.folder / "cut.json"),
        },
    }
    cache = data.caches({**cut, "recipe.seed": 3})
    assert cache.description.duplicates is not None
    assert cache.description.duplicates.rows == {"train": 200}
    assert data.unread()[0].startswith("The test rows of cut.json are not compared with the training rows: ")


@pytest.mark.parametrize(("on_bad_row", "then"), [("error", "refuses"), ("skip", "does not score")])
def test_test_rows_that_cannot_be_read_are_named_each_time(data: Data, on_bad_row: str, then: str) -> None:
    broken = [
        row(300),
        {"text": "said", "prompt": 4, "completion": "x"},
        {"ask": "?"},
        row(301),
        {"ask": "!"},
    ]
    changes = {"recipe.data.on_bad_row": on_bad_row}
    for times in (1, 2):
        cache = data.caches(changes, test=broken)
        assert cache.existed == (times == 2)
        record = cache.description.duplicates
        assert record is not None and record.rows == {"train": 200, "test": 3}
        [warning] = data.unread()
        said = warning.splitlines()
        assert said[0] == f"2 rows of the test set cannot be read, and `evaluate` {then} them:"
        assert said[1].startswith("test.jsonl:3: ") and said[1].endswith("(2 rows: 3, 5)")


def test_what_a_killed_comparison_left_is_removed_by_the_next_one(data: Data) -> None:
    first = data.caches(test=[row(number) for number in range(400, 420)])
    killed, running = (create_work_folder(".compare-", first.folder) for _ in range(2))
    assert killed._handle is not None
    os.close(killed._handle)
    (killed.path / "train").write_text("unpacked")
    again = data.caches(test=TRAIN[:2])
    assert again.existed
    assert sorted(path.name for path in again.folder.iterdir()) == [running.path.name, FILE, "train"]
    running.close()


def test_changed_test_rows_are_compared_with_a_cache_that_is_only_read(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = data.caches(test=[row(number) for number in range(400, 420)])
    assert counts(first) == []

    def refused(*_: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def made(prefix: str, dir: Path | None) -> str:
        return refused() if dir is not None else mkdtemp(prefix=prefix)

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", made)
    monkeypatch.setattr(files, "replace", refused)
    again = data.caches(test=TRAIN[:2])
    assert again.existed and again.key == first.key
    assert counts(again) == [("test", "train", 2, 0)] and data.leaks()
    assert read_description(again.folder) == first.description


@pytest.mark.skipif(os.name != "posix", reason="a file is known by its inode and the time of its change")
def test_the_record_says_which_files_were_read(data: Data) -> None:
    cache = data.caches(test=TRAIN[:2], people=TRAIN[2:4])
    read = {(file.part, file.name): file for file in cache.description.read_files}
    assert list(read) == [("train", "train.jsonl"), ("test", "test.jsonl"), ("people", "people.jsonl")]
    for (_, name), file in read.items():
        found = (data.folder / name).stat()
        assert (file.bytes, file.inode) == (found.st_size, found.st_ino)
        assert (file.modified, file.changed) == (found.st_mtime_ns, found.st_ctime_ns)
    assert read_description(cache.folder) == cache.description


@pytest.mark.skipif(os.name != "posix", reason="a file is known by its inode and the time of its change")
def test_the_record_leaves_out_test_rows_that_are_not_here(data: Data) -> None:
    test = {"recipe.data.test": [source("later.jsonl")]}
    assert [file.name for file in data.caches(test).description.read_files] == ["train.jsonl"]


@pytest.mark.skipif(os.name != "posix", reason="a file is known by its inode and the time of its change")
def test_files_that_were_written_again_are_on_record_when_the_cache_is_used_again(data: Data) -> None:
    first = data.caches(test=TRAIN[:2])
    again = data.caches(test=TRAIN[:2])
    assert again.existed and again.key == first.key
    changed = [file.changed for file in again.description.read_files]
    assert all(new > old.changed for new, old in zip(changed, first.description.read_files, strict=True))
    assert read_description(again.folder) == again.description
    assert again.description.duplicates == first.description.duplicates


@pytest.mark.skipif(os.name != "posix", reason="a file is known by its inode and the time of its change")
def test_the_record_says_by_which_template_and_tokenizer_rows_were_made(data: Data) -> None:
    first = data.caches(test=TRAIN[:2]).description
    assert first.rendered_by is not None and "tokenizer.json" in {file.name for file in first.tokenizer_files}
    # `plan` looks at the same files.
    source = (Path(__file__).parents[3] / "cli/src/plan/cache.rs").read_text()
    listed = source.split("const NAMES")[1].split("];")[0]
    assert tuple(re.findall(r'"([^"]+)"', listed)) == read_files.OF_TOKENIZER
    # A cache of an earlier version, or of a base with the same tokenizer in another folder.
    folder = data.caches(test=TRAIN[:2]).folder
    earlier = first.model_copy(update={"rendered_by": None, "tokenizer_files": ()})
    files.replace(folder / FILE, sealed(earlier))
    again = data.caches(test=TRAIN[:2])
    assert again.existed and again.description.tokenizer_files == first.tokenizer_files
    assert read_description(folder) == again.description


def while_comparing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    def slowly(*given: Any) -> Any:
        change()
        return compare(*given)

    compare = duplicates.compare
    monkeypatch.setattr(duplicates, "compare", slowly)


def test_a_test_file_that_changes_while_it_is_read_is_not_on_record(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_comparing(monkeypatch, lambda: data.jsonl(TRAIN[:3], "test.jsonl"))
    cache = data.caches(test=TRAIN[:2])
    assert cache.description.read_files == () and cache.description.duplicates is not None


@pytest.mark.parametrize("changed", ["train", "validation"])
@pytest.mark.parametrize("is_known", [True, False], ids=["by its inode", "by its digest"])
def test_no_cache_is_kept_of_a_file_that_changes_while_it_is_read(
    data: Data, monkeypatch: pytest.MonkeyPatch, changed: str, is_known: bool
) -> None:
    """Its key would name other rows than it has: they would be learned whenever that file comes back."""
    if not is_known:
        monkeypatch.setattr(inputs, "before_reading", lambda plan: ())
    while_comparing(monkeypatch, lambda: data.jsonl([row(700)], f"{changed}.jsonl"))
    with pytest.raises(BadInput, match=f"{changed}.jsonl has changed while its rows were prepared") as caught:
        data.caches(validation=[row(number) for number in range(300, 320)])
    assert caught.value.code == "data-changed" and "Repeat the command" in (caught.value.hint or "")
    assert not list((data.folder / "cache").glob(f"*/{FILE}"))


def test_a_file_that_is_only_touched_while_it_is_read_has_not_changed(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_comparing(monkeypatch, (data.folder / "train.jsonl").touch)
    cache = data.caches(test=TRAIN[:2])
    assert cache.description.read_files == () and cache.description.duplicates is not None


def test_what_is_not_one_plain_file_has_no_record(data: Data, tmp_path: Path) -> None:
    plan = data.plan(data.jsonl(TRAIN), {"machine.paths.data": {"train.jsonl": str(tmp_path)}})
    assert before_reading(plan) == ()


SHAPE = {
    "model_type": "qwen3",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 600,
}


@needs_cli
@pytest.mark.skipif(os.name != "posix", reason="a file is known by its inode and the time of its change")
def test_plan_shows_what_preparing_the_rows_has_counted(tmp_path: Path, base: Path, home: Path) -> None:
    tiny = shutil.copytree(base, tmp_path / "tiny")
    (tiny / "config.json").write_text(json.dumps(SHAPE))
    (tiny / "model.safetensors").write_bytes(b"")
    for name, rows in (("train", TRAIN), ("test", [*TRAIN[:2], row(900), {"ask": "?"}])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    manifest = {
        "name": "copied",
        "base_models": [{"name": str(tiny)}],
        "training": {
            "dataset": {"path": "train.jsonl", "test_path": "test.jsonl"},
            "config": {"rank": 4, "alpha": 8, "max_seq_length": 128, "epochs": 1},
        },
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    def planned() -> dict[str, Any]:
        command = [CLI, "plan", "--json", "--device", "cpu", "-m", tmp_path]
        environment = {**os.environ, "EXPERT_HOME": str(home), "EXPERT_PYTHON": sys.executable}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    before = planned()
    assert before["duplicates"] is None
    cache = ensure_cache(parse_plan(json.dumps(before["plan"])), Events.in_memory()[0])
    after = planned()
    assert cache.description.duplicates is not None
    assert after["duplicates"] == cache.description.duplicates.as_json()
    [found] = after["duplicates"]["found"]
    assert (found["part"], found["exact"], found["rows"]) == ("test", 2, 3)
    assert {"data-leak", "test-rows-unread"} <= {note["code"] for note in after["notes"]}
    (tmp_path / "test.jsonl").write_text((tmp_path / "test.jsonl").read_text())
    assert planned()["duplicates"] is None
