"""A cache from rows to batches."""

import errno
import json
import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from datasets import load_from_disk
from pretokenize.workshop import Workshop
from tokenizers import Tokenizer

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.pretokenize.stage import run, summary
from expert_worker.process.builder_lock import builder_lock

ROWS = [
    {
        "messages": [
            {"role": "user", "content": f"Question {i}?"},
            {"role": "assistant", "content": "Answer " * (i % 7 + 1)},
        ]
    }
    for i in range(40)
]


def test_rows_hold_what_the_reference_gives(workshop: Workshop) -> None:
    cache = workshop.build(workshop.jsonl(ROWS), {"recipe.batch.packing": False})
    reference = Tokenizer.from_file(str(workshop.base / "tokenizer.json"))
    assert len(cache.train) == len(ROWS) == cache.ledger()["used"]
    assert cache.template is not None and "<|im_start|>" in cache.template
    for index, row in enumerate(ROWS):
        question, answer = (message["content"] for message in row["messages"])
        prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        expected = reference.encode(prompt + f"{answer}<|im_end|>\n", add_special_tokens=False).ids
        unlearned = len(reference.encode(prompt, add_special_tokens=False).ids)
        ids, labels, lengths = cache.train.row(index)
        assert ids.tolist() == expected
        assert labels.tolist() == [-100] * unlearned + expected[unlearned:]
        assert lengths.tolist() == [len(expected)]
        assert reference.token_to_id("<|im_end|>") in labels


def test_a_packed_batch_restarts_positions_at_every_document(workshop: Workshop) -> None:
    cache = workshop.build(workshop.jsonl(ROWS))
    ids, labels, boundaries, positions = cache.train.batch(range(len(cache.train)))
    assert boundaries[0] == 0 and boundaries[-1] == len(ids) == len(labels) == len(positions)
    assert len(boundaries) == len(ROWS) + 1
    for start, end in pairwise(boundaries):
        np.testing.assert_array_equal(positions[start:end], np.arange(end - start))
    assert sum(cache.train.row_lengths()) == len(ids)
    assert max(cache.train.row_lengths()) <= 128


def test_datasets_opens_the_folder(workshop: Workshop) -> None:
    cache = workshop.build(workshop.jsonl(ROWS))
    opened = load_from_disk(str(cache.folder / "train"))
    assert opened.column_names == ["input_ids", "labels", "seq_lengths", "shared_lengths"]
    for index in range(len(cache.train)):
        ids, labels, lengths = cache.train.row(index)
        assert opened[index]["input_ids"] == ids.tolist()
        assert opened[index]["labels"] == labels.tolist()
        assert opened[index]["seq_lengths"] == lengths.tolist()


