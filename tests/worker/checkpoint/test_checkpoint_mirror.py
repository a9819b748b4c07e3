"""The mirror: everything arrives, a broken target is reported and stops nothing, secrets are not uploaded."""

import json
import threading
import time
from pathlib import Path

import fsspec
import pytest
import zstandard
from fsspec.implementations.memory import MemoryFileSystem

from expert_worker.checkpoint import mirror as module
from expert_worker.checkpoint.mirror import Mirror, redacted
from expert_worker.events import Events
from expert_worker.storage import unanswered


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(bytes(range(256)) * 9000)
    (folder / "state.json").write_text("{}")
    (folder / "zz.json").write_text("[1]")
    return folder


@pytest.fixture(autouse=True)
def empty_memory_system():
    MemoryFileSystem.store.clear()


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("compress", [True, False])
def test_every_file_arrives_whole(folder: Path, background: bool, compress: bool) -> None:
    events, _ = Events.in_memory()
    mirror = Mirror("memory://bucket/run", events, background=background, compress=compress)
    mirror.submit(folder)
    mirror.drain()
    assert mirror.pending() == set()
    system = fsspec.filesystem("memory")
    for path in folder.iterdir():
        packed = compress and path.name != "state.json"
        remote = system.cat(f"/bucket/run/checkpoint-5/{path.name}{'.zst' if packed else ''}")
        arrived = zstandard.ZstdDecompressor().decompressobj().decompress(remote) if packed else remote
        assert arrived == path.read_bytes()


def test_a_plain_folder_is_a_target_too(folder: Path, tmp_path: Path) -> None:
    mirror = Mirror(str(tmp_path / "elsewhere"), Events.in_memory()[0], background=False)
    mirror.submit(folder)
    copied = tmp_path / "elsewhere" / "checkpoint-5"
    assert sorted(p.name for p in copied.iterdir()) == sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("target", ["", "checkpoint-5", "link", "missing/.."])
