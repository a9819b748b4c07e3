"""Rows that a run tokenizes for itself are gone after it, however it ends."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.workshop import Workshop

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.train import dataset
from expert_worker.train.dataset import open_dataset

pytestmark = pytest.mark.skipif(os.name == "nt", reason="forks and kills by signal")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


class Owner:
    """Another process with a folder for its rows; forked, which spares it the import of torch."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                folder = dataset.create_rows_folder()
                (folder.path / "cache").mkdir()
                (folder.path / "cache" / "rows.arrow").write_bytes(b"rows")
                os.write(write, os.fsencode(folder.path))
                os.close(write)
                while True:
                    signal.pause()
            finally:
                os._exit(1)
        os.close(write)
        with os.fdopen(read, "rb") as said:
            self.folder = Path(os.fsdecode(said.read()))

    def lives(self) -> bool:
        return os.waitpid(self._process, os.WNOHANG) == (0, 0)

    def kill(self) -> None:
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._process = 0


@contextmanager
def owner(temporary: Path) -> Iterator[tuple[Owner, Path]]:
    owner = Owner()
    try:
        assert owner.folder.parent == temporary
        yield owner, owner.folder
    finally:
        owner.kill()


def test_rows_of_a_killed_worker_are_removed_and_those_of_a_live_one_kept(temporary: Path) -> None:
    with owner(temporary) as (dead, abandoned), owner(temporary) as (live, used):
        assert dataset.remove_abandoned_rows() == []
        dead.kill()
        assert (abandoned / "cache" / "rows.arrow").is_file()
        assert dataset.remove_abandoned_rows() == [abandoned]
        assert not abandoned.exists() and (used / "cache" / "rows.arrow").is_file()
        assert live.lives()


def test_a_removal_that_was_killed_itself_is_completed(temporary: Path) -> None:
    with owner(temporary) as (dead, abandoned):
        dead.kill()
        (abandoned / "cache" / "rows.arrow").unlink()
        (abandoned / "cache").rmdir()
        assert dataset.remove_abandoned_rows() == [abandoned]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")