def test_a_second_run_reuses_the_cache_and_says_so(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    first = workshop.build(path)
    second = workshop.build(path)
    assert not first.existed and second.existed and first.key == second.key
    assert any(
        getattr(line, "detail", None) == "Loading pre-tokenized dataset from cache" for line in workshop.said
    )


def test_the_held_out_part_is_a_share_and_always_the_same(workshop: Workshop) -> None:
    changes = {"recipe.data.validation_split": 0.2, "recipe.batch.packing": False}
    cache = workshop.build(workshop.jsonl(ROWS), changes)
    assert cache.validation is not None
    assert (len(cache.train), len(cache.validation)) == (32, 8)


def test_tokens_of_validation_rows_are_not_counted_as_learned(workshop: Workshop) -> None:
    path = workshop.jsonl(ROWS)
    whole = workshop.build(path, {"recipe.batch.packing": False})
    held_out = workshop.build(path, {"recipe.data.validation_split": 0.2, "recipe.batch.packing": False})
    ledger, split = held_out.ledger(), held_out.description.splits["train"]
    assert ledger["read"] == whole.ledger()["read"] == len(ROWS)
    assert (ledger["tokens"], ledger["supervised_tokens"]) == (split.tokens, split.supervised_tokens)
    assert 0 < ledger["tokens"] < whole.ledger()["tokens"]
    more = workshop.jsonl([*ROWS[:3], {"odd": 1}], "validation.jsonl")
    changes = {
        "recipe.data.validation": [{"name": more.name, "format": "jsonl", "weight": 1.0, "task": None}],
        "recipe.data.on_bad_row": "skip",
        "machine.paths.data": {path.name: str(path), more.name: str(more)},
    }
    apart = workshop.build(path, changes)
    counts = [(apart.ledger(split)["read"], apart.ledger(split)["bad"]) for split in ("train", "validation")]
    assert counts == [(len(ROWS), 0), (4, 1)]
    assert apart.ledger()["tokens"] == whole.ledger()["tokens"]
    assert summary(apart, 1.0, []).totals.read == len(ROWS)


def test_a_row_beyond_the_last_is_an_index_error(workshop: Workshop) -> None:
    cache = workshop.build(workshop.jsonl(ROWS))
    with pytest.raises(IndexError):
        cache.train.row(len(cache.train))
    with pytest.raises(IndexError):
        cache.train.batch([len(cache.train)])


def test_nothing_to_learn_from_is_an_error(workshop: Workshop) -> None:
    rows = [{"messages": [{"role": "user", "content": "Only a question"}]}]
    with pytest.raises(
        BadInput, match=r'train\.jsonl:1: the row has the roles "user", and none is "assistant"'
    ):
        workshop.build(workshop.jsonl(rows))


def test_the_description_counts_every_row(workshop: Workshop) -> None:
    cache = workshop.build(workshop.jsonl(ROWS))
    description = json.loads((cache.folder / "cache.json").read_text())
    assert description["sources"][0]["read"] == description["sources"][0]["used"] == len(ROWS)
    assert description["splits"]["train"]["documents"] == len(ROWS)
    assert sum(count for _, count in description["splits"]["train"]["length_histogram"]) == len(ROWS)
    assert 0.5 < description["splits"]["train"]["fill"] <= 1.0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks no folders")
def test_clean_sees_that_a_cache_is_read(workshop: Workshop) -> None:
    """`expert-cli clean` removes only folders whose lock it gets."""
    import fcntl

    cache = workshop.build(workshop.jsonl(ROWS))
    rows, folder = cache.train, os.open(cache.folder, os.O_RDONLY)
    try:
        del cache
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert len(rows)
        del rows
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_cache_is_built_where_the_storage_has_no_file_locks(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    refuse_locks(monkeypatch, code)
    cache = workshop.build(workshop.jsonl(ROWS))
    assert cache.ledger()["used"] == len(ROWS)
    assert [path.name for path in cache.folder.parent.iterdir() if path.name[0] != "."] == [cache.folder.name]
    warned = [body for body in workshop.said if getattr(body, "code", "") == "no-file-locks"]
    assert len(warned) == 1 and str(cache.folder.parent) in warned[0].message


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_a_lock_is_waited_for_only_where_another_process_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, _ = Events.in_memory()
    for code in (errno.EWOULDBLOCK, errno.EACCES):
        refuse_locks(monkeypatch, code)
        with pytest.raises(AssertionError, match="it waits"), builder_lock(tmp_path / "lock", events, ""):
            pass
    refuse_locks(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="refused"), builder_lock(tmp_path / "lock", events, ""):
        pass


def refuse_locks(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, "refused")

    def wait(*_: object) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr("expert_worker.process.builder_lock._wait", wait)


def test_of_builders_without_a_lock_the_first_to_publish_wins(tmp_path: Path) -> None:
    target = tmp_path / "made"

    def holding(text: bytes) -> Callable[[Path], None]:
        def fill(folder: Path) -> None:
            files.write(folder / "name", [text])

        return fill

    def fill_later(folder: Path) -> None:
        files.build_folder(target, holding(b"first"), alone=False)
        files.write(folder / "name", [b"second"])

    files.build_folder(target, fill_later, alone=False)
    assert (target / "name").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    files.build_folder(target, holding(b"again"), alone=False)
    assert (target / "name").read_bytes() == b"again"


@pytest.mark.parametrize(("rows", "warned"), [(1, True), (3, False)])
def test_a_share_of_too_few_rows_that_holds_out_none_is_warned_of(
    workshop: Workshop, rows: int, warned: bool
) -> None:
    plan = workshop.plan(
        workshop.jsonl(ROWS[:rows]),
        {
            "recipe.data.validation_split": 0.1,
            "request": {"stage": "pretokenize", "force": False, "preview": 0},
        },
    )
    for _ in range(2):
        events, memory = Events.in_memory("pretokenize")
        run(plan, events)
        codes = [getattr(event.body, "code", None) for event in memory.events]
        assert ("no-validation" in codes) == warned


@pytest.mark.parametrize("used", [True, False])
def test_a_cache_that_trainings_do_not_read_is_warned_of(workshop: Workshop, used: bool) -> None:
    request = {"stage": "pretokenize", "force": False, "preview": 0}
    plan = workshop.plan(workshop.jsonl(ROWS), {"machine.loader.use_cache": used, "request": request})
    events, memory = Events.in_memory("pretokenize")
    run(plan, events)
    codes = [getattr(event.body, "code", None) for event in memory.events]
    assert ("cache-unused" in codes) == (not used)