def test_a_checkpoint_is_never_written_onto_itself(folder: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    events, memory = Events.in_memory()
    Mirror(f"{tmp_path}/{target}", events, background=False, patience=0.0).submit(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (said,) = [line.body for line in memory.events]
    assert said.type == "warning" and said.code == "mirror-failed"
    assert said.message.endswith("it is the run's own folder")
    assert said.hint is not None and "-o" in said.hint


def test_state_json_travels_last(folder: Path) -> None:
    order = [path.name for path in module._in_order(folder)]
    assert order == ["adapter_model.safetensors", "zz.json", "state.json"]


def test_submitting_never_waits_and_pending_folders_are_named(folder: Path, monkeypatch) -> None:
    gate = threading.Event()
    copy = Mirror._copy
    monkeypatch.setattr(Mirror, "_copy", lambda self, folder: (gate.wait(20), copy(self, folder))[1])
    mirror = Mirror("memory://bucket", Events.in_memory()[0])
    mirror.submit(folder)
    assert mirror.pending() == {folder}
    gate.set()
    mirror.drain()
    assert mirror.pending() == set()


@pytest.fixture
def hanging(monkeypatch):
    """A target that does not answer before the test ends."""
    gate, asked = threading.Event(), threading.Event()
    real = fsspec.core.url_to_fs

    def hang(url: str) -> object:
        asked.set()
        gate.wait(60)
        return real(url)

    monkeypatch.setattr(fsspec.core, "url_to_fs", hang)
    yield asked
    gate.set()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_target_that_hangs_is_given_up_and_each_checkpoint_named(
    folder: Path, hanging: threading.Event, monkeypatch, stopped: bool
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_AT_END", 1e9 if stopped else 1.0)
    monkeypatch.setattr(module, "_PATIENCE_AFTER_STOP", 1.0 if stopped else 1e9)
    events, memory = Events.in_memory()
    if stopped:
        events.stop.request(terminated=True)
    mirror = Mirror("memory://key:secret@bucket", events)
    mirror.submit(folder)
    mirror.submit(folder.with_name("checkpoint-10"))
    assert hanging.wait(60)
    assert "memory://bucket/checkpoint-5" in unanswered(0.0)
    mirror.drain()
    stage, *warnings = [event.body for event in memory.events]
    assert stage.type == "stage" and stage.name == "mirror"
    assert [(said.code, said.message) for said in warnings] == [
        ("mirror-failed", f"checkpoint-{step} was not copied to memory://bucket: no answer for 1 s")
        for step in (5, 10)
    ]
    assert mirror.pending() == set()
    # Only the stage: a wait without a byte is not a sign of life.
    assert events.ticks == 1


def test_a_slow_target_is_waited_for_while_bytes_move(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_ROUND", 0.1)
    monkeypatch.setattr(module, "_PATIENCE_AT_END", 2.0)
    events, memory = Events.in_memory()
    mirror = Mirror("memory://bucket", events)
    rounds, moving = iter(range(15)), threading.Event()
    pour = module._pour

    def slowly(source, sink, moved, *, packed):
        for _ in rounds:
            time.sleep(0.2)
            moved()
        pour(source, sink, moved, packed=packed)
        moving.set()

    monkeypatch.setattr(module, "_pour", slowly)
    mirror.submit(folder)
    mirror.drain()
    assert moving.is_set() and mirror.pending() == set()
    assert [event.body.type for event in memory.events] == ["stage", "applied"]
    assert events.ticks > 1


def test_a_broken_target_is_retried_then_reported(folder: Path, monkeypatch) -> None:
    tries = []

    def refuse(*_: object) -> None:
        tries.append(1)
        raise ConnectionError("no route to s3://key:secret@bucket/x?token=abc")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    events, memory = Events.in_memory()
    mirror = Mirror("s3://key:secret@bucket/x?token=abc", events, patience=0.0)
    mirror.submit(folder)
    mirror.drain()
    said = memory.events[-1].body
    assert len(tries) == 3
    assert said.type == "warning" and said.code == "mirror-failed"
    assert "checkpoint-5" in said.message and "no route" in said.message
    assert not any(word in line.model_dump_json() for line in memory.events for word in ("secret", "abc"))


def test_a_retry_succeeds_after_a_transient_fault(folder: Path, monkeypatch) -> None:
    real, tries = fsspec.core.url_to_fs, []

    def flaky(url: str) -> object:
        tries.append(1)
        if len(tries) == 1:
            raise TimeoutError("slow")
        return real(url)

    monkeypatch.setattr(fsspec.core, "url_to_fs", flaky)
    events, memory = Events.in_memory()
    mirror = Mirror("memory://bucket", events, background=False, patience=0.0)
    mirror.submit(folder)
    assert [e.body.type for e in memory.events] == ["applied"]


def test_a_missing_backend_names_its_package(folder: Path) -> None:
    events, memory = Events.in_memory()
    Mirror("abfs://container/x", events, background=False, patience=60.0).submit(folder)
    assert "not installed" in memory.events[-1].body.message


def state(base: str, steps: int, inputs: object = None) -> str:
    duration = {"unit": "steps", "value": steps}
    recipe = {
        "expert": "sql", "base": {"name": base}, "schedule": {"duration": duration},
        "data": {"train": [{"name": "rows.jsonl"}], "test": [{"name": "test.jsonl"}]},
    }  # fmt: skip
    return json.dumps({"facts": {"recipe": recipe, "inputs": inputs}})


@pytest.mark.parametrize("number", [3, 5, 9])
def test_another_runs_copies_are_not_touched(folder: Path, tmp_path: Path, number: int) -> None:
    (folder / "state.json").write_text(state("qwen", 10))
    target = tmp_path / "mirror"
    there = target / f"checkpoint-{number}"
    there.mkdir(parents=True)
    (there / "state.json").write_text(state("smol", 10))
    events, memory = Events.in_memory()
    Mirror(str(target), events, background=False, patience=60.0).submit(folder)
    assert [path.relative_to(target).as_posix() for path in target.rglob("*.json")] == [
        f"checkpoint-{number}/state.json"
    ]
    (said,) = [event.body for event in memory.events]
    assert said.code == "mirror-failed" and "checkpoint-5 was not copied" in said.message
    assert "another run, or of other settings or data (sql on smol)" in said.message
    assert "{model-slug}" in said.hint


KNOWN = {
    "data": {"rows.jsonl": "a", "test.jsonl": "t"}, "base": "b", "tokenizer": "k", "template": "l",
    "scorer": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("theirs", "is_copied"),
    [
        ({"data": {"rows.jsonl": "other"}}, False),
        ({"base": "other"}, False),
        ({"tokenizer": "other"}, False),
        ({"template": "other"}, False),
        ({"code": {"version": "0.1"}}, True),
        ({"data": {"rows.jsonl": "a", "test.jsonl": "other"}}, True),
        ({"data": {}, "base": None}, True),
        (None, True),
    ],
)
def test_a_run_of_other_data_or_of_another_base_is_another_run(
    folder: Path, tmp_path: Path, theirs: dict[str, object] | None, is_copied: bool
) -> None:
    (folder / "state.json").write_text(state("qwen", 10, KNOWN))
    there = tmp_path / "mirror" / "checkpoint-3"
    there.mkdir(parents=True)
    (there / "state.json").write_text(state("qwen", 10, theirs and {**KNOWN, **theirs}))
    events, memory = Events.in_memory()
    Mirror(str(tmp_path / "mirror"), events, background=False, patience=0.0).submit(folder)
    assert (tmp_path / "mirror" / "checkpoint-5").is_dir() == is_copied
    assert [event.body.type for event in memory.events] == ["applied" if is_copied else "warning"]


def test_an_earlier_copy_is_not_whole_once_its_first_file_is_replaced(
    folder: Path, tmp_path: Path, monkeypatch
) -> None:
    mirror = Mirror(str(tmp_path / "mirror"), Events.in_memory()[0], background=False, patience=0.0)
    mirror.submit(folder)
    there = tmp_path / "mirror" / "checkpoint-5"
    assert (there / "state.json").is_file()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(module, "_pour", full)
    mirror.submit(folder)
    assert not (there / "state.json").exists() and (there / "zz.json").is_file()


@pytest.mark.parametrize("steps", [10, 20])
def test_a_run_and_the_same_for_longer_share_a_target(folder: Path, tmp_path: Path, steps: int) -> None:
    (folder / "state.json").write_text(state("qwen", steps))
    there = tmp_path / "mirror" / "checkpoint-5"
    there.mkdir(parents=True)
    (there / "state.json").write_text(state("qwen", 10))
    # Nothing says whose a copy is that is not whole.
    (tmp_path / "mirror" / "checkpoint-7").mkdir()
    Mirror(str(tmp_path / "mirror"), Events.in_memory()[0], background=False).submit(folder)
    assert sorted(path.name for path in there.iterdir()) == sorted(path.name for path in folder.iterdir())
    assert (there / "state.json").read_text() == state("qwen", steps)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/a/", "s3://bucket/a"),
        ("https://me:pw@host/a?sig=1", "https://host/a"),
        ("/plain/path", "/plain/path"),
        ("C:\\backups", "C:\\backups"),
    ],
)
def test_redaction(url: str, shown: str) -> None:
    assert redacted(url) == shown
