"""The commit protocol from outside: the files after a commit, a fault, a bit flip and a retention."""

import json
import types
from pathlib import Path

import pytest
import torch
import zstandard
from safetensors.torch import load_file

from expert_worker.checkpoint import Store, files, record
from expert_worker.checkpoint.mirror import Mirror
from expert_worker.checkpoint.record import NAME, sealed
from expert_worker.errors import BadInput, Failed, Storage
from expert_worker.events import Events
from expert_worker.events.sinks import Record
from expert_worker.results import CheckpointFacts


def facts(**changes: object) -> CheckpointFacts:
    values: dict[str, object] = {
        "recipe_digest": "d" * 64,
        "recipe": {"seed": 1},
        "cache_key": "c" * 64,
        "total_steps": 100,
        "micro_batch": 4,
        "totals": {"tokens": 7},
        "metrics": {},
    }
    return CheckpointFacts.model_validate(values | changes)


def parts(step: int) -> dict[str, object]:
    return {
        "adapter_model.safetensors": {
            "a": torch.full((3, 5), float(step)),
            "empty": torch.zeros(0, 4),
        },
        "optimizer.safetensors": {
            "0.step": torch.tensor(float(step)),
            "0.b": torch.arange(7).to(torch.bfloat16),
        },
        "trainer.json": {"order": [3, 1, 2]},
        "adapter_config.json": b"{}\n",
    }


@pytest.fixture
def heard():
    return Events.in_memory()


@pytest.fixture
def store(tmp_path: Path, heard) -> Store:
    store = Store(tmp_path / "out", heard[0])
    store.open()
    return store


def test_a_commit_can_be_read_back_and_is_announced(store: Store, heard) -> None:
    path = store.commit(10, parts(10), facts(metrics={"eval_loss": 2.5}))
    loaded = store.newest_valid()
    assert loaded is not None and loaded.step == 10 and loaded.path == path
    adapter = loaded.tensors("adapter_model.safetensors")
    assert torch.equal(adapter["a"], torch.full((3, 5), 10.0))
    assert adapter["empty"].shape == (0, 4)
    assert loaded.tensors("optimizer.safetensors")["0.b"].dtype == torch.bfloat16
    assert loaded.tensors("optimizer.safetensors")["0.step"].shape == ()
    assert loaded.json("trainer.json") == {"order": [3, 1, 2]}
    assert loaded.facts.metrics == {"eval_loss": 2.5} and loaded.facts.micro_batch == 4
    said = heard[1].events[-1].body
    assert said.type == "checkpoint" and said.step == 10
    assert said.bytes == sum(f.stat().st_size for f in path.iterdir())


def test_the_same_state_gives_the_same_bytes(tmp_path: Path, heard) -> None:
    folders = []
    for name in ("one", "two"):
        store = Store(tmp_path / name, heard[0])
        store.open()
        shuffled = dict(sorted(parts(3).items(), reverse=name == "two"))
        folders.append(store.commit(3, shuffled, facts()))
    for file in sorted(p.name for p in folders[0].iterdir()):
        assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes()


def test_other_readers_of_safetensors_agree(store: Store) -> None:
    tensors = {
        f"t.{dtype}": torch.randint(0, 2, (2, 3)).to(dtype)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32)
    } | {"bytes": torch.arange(5, dtype=torch.uint8), "flags": torch.tensor([True, False, True])}
    tensors["strided"] = torch.arange(12.0).reshape(3, 4).t()
    path = store.commit(1, {"x.safetensors": tensors}, facts())
    for name, read in load_file(path / "x.safetensors").items():
        assert read.dtype == tensors[name].dtype and torch.equal(read, tensors[name]), name


def test_a_whole_checkpoint_is_never_replaced_and_a_damaged_one_is(store: Store, heard) -> None:
    path = store.commit(3, parts(3), facts(metrics={"eval_loss": 1.0}))
    before = path.stat().st_ino
    said = len(heard[1].events)
    store.commit(3, parts(3), facts())
    assert path.stat().st_ino == before and len(heard[1].events) == said
    (path / "trainer.json").write_text("{}")
    store.commit(3, parts(3), facts())
    loaded = store.newest_valid()
    assert loaded is not None and loaded.facts.metrics == {}


def test_no_pickle_is_ever_written(store: Store) -> None:
    path = store.commit(1, parts(1), facts())
    assert {p.suffix for p in path.rglob("*") if p.is_file()} == {".json", ".safetensors"}