def test_what_is_not_a_worker_s_folder_stays(temporary: Path, tmp_path: Path) -> None:
    """A link, a folder without a lock, a lock that is a link: the temporary folder is everyone's."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "owner.lock").touch()
    (temporary / "expert-rows-link").symlink_to(mine)
    (temporary / "expert-rows-bare").mkdir()
    (temporary / "expert-rows-bare" / "thesis.tex").touch()
    (temporary / "expert-rows-lock").mkdir()
    (temporary / "expert-rows-lock" / "owner.lock").symlink_to(mine / "owner.lock")
    assert dataset.remove_abandoned_rows() == []
    assert (mine / "owner.lock").is_file() and (temporary / "expert-rows-bare" / "thesis.tex").is_file()
    assert (temporary / "expert-rows-lock").is_dir()


def on_the_fly(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, write_base(tmp_path / "base", llama3_like()), tmp_path / "home")


def test_a_run_removes_abandoned_rows_first_and_its_own_at_the_end(tmp_path: Path, temporary: Path) -> None:
    workshop = on_the_fly(tmp_path)
    plan = workshop.plan(
        workshop.jsonl([{"prompt": "Q", "completion": "A"}]), {"machine.loader.use_cache": False}
    )
    with owner(temporary) as (dead, abandoned):
        dead.kill()
        opened = open_dataset(plan, Events.in_memory()[0])
    assert not abandoned.exists() and len(opened.train) == 1
    (own,) = temporary.iterdir()
    assert dataset.remove_abandoned_rows() == [] and own.is_dir()
    opened.close()
    opened.close()
    assert list(temporary.iterdir()) == []


def test_rows_that_cannot_be_tokenized_leave_no_folder(tmp_path: Path, temporary: Path) -> None:
    workshop = on_the_fly(tmp_path)
    plan = workshop.plan(workshop.jsonl([{"odd": 1}]), {"machine.loader.use_cache": False})
    with pytest.raises(BadInput):
        open_dataset(plan, Events.in_memory()[0])
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("train_on", "reason"),
    [
        ("completions", "no two rows that follow one another begin with the same 32 unlearned tokens"),
        ("all", "with train_on: all every beginning is learned, and only unlearned tokens are shared"),
    ],
)
def test_why_no_beginning_is_shared(tmp_path: Path, train_on: str, reason: str) -> None:
    workshop = on_the_fly(tmp_path)
    begins_alike = [{"prompt": "the same words " * 40, "completion": str(n)} for n in range(2)]
    rows = begins_alike if train_on == "all" else [{"prompt": f"{n}", "completion": "A"} for n in range(2)]
    changes = {"recipe.data.train_on": train_on, "recipe.batch.share_prefixes": True}
    events, memory = Events.in_memory()
    open_dataset(workshop.plan(workshop.jsonl(rows), changes), events).close()
    [warning] = [event.body for event in memory.events if getattr(event.body, "code", "") == "nothing-shared"]
    assert warning.message == f"share_prefixes changes nothing: {reason}"
    assert warning.hint is not None and ("train_on" in warning.hint) is (train_on == "all")


LOST = [
    ("truncate", "Not all of the 10 rows read are learned whole: 4 truncated, too long (40.0%)"),
    ("drop", "Not all of the 10 rows read are learned whole: 4 dropped, too long (40.0%)"),
    ("split", None),
]


def test_lost_rows_are_counted_apart_in_training_and_validation(tmp_path: Path) -> None:
    workshop = on_the_fly(tmp_path)
    long, short = ({"prompt": "Q", "completion": "long answer " * times} for times in (40, 1))
    train = workshop.jsonl([long, *[short] * 9])
    validation = workshop.jsonl([long, short], "validation.jsonl")
    changes = {
        "recipe.batch.max_seq_length": 32,
        "recipe.data.validation": [{"name": validation.name, "format": "jsonl", "weight": 1.0, "task": None}],
        "machine.paths.data": {train.name: str(train), validation.name: str(validation)},
    }
    events, memory = Events.in_memory()
    opened = open_dataset(workshop.plan(train, changes), events)
    opened.close()
    warnings = [event.body for event in memory.events if event.body.type == "warning"]
    assert [body.message for body in warnings if body.code == "rows-lost"] == [
        "Not all of the 10 rows read are learned whole: 1 truncated, too long (10.0%)",
        "Not all of the 2 validation rows read are scored whole: 1 truncated, too long (50.0%)",
    ]
    assert opened.ledger["read"] == 10
    assert opened.held_out is not None and opened.held_out.documents == 2


def test_rows_that_a_longer_length_would_keep_are_advised_about_once(tmp_path: Path) -> None:
    workshop = on_the_fly(tmp_path)
    cut = {"prompt": "Q", "completion": "long answer " * 40}
    train = workshop.jsonl(
        [cut, {"prompt": "Q " * 200, "completion": "A"}, {"prompt": "Q", "completion": "A"}]
    )
    events, memory = Events.in_memory()
    open_dataset(workshop.plan(train, {"recipe.batch.max_seq_length": 32}), events).close()
    (warned,) = [event.body for event in memory.events if event.body.type == "warning"]
    assert "truncated, too long" in warned.message and "dropped, nothing to learn" in warned.message
    assert warned.hint == (
        "Raise max_seq_length (it is 32), or set training.dataset.overlong to split. "
        "With keep_end, rows lose their beginnings and keep answers that begin late."
    )


def test_dropped_pieces_of_split_rows_are_reported_with_their_tokens(tmp_path: Path) -> None:
    workshop = on_the_fly(tmp_path)
    train = workshop.jsonl([{"prompt": "Q " * 200, "completion": "A"}, {"prompt": "Q", "completion": "A"}])
    changes = {"recipe.data.overlong": "split", "recipe.batch.max_seq_length": 32}
    events, memory = Events.in_memory()
    opened = open_dataset(workshop.plan(train, changes), events)
    opened.close()
    [warning] = [event.body for event in memory.events if event.body.type == "warning"]
    pieces = opened.ledger["dropped_pieces"]
    assert pieces > 1
    assert warning.message == (
        f"Not all of the 2 rows read are learned whole: {pieces} pieces of split rows dropped, "
        f"nothing to learn ({1 + 31 * pieces} tokens)"
    )
    assert "max_seq_length (it is 32)" in warning.hint


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(("overlong", "message"), LOST)
def test_rows_that_are_cut_or_dropped_are_counted_in_one_warning(
    tmp_path: Path, overlong: str, message: str | None, use_cache: bool
) -> None:
    workshop = on_the_fly(tmp_path)
    rows = [{"prompt": f"Q{n}", "completion": "long answer " * (40 if n < 4 else 1)} for n in range(10)]
    changes = {
        "recipe.data.overlong": overlong,
        "recipe.batch.max_seq_length": 32,
        "machine.loader.use_cache": use_cache,
    }
    plan = workshop.plan(workshop.jsonl(rows), changes)
    for _ in ("built", "used again"):
        events, memory = Events.in_memory()
        open_dataset(plan, events).close()
        found = [event.body for event in memory.events if event.body.type == "warning"]
        assert [body.message for body in found] == ([message] if message else [])
        if message:
            assert "max_seq_length (it is 32)" in found[0].hint


def test_rows_that_an_earlier_run_left_out_are_counted_again(tmp_path: Path) -> None:
    workshop = on_the_fly(tmp_path)
    ask, answer = ({"role": role, "content": "text"} for role in ("user", "assistant"))
    rows = [{"messages": [ask, answer]}] * 2 + [{"messages": [ask, answer, ask]}, {"odd": 1}]
    plan = workshop.plan(workshop.jsonl(rows), {"recipe.data.on_bad_row": "skip"})
    said = []
    for _ in ("built", "used again"):
        events, memory = Events.in_memory()
        open_dataset(plan, events).close()
        said.append(
            {body.code: body for body in (event.body for event in memory.events) if body.type == "warning"}
        )
    assert sorted(said[0]) == ["bad-rows-skipped", "messages-unanswered"]
    assert sorted(said[1]) == ["rows-lost"]
    lost = said[1]["rows-lost"]
    assert lost.message == (
        "Not all of the 4 rows read are learned whole: 1 bad, left out (25.0%); "
        "1 with trailing messages left out, which have no answer (25.0%)"
    )
    lists = f"`expert-cli pretokenize {plan.machine.paths.expert_dir} --force` lists the bad rows."
    assert lost.hint.startswith(f"{lists} Complete rows")


def test_thoughts_that_an_earlier_run_left_out_are_counted_again(tmp_path: Path) -> None:
    workshop = on_the_fly(tmp_path)
    turns = [("user", "1?"), ("assistant", "<think>why</think>one"), ("user", "2?"), ("assistant", "two")]
    messages = [{"role": role, "content": text} for role, text in turns]
    changes = {"recipe.template": {"kind": "qwen3", "source": None}}
    plan = workshop.plan(workshop.jsonl([{"messages": messages}, {"messages": messages[:2]}]), changes)
    said = []
    for _ in ("built", "used again"):
        events, memory = Events.in_memory()
        open_dataset(plan, events).close()
        said.append({it.body.code: it.body for it in memory.events if it.body.type == "warning"})
    assert "thoughts-left-out" in said[0] and "rows-lost" not in said[0]
    assert said[1]["rows-lost"].message == (
        "Not all of the 2 rows read are learned whole: "
        "1 with thoughts that the chat template leaves out (50.0%)"
    )
    assert said[1]["rows-lost"].hint == said[0]["thoughts-left-out"].hint
