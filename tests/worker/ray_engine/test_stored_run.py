"""The lease of a run in a store, and its snapshots, on a folder and on a real S3 server."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from expert_worker.errors import Failed
from expert_worker.lease import LeaseLost
from expert_worker.ray_engine import stored_run
from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.ray_engine.stored_run import Locked, Snapshot, StoredRun


@pytest.fixture
def store(url: str) -> ObjectStore:
    return ObjectStore(url)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_run, "_DYING", 0.3)
    monkeypatch.setattr(stored_run, "_ROUND", 0.05)


def held(store: ObjectStore, succeeds: int | None = None) -> StoredRun:
    run = StoredRun(store, "ash/base")
    run.take("process 1 on a node", succeeds)
    return run


def save(run: StoredRun, folder: Path, **contents: str) -> Snapshot:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content)
    paths = {name: folder / name for name in contents}
    return run.publish(paths, {}, lambda text: text)


def restored(store: ObjectStore, target: Path) -> dict[str, str]:
    StoredRun(store, "ash/base").restore(target, lambda _: None)
    return {path.name: path.read_text() for path in target.iterdir()}


def test_tokens_grow_over_released_expired_and_lost_leases(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = held(store)
    first.sign()
    first.release()
    second = held(store)
    second.sign()
    assert (first.token, second.token, held(store, succeeds=2).token) == (1, 2, 3)
    monkeypatch.setattr(stored_run, "EXPIRES", 1.0)
    assert held(store).token == 4
    assert not first.is_held() and not second.is_held()


def test_a_finished_run_is_known_after_the_next_one_has_begun(store: ObjectStore, tmp_path: Path) -> None:
    run = held(store)
    first = save(run, tmp_path / "first", **{"run.json": "first"}).files["run.json"]["sha256"]
    assert run.has_held(first) and not run.has_held("0" * 64)
    run.forget(save(run, tmp_path / "next", weights="of the next run"))
    run.forget(save(run, tmp_path / "next", weights="of its next step"))
    assert StoredRun(store, "ash/base").has_held(first)
    # A store of an older version has no mark.
    store.remove("runs/ash/base/finished")
    assert not run.has_held(first)
    save(run, tmp_path / "first", **{"run.json": "first"})
    store.remove("runs/ash/base/finished")
    assert run.has_held(first)


def test_a_lease_with_signs_of_life_is_not_taken(store: ObjectStore) -> None:
    living = held(store)
    done = threading.Event()

    def sign() -> None:
        while not done.wait(0.05):
            living.sign()

    thread = threading.Thread(target=sign)
    thread.start()
    try:
        with pytest.raises(Locked, match="in use by process 1 on a node"):
            held(store)
    finally:
        done.set()
        thread.join()


def test_one_of_many_takes_a_lost_lease(store: ObjectStore, url: str) -> None:
    held(store)
    tokens: list[int] = []
    refused: list[Locked] = []

    def take() -> None:
        try:
            mine = StoredRun(ObjectStore(url), "ash/base")
            tokens.append(mine.take("another", succeeds=1))
            for _ in range(40):
                mine.sign()
                done.wait(0.05)
        except Locked as error:
            refused.append(error)

    done = threading.Event()
    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tokens == [2] and len(refused) == 3


def test_a_holder_that_returns_changes_nothing(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = held(store)
    old.forget(save(old, tmp_path / "old", a="1"))
    new = held(store, succeeds=old.token)
    assert new.restore(tmp_path / "new", lambda _: None) is not None
    adopted = save(new, tmp_path / "new", a="1")
    with pytest.raises(LeaseLost):
        save(old, tmp_path / "old", a="late")
    # Paused between the look at the lease and the write.
    monkeypatch.setattr(old, "confirm", lambda: None)
    for late in ("late", "later", "latest"):
        old.forget(save(old, tmp_path / "old", a=late))
    assert restored(store, tmp_path / "read") == {"a": "1"}
    new.forget(adopted)
    assert store.names("runs/ash/base") == ["00000002"]
    old.forget(save(old, tmp_path / "old", a="much later"))
    assert restored(store, tmp_path / "read again") == {"a": "1"}


def test_a_snapshot_whose_writer_was_cut_off_is_not_read(store: ObjectStore, tmp_path: Path) -> None:
    run = held(store)
    whole = save(run, tmp_path / "run", a="1")
    text = store.read("runs/ash/base/00000001/snapshot-1") or b""
    store.write("runs/ash/base/00000001/snapshot-2", text[: len(text) // 2])
    newest = run.newest()
    assert newest is not None and newest.name == whole.name


def test_the_newest_snapshot_that_verifies_is_restored(store: ObjectStore, tmp_path: Path) -> None:
    run = held(store)
    first, second = save(run, tmp_path / "run", a="1"), save(run, tmp_path / "run", a="2")
    store.write(f"runs/ash/base/00000001/files/{second.files['a']['sha256']}", b"3")
    warned: list[str] = []
    target = tmp_path / "target"
    found = run.restore(target, warned.append)
    assert found is not None and found.name == first.name
    assert (target / "a").read_text() == "1" and "1/2" in warned[0]
    store.remove(f"runs/ash/base/00000001/files/{first.files['a']['sha256']}")
    with pytest.raises(Failed, match="a is absent") as raised:
        run.restore(tmp_path / "none", warned.append)
    assert raised.value.code == "no-valid-checkpoint" and not (tmp_path / "none").exists()


def test_a_damaged_checkpoint_is_left_out_where_another_one_is_whole(
    store: ObjectStore, tmp_path: Path
) -> None:
    def saved_at(*steps: int) -> Snapshot:
        paths = {f"checkpoint-{step}/weights": tmp_path / f"weights-{step}" for step in steps}
        for path in paths.values():
            path.write_text(path.name)
        return run.publish(paths, {}, lambda text: text)

    def damage(step: int) -> None:
        entry = newest.files[f"checkpoint-{step}/weights"]
        store.write(f"runs/ash/base/00000001/files/{entry['sha256']}", b"x" * entry["bytes"])

    run = held(store)
    saved_at()
    newest = saved_at(4, 8)
    damage(8)
    warned: list[str] = []
    found = run.restore(tmp_path / "target", warned.append)
    assert found is not None and found.name == newest.name
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["checkpoint-4"]
    assert len(warned) == 1 and "checkpoint-8" in warned[0], warned
    damage(4)
    with pytest.raises(Failed) as raised:
        run.restore(tmp_path / "none", warned.append)
    assert raised.value.code == "no-valid-checkpoint", "not a fresh start from the first snapshot"


def test_a_name_that_leads_out_of_the_folder_is_not_written(store: ObjectStore, tmp_path: Path) -> None:
    run = held(store)
    entry = save(run, tmp_path / "run", a="1").files["a"]
    text = json.dumps({"files": {"../out": entry}, "beside": {}, "end": True})
    store.write("runs/ash/base/00000001/snapshot-2", text.encode())
    assert restored(store, tmp_path / "target") == {"a": "1"}
    assert not (tmp_path / "out").exists()


def test_only_what_the_last_two_snapshots_name_is_kept(store: ObjectStore, tmp_path: Path) -> None:
    run = held(store)
    for step in range(4):
        snapshot = save(run, tmp_path / "run", same="x", a=str(step))
        run.forget(snapshot)
    names = store.names("runs/ash/base/00000001")
    assert [name for name in names if name.startswith("snapshot")] == ["snapshot-3", "snapshot-4"]
    assert len(store.names("runs/ash/base/00000001/files")) == 3
    assert restored(store, tmp_path / "target") == {"same": "x", "a": "3"}