def test_nothing_there_is_none_and_something_unreadable_is_an_error(store: Store) -> None:
    assert store.newest_valid() is None
    for step in (5, 10):
        (store.commit(step, parts(step), facts()) / NAME).unlink()
    with pytest.raises(Failed) as failure:
        store.newest_valid()
    assert "checkpoint-5" in failure.value.message and "checkpoint-10" in failure.value.message
    assert failure.value.hint is not None and "--fresh" in failure.value.hint
    assert [p.name for p in store.candidates()] == ["checkpoint-5", "checkpoint-10"], "evidence stays"


def test_a_damaged_checkpoint_is_skipped_with_a_warning_and_replaced_later(store: Store, heard) -> None:
    for step in (5, 10, 15):
        store.commit(step, parts(step), facts())
    target = store.path(15) / "optimizer.safetensors"
    target.write_bytes(target.read_bytes()[:-1])
    loaded = store.newest_valid()
    assert loaded is not None and loaded.step == 10
    said = heard[1].events[-1].body
    assert said.type == "recovered" and said.kind == "damaged_checkpoint" and "checkpoint-15" in said.detail
    assert store.retain(1, None) == [5], "the damaged one does not count as the newest"
    store.commit(12, parts(12), facts())
    assert (store.output / "checkpoint-15.damaged").is_dir()
    store.commit(15, parts(15), facts())
    assert not (store.output / "checkpoint-15.damaged").exists()


@pytest.mark.parametrize("change", ["1", '"x"', "null"])
def test_a_number_changed_by_hand_in_state_json_is_noticed(store: Store, change: str) -> None:
    path = store.commit(10, parts(10), facts())
    document = json.loads((path / NAME).read_text())
    document["facts"]["total_steps"] = json.loads(change)
    (path / NAME).write_text(json.dumps(document, sort_keys=True, indent=2) + "\n")
    with pytest.raises(Failed, match=r"state\.json"):
        store.load(path)


def test_resuming_from_an_older_checkpoint_makes_it_the_newest(store: Store) -> None:
    for step in (5, 10, 15):
        store.commit(step, parts(step), facts())
    loaded = store.load(store.path(5))
    store.rewind(loaded.step)
    assert [p.name for p in store.candidates()] == ["checkpoint-5"]
    store.commit(7, parts(7), facts())
    assert store.retain(1, None) == [5]
    newest = store.newest_valid()
    assert newest is not None and newest.step == 7


def test_a_disk_that_is_too_small_is_refused_before_any_work(store: Store, monkeypatch) -> None:
    store.demand_room(1000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: types.SimpleNamespace(free=2_000_000))
    with pytest.raises(Storage, match=r"needs about 5\.0 MB; 2\.0 MB are free"):
        store.demand_room(5_000_000)


def test_leftovers_of_a_killed_attempt_are_cleared(store: Store) -> None:
    (store.output / "checkpoint-5.partial").mkdir()
    (store.output / "checkpoint-5.partial" / "x").write_text("half")
    (store.output / "checkpoint-1.trash").mkdir()
    (store.output / "run.json.partial").write_text("{")
    store.open()
    assert list(store.output.iterdir()) == []


def test_nothing_is_cleared_that_a_run_did_not_leave(store: Store) -> None:
    mine = ["movie.mkv.partial", "final.docx.partial", "checkpoint-best.trash", "my-checkpoint-3.partial"]
    for name in mine:
        (store.output / name).write_text("mine")
    (store.output / "notes.trash").mkdir()
    store.open()
    assert sorted(p.name for p in store.output.iterdir()) == sorted([*mine, "notes.trash"])


