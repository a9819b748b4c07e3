"""Objects by fsspec, on a folder and on a real S3 server."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import fsspec
import pytest
from s3_server import BUCKET, DENIED, FULL, OVER_QUOTA, REJECTED, S3Server
from s3fs import S3FileSystem

from expert_worker.errors import ExpertError
from expert_worker.exit import Exit
from expert_worker.ray_engine import object_store
from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.storage import unanswered


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_PAUSE", 0.05)
    monkeypatch.setattr(object_store, "_S3_LIMITS", {"connect_timeout": 1, "retries": {"max_attempts": 1}})


def test_objects_are_written_listed_and_removed(url: str, tmp_path: Path) -> None:
    store = ObjectStore(url)
    store.demand_create()
    assert (store.read("a/b"), store.size("a/b"), store.names("a")) == (None, None, [])
    assert not store.download("a/b", tmp_path / "copy")
    store.write("a/b", b"one")
    store.write("a/b", b"two")
    (tmp_path / "source").write_bytes(b"three")
    store.upload(tmp_path / "source", "a/c/d")
    assert (store.read("a/b"), store.size("a/c/d"), store.names("a")) == (b"two", 5, ["b", "c"])
    assert store.download("a/c/d", tmp_path / "copy") and (tmp_path / "copy").read_bytes() == b"three"
    store.remove("a")
    store.remove("a")
    assert store.names("a") == []


def test_one_of_many_creates_an_object(url: str) -> None:
    won: list[int] = []
    stores = [ObjectStore(url) for _ in range(8)]

    def create(number: int) -> None:
        if stores[number].create("one", f"{number}".encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and stores[0].read("one") == f"{won[0]}".encode()
    assert stores[0].create("one", f"{won[0]}".encode()), "a repeated call finds what it wrote"


def failure(url: str, patience: float = 0.2) -> ExpertError:
    with pytest.raises(ExpertError) as raised:
        store = ObjectStore(url, patience)
        store.demand_create()
    return raised.value


@pytest.mark.parametrize(
    "url",
    [
        "/shared",
        "s3://",
        "experts",
        "sftp://host/folder",
        "memory://folder",
        "s3://key:secret@bucket/x",
        "key:secret@bucket/x",
        "s3://bucket/x?secret",
    ],
)
def test_a_url_that_cannot_be_shared_storage_is_refused(url: str) -> None:
    found = failure(url)
    assert found.exit_code == Exit.BAD_INPUT and found.code.startswith("storage-")
    assert "secret" not in f"{found.message}{found.hint}"


def test_a_server_that_ignores_the_condition_is_refused(s3: S3Server) -> None:
    s3.ignores_conditions = True
    found = failure(f"s3://{BUCKET}/x")
    assert (found.exit_code, found.code) == (Exit.BAD_INPUT, "storage-not-conditional")


def test_an_absent_package_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", absent)
    found = failure("s3://bucket/x")
    assert found.exit_code == Exit.MISSING and "pip install 'expert-worker[s3]'" in str(found.hint)


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [(DENIED, "Allow"), (FULL, "Free"), (OVER_QUOTA, "quota"), (REJECTED, "Correct the credentials")],
)
def test_storage_that_refuses_is_an_error_at_once(
    s3: S3Server, refusal: tuple[str, str], remedy: str
) -> None:
    s3.refusal = refusal
    found = failure(f"s3://{BUCKET}/x", patience=600)
    assert found.exit_code == Exit.STORAGE and f"s3://{BUCKET}/x" in found.message
    assert remedy in str(found.hint)


def test_a_bucket_that_is_absent_is_an_error_at_once(s3: S3Server) -> None:
    found = failure("s3://no-such-bucket/x", patience=600)
    assert found.exit_code == Exit.STORAGE and "s3://no-such-bucket/x" in found.message
    assert "bucket" in str(found.hint)


def test_a_folder_that_is_read_only_or_full_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(f"file://{tmp_path}/store", 600)
    for number, remedy in ((errno.EROFS, "Allow"), (errno.ENOSPC, "Free"), (errno.EDQUOT, "quota")):

        def refuse(*_: object, number: int = number, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(store._files, "pipe_file", refuse)
        with pytest.raises(ExpertError, match=f"file://{tmp_path}/store") as raised:
            store.write("a", b"1")
        assert raised.value.exit_code == Exit.STORAGE and remedy in str(raised.value.hint)


def test_credentials_that_are_missing_are_named(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    S3FileSystem.clear_instance_cache()
    found = failure(f"s3://{BUCKET}/x", patience=600)
    assert (found.exit_code, found.code) == (Exit.MISSING, "storage-credentials")
    assert f"s3://{BUCKET}/x" in found.message and "AWS_ACCESS_KEY_ID" in str(found.hint)


def test_a_server_that_is_away_is_asked_again_and_then_named(s3: S3Server) -> None:
    store = ObjectStore(f"s3://{BUCKET}/x", 60)
    store.write("kept", b"1")
    s3.stop()
    found = failure(f"s3://{BUCKET}/x")
    assert found.exit_code == Exit.STORAGE and f"s3://{BUCKET}/x" in found.message
    seen: list[bytes | None] = []
    waiting = threading.Thread(target=lambda: seen.append(store.read("kept")))
    waiting.start()
    while not unanswered(0.1):
        assert waiting.is_alive()
    s3.start()
    waiting.join()
    assert seen == [b"1"]
