"""The store at its borders: no folder yet, exactly enough room, folders that were set aside."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from expert_worker.checkpoint import Store
from expert_worker.checkpoint.store import step_of
from expert_worker.errors import Failed, Storage
from expert_worker.events import Events
from expert_worker.results import CheckpointFacts


@pytest.fixture
def heard():
    return Events.in_memory()


@pytest.fixture
def store(tmp_path: Path, heard) -> Store:
    store = Store(tmp_path / "out", heard[0])
    store.open()
    return store


def save(store: Store, *steps: int, totals: dict[str, int] | None = None) -> None:
    facts = CheckpointFacts.model_validate(
        {
            "recipe_digest": "d" * 64, "recipe": {}, "cache_key": "c" * 64, "total_steps": 9,
            "micro_batch": 1, "totals": totals or {}, "metrics": {},
        }
    )  # fmt: skip
    for step in steps:
        store.commit(step, {"x.safetensors": {"a": torch.tensor([float(step)])}}, facts)


def names(store: Store) -> list[str]:
    return sorted(path.name for path in store.output.iterdir())


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path, heard) -> None:
    store = Store(tmp_path / "none", heard[0])
    assert store.candidates() == [] and store.newest_valid() is None


@pytest.mark.parametrize("name", ["checkpoint-007", "checkpoint-7-copy", "checkpoint-+7"])
def test_a_folder_of_another_name_is_not_a_checkpoint(store: Store, name: str) -> None:
    save(store, 5, 7)
    shutil.copytree(store.path(7), store.output / name)
    found = store.newest_valid()
    assert found is not None and found.path == store.path(7)
    assert store.retain(1, None) == [5]
    store.rewind(3)
    assert name in names(store)


def test_a_checkpoint_under_the_name_of_another_step_is_damaged(store: Store, heard) -> None:
    save(store, 5)
    shutil.copytree(store.path(5), store.path(9))
    found = store.newest_valid()
    assert found is not None and found.step == 5
    assert "checkpoint-9 was skipped: it holds step 5" in heard[1].events[-1].body.detail
    assert names(store) == ["checkpoint-5", "checkpoint-9.damaged"]


def test_a_checkpoint_whose_best_one_is_damaged_gives_way_to_an_older_one(store: Store, heard) -> None:
    save(store, 3, 6, 8, 9)
    best = {3: 3, 6: 3, 8: 8, 9: 8}
    (store.path(8) / "x.safetensors").unlink()
    found = store.newest_valid(lambda loaded: best[loaded.step])
    assert found is not None and found.step == 6
    said = [event.body.detail for event in heard[1].events[-2:]]
    assert said[0] == (
        "checkpoint-9 was skipped: the best one at that time, checkpoint-8, cannot be used: "
        "x.safetensors is absent. Resuming from checkpoint-6."
    )
    assert said[1].startswith("checkpoint-8 was skipped: x.safetensors is absent")
    assert names(store) == ["checkpoint-3", "checkpoint-6", "checkpoint-8.damaged", "checkpoint-9.superseded"]


def test_a_damaged_new_best_one_leaves_a_checkpoint_to_resume_from(store: Store, heard) -> None:
    for step, best in {20: 20, 25: 20, 30: 20, 35: 20, 40: 40}.items():
        save(store, step, totals={"best_step": best})
        store.retain(3, best)
    assert names(store) == ["checkpoint-20", "checkpoint-35", "checkpoint-40"]
    (store.path(40) / "x.safetensors").unlink()
    found = store.newest_valid(lambda loaded: loaded.facts.totals["best_step"])
    assert found is not None and found.step == 35


def test_where_no_best_checkpoint_is_left_the_run_does_not_begin_again(store: Store) -> None:
    save(store, 6)
    with pytest.raises(Failed, match="checkpoint-6: the best one at that time, checkpoint-3, cannot be used"):
        store.newest_valid(lambda loaded: 3)
    assert names(store) == ["checkpoint-6"]


def test_exactly_enough_room_is_enough(store: Store, monkeypatch) -> None:
    monkeypatch.setattr(store, "free", lambda: 1000)
    store.demand_room(1000)
    with pytest.raises(Storage):
        store.demand_room(1001)


def test_a_step_that_is_saved_already_is_left_alone_and_named(store: Store) -> None:
    save(store, 1)
    before = (store.path(1) / "x.safetensors").stat().st_ino
    found = store.newest_valid()
    assert found is not None and store.commit(1, {}, found.facts) == store.path(1)
    assert (store.path(1) / "x.safetensors").stat().st_ino == before


def test_a_folder_below_folders_that_are_not_there_is_made(tmp_path: Path, heard) -> None:
    store = Store(tmp_path / "weights" / "base", heard[0])
    store.open()
    save(store, 1)
    assert names(store) == ["checkpoint-1"]


def test_a_name_without_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a checkpoint's name"):
        step_of(Path("weights/final"))


def test_parts_may_be_in_folders(store: Store) -> None:
    save(store, 1)
    found = store.newest_valid()
    assert found is not None
    parts = {"below/deep/more.bin": b"more", "below/deep/notes.bin": b"notes", "top.json": {"a": 1}}
    path = store.commit(2, parts, found.facts)
    assert [(path / "below" / "deep" / name).read_bytes() for name in ("more.bin", "notes.bin")] == [
        b"more",
        b"notes",
    ]
    newest = store.newest_valid()
    assert newest is not None and newest.step == 2 and newest.json("top.json") == {"a": 1}


def test_what_no_policy_keeps_is_deleted_and_named(store: Store) -> None:
    save(store, 1, 2, 3)
    assert store.retain(2, None) == [1]
    assert names(store) == ["checkpoint-2", "checkpoint-3"]
    assert store.retain(1, 2) == []
    assert store.retain(None, None) == []


def test_set_aside_twice_the_older_one_gives_way(store: Store) -> None:
    save(store, 1, 2)
    store.rewind(1)
    assert names(store) == ["checkpoint-1", "checkpoint-2.superseded"]
    (store.output / "checkpoint-2.superseded" / "mark").write_bytes(b"")
    save(store, 3)
    assert "checkpoint-2.superseded" not in names(store), "step 3 is past it"
    save(store, 2)
    store.rewind(1)
    assert names(store) == ["checkpoint-1", "checkpoint-2.superseded", "checkpoint-3.superseded"]
    save(store, 2)
    assert names(store) == ["checkpoint-1", "checkpoint-2", "checkpoint-3.superseded"]


def test_an_older_leftover_of_the_same_name_is_replaced(store: Store) -> None:
    save(store, 1, 2)
    old = store.output / "checkpoint-2.superseded"
    old.mkdir()
    (old / "mark").write_bytes(b"")
    store.rewind(1)
    assert old.is_dir() and not (old / "mark").exists()


def test_the_seconds_of_a_save_are_those_that_it_took(store: Store, heard) -> None:
    save(store, 1)
    body = heard[1].events[-1].body
    assert body.type == "checkpoint" and 0 <= body.seconds < 600


@pytest.mark.parametrize("damage", ["flipped", "shorter", "gone"])
def test_a_file_that_is_not_as_written_is_damage(store: Store, damage: str) -> None:
    save(store, 1, 2)
    path = store.path(2) / "x.safetensors"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage == "flipped" else content[:-1])
    found = store.newest_valid()
    assert found is not None and found.step == 1


def test_folders_are_made_as_deep_as_they_are_named(tmp_path: Path, heard) -> None:
    store = Store(tmp_path / "a" / "b" / "out", heard[0])
    store.open()
    save(store, 1)
    parts = {f"part/{name}.safetensors": {"a": torch.ones(1)} for name in "xy"}
    found = store.newest_valid()
    assert found is not None
    folder = store.commit(2, parts, found.facts)
    assert sorted(path.name for path in (folder / "part").iterdir()) == ["x.safetensors", "y.safetensors"]


def test_another_folder_is_not_a_checkpoint() -> None:
    assert step_of(Path("out/checkpoint-12")) == 12
    with pytest.raises(ValueError, match="notes is not a checkpoint's name"):
        step_of(Path("notes"))