@pytest.mark.skipif(not files.NO_FOLLOW, reason="no symbolic links to refuse")
def test_nothing_is_written_through_a_symbolic_link(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (store.output / "run.json.partial").symlink_to(outside)
    with pytest.raises(OSError):
        files.write(store.output / "run.json.partial", [b"theirs"])
    store.open()
    assert not (store.output / "run.json.partial").is_symlink() and outside.read_text() == "mine"
    (store.output / "events.jsonl").symlink_to(outside)
    with pytest.raises(BadInput, match="symbolic link"):
        Record(store.output / "events.jsonl")
    assert outside.read_text() == "mine"


def test_fresh_clears_checkpoints_and_nothing_else(store: Store) -> None:
    store.commit(5, parts(5), facts())
    (store.output / "checkpoint-9.damaged").mkdir()
    (store.output / "notes.txt").write_text("mine")
    store.clear()
    assert [p.name for p in store.output.iterdir()] == ["notes.txt"]


def test_a_refused_write_is_a_storage_error_that_names_what_is_safe(store: Store, monkeypatch) -> None:
    store.commit(5, parts(5), facts())

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(Storage) as refusal:
        store.commit(10, parts(10), facts())
    monkeypatch.undo()
    assert refusal.value.exit_code == 4
    assert "checkpoint-10" in refusal.value.message and "It needs " in refusal.value.message
    assert refusal.value.hint is not None and "checkpoint-5 is untouched" in refusal.value.hint
    assert [p.name for p in store.output.iterdir()] == ["checkpoint-5"]


@pytest.fixture
def mirrored(store: Store, tmp_path: Path) -> Path:
    """A compressed copy of checkpoint-10."""
    mirror = Mirror(str(tmp_path / "mirror"), Events.in_memory()[0], compress=True, background=False)
    mirror.submit(store.commit(10, parts(10), facts()))
    return tmp_path / "mirror" / "checkpoint-10"


def test_a_compressed_copy_is_unpacked_among_the_runs_own(
    mirrored: Path, store: Store, tmp_path: Path
) -> None:
    elsewhere = Store(tmp_path / "elsewhere", Events.in_memory()[0])
    elsewhere.open()
    loaded = elsewhere.named(mirrored)
    assert loaded.path == tmp_path / "elsewhere" / "checkpoint-10"
    for path in store.path(10).iterdir():
        assert (loaded.path / path.name).read_bytes() == path.read_bytes()
    before = loaded.path.stat().st_ino
    assert elsewhere.named(mirrored).path.stat().st_ino == before, "it is there already"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no zstd", "cannot be unpacked"),
        (zstandard.compress(bytes(50 << 20)), "unpacks to more than"),
        (None, "absent"),
        ("same size", "has changed since it was written"),
    ],
)
def test_a_damaged_copy_is_refused_and_leaves_nothing(mirrored, tmp_path, content, reason) -> None:
    damaged = mirrored / "optimizer.safetensors.zst"
    if content == "same size":
        content = zstandard.compress(bytes(record.read(mirrored).files["optimizer.safetensors"].bytes))
    damaged.unlink() if content is None else damaged.write_bytes(content)
    elsewhere = Store(tmp_path / "elsewhere", Events.in_memory()[0])
    elsewhere.open()
    with pytest.raises(Failed, match=reason):
        elsewhere.named(mirrored)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_damaged_checkpoint_of_a_mirror_names_the_others_there(store: Store, tmp_path: Path) -> None:
    """Without a path `--resume` would begin at step 0 in a new folder."""
    mirror = Store(tmp_path / "mirror", Events.in_memory()[0])
    mirror.open()
    paths = [mirror.commit(step, parts(step), facts()) for step in (2, 4, 9, 10)]
    (paths[3] / "optimizer.safetensors").unlink()
    for path in (paths[3], mirror.output):
        with pytest.raises(Failed, match="is absent") as refusal:
            store.named(path)
        hint = refusal.value.hint or ""
        assert (f"--resume: {paths[2]} or {paths[1]}." in hint) == (path == paths[3]), hint
        assert "without a path" not in hint
    with pytest.raises(Failed) as refusal:
        mirror.named(paths[3])
    assert "without a path" in (refusal.value.hint or "")


def test_the_best_checkpoint_of_another_run_is_set_aside_for_that_of_the_resumed_one(
    mirrored: Path, tmp_path: Path
) -> None:
    elsewhere = Store(tmp_path / "elsewhere", Events.in_memory()[0])
    elsewhere.open()
    elsewhere.commit(10, parts(11), facts())
    elsewhere.demand_best(10, mirrored)
    best = elsewhere.load(elsewhere.path(10))
    assert best.tensors("adapter_model.safetensors")["a"][0, 0] == 10
    names = ["checkpoint-10", "checkpoint-10.superseded"]
    assert sorted(path.name for path in elsewhere.output.iterdir()) == names


def test_the_runs_own_best_checkpoint_is_kept_whatever_its_speed_was(mirrored: Path, tmp_path: Path) -> None:
    elsewhere = Store(tmp_path / "elsewhere", Events.in_memory()[0])
    elsewhere.open()
    elsewhere.commit(10, parts(10), facts(tokens_per_second=3.0))
    before = (elsewhere.path(10) / NAME).read_bytes()
    for source in (mirrored, tmp_path / "nowhere"):
        elsewhere.demand_best(10, source)
        assert (elsewhere.path(10) / NAME).read_bytes() == before


def test_a_copy_names_no_file_outside(mirrored: Path, tmp_path: Path) -> None:
    read = record.read(mirrored)
    entry = read.files["trainer.json"]
    outside = read.model_copy(update={"files": {"../../stolen": entry}})
    (mirrored / NAME).write_bytes(sealed(outside))
    (tmp_path / "stolen.zst").write_bytes((mirrored / "trainer.json.zst").read_bytes())
    elsewhere = Store(tmp_path / "elsewhere", Events.in_memory()[0])
    elsewhere.open()
    with pytest.raises(Failed, match="leads out of the checkpoint"):
        elsewhere.named(mirrored)
