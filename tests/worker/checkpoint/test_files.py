"""Durable writing step by step: which files reach the disk, in which order, and which are left."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from expert_worker.checkpoint import files, tensors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at open files as Linux shows them")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was synced, renamed or deleted, in order."""
    seen: list[str] = []
    fsync, rename, unlink = os.fsync, os.rename, os.unlink

    def synced(handle: int) -> None:
        seen.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        fsync(handle)

    def renamed(self: Path, target: Path) -> Path:
        seen.append(f"{self.name} -> {Path(target).name}")
        rename(self, target)
        return Path(target)

    def unlinked(path: os.PathLike[str] | str, **more: object) -> None:
        seen.append(f"delete {Path(path).name}")
        unlink(path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(os, "unlink", unlinked)
    return seen


@pytest.fixture(autouse=True)
def no_open_file_is_left() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    after = len(list(Path("/proc/self/fd").iterdir()))
    assert after <= before


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def folder_of(place: Path, content: bytes = b"new") -> Path:
    (place / "below" / "deep").mkdir(parents=True)
    (place / "below" / "deep" / "file").write_bytes(content)
    return place


def test_a_file_is_written_whole_and_synced(tmp_path: Path, calls: list[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a longer text that was there before")
    written = files.write(path, [b"one", memoryview(b""), memoryview(b"two")])
    assert path.read_bytes() == b"onetwo" and calls == ["sync file"]
    assert written == files.Written(hashlib.sha256(b"onetwo").hexdigest(), 6)
    assert stat.S_IMODE(path.stat().st_mode) & 0o111 == 0


def test_writes_that_take_a_part_only_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, view: write(handle, view[:3]))
    files.write(tmp_path / "file", [b"0123456789"])
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_file_is_replaced_only_when_the_new_one_is_on_the_disk(tmp_path: Path, calls: list[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    written = files.replace(path, b"new")
    assert calls == ["sync file.partial", "file.partial -> file", f"sync {tmp_path.name}"]
    assert path.read_bytes() == b"new" and written.bytes == 3
    assert names(tmp_path) == ["file"]


def test_a_refused_replacement_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError("no")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        files.replace(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_bytes() == b"old"


def test_a_file_that_cannot_even_be_begun_is_the_refusal_that_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match="not here"):
        files.replace(tmp_path / "file", b"new")


def test_writers_of_a_shared_file_have_a_temporary_file_each(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shared"
    fsync, late = os.fsync, [b"second"]

    def meanwhile(handle: int) -> None:
        fsync(handle)
        if late:
            files.replace_shared(path, late.pop())
            assert path.read_bytes() == b"second"

    monkeypatch.setattr(os, "fsync", meanwhile)
    files.replace_shared(path, b"the first, which ends last")
    assert path.read_bytes() == b"the first, which ends last" and names(tmp_path) == ["shared"]
    first, second, renamed_second, _, renamed_first, last = calls
    assert first.startswith("sync .new-") and second.startswith("sync .new-") and first != second
    assert renamed_second == f"{second[5:]} -> shared" and renamed_first == f"{first[5:]} -> shared"
    assert last == f"sync {tmp_path.name}"


def test_a_shared_file_that_cannot_be_written_leaves_the_old_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").write_bytes(b"old")

    def refused(handle: int, data: memoryview) -> int:
        raise OSError("no space")

    monkeypatch.setattr(os, "write", refused)
    with pytest.raises(OSError, match="no space"):
        files.replace_shared(tmp_path / "shared", b"new")
    assert names(tmp_path) == ["shared"] and (tmp_path / "shared").read_bytes() == b"old"


def test_json_is_the_same_for_the_same_document(tmp_path: Path) -> None:
    written = files.replace_json(tmp_path / "file", {"b": [1], "a": "ü"})
    expected = '{\n  "a": "ü",\n  "b": [\n    1\n  ]\n}\n'.encode()
    assert (tmp_path / "file").read_bytes() == files.json_bytes({"a": "ü", "b": [1]}) == expected
    assert files.read_json(tmp_path / "file") == {"a": "ü", "b": [1]}
    assert written.bytes == len(expected)
    with pytest.raises(ValueError, match="JSON"):
        files.json_bytes(float("nan"))


def test_a_folder_is_published_from_the_inside_out(tmp_path: Path, calls: list[str]) -> None:
    target = tmp_path / "run"
    folder_of(target, b"old")
    files.build_folder(target, folder_of_nothing)
    assert calls == [
        "sync file", "sync deep", "sync below", "sync run.partial", "run -> run.trash", "run.partial -> run",
        f"sync {tmp_path.name}", "delete file",
    ]  # fmt: skip
    assert names(tmp_path) == ["run"] and (target / "below" / "deep" / "file").read_bytes() == b"new"


def folder_of_nothing(place: Path) -> None:
    assert not list(place.iterdir()), "it was there before"
    (place / "below" / "deep").mkdir(parents=True)
    files.write(place / "below" / "deep" / "file", [b"new"])


def test_what_a_killed_attempt_left_does_not_get_in_the_way(tmp_path: Path) -> None:
    for name in ("run", "run.partial", "run.trash"):
        folder_of(tmp_path / name, name.encode())
    files.build_folder(tmp_path / "run", folder_of_nothing)
    assert names(tmp_path) == ["run"]
    folder_of(tmp_path / "run.trash")
    files.discard_folder(tmp_path / "run")
    assert names(tmp_path) == []


def test_a_failure_while_it_is_filled_leaves_the_old_folder(tmp_path: Path) -> None:
    folder_of(tmp_path / "run", b"old")

    def fill(place: Path) -> None:
        folder_of(place / "more")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.build_folder(tmp_path / "run", fill)
    assert names(tmp_path) == ["run"]
    assert (tmp_path / "run" / "below" / "deep" / "file").read_bytes() == b"old"


def test_a_tree_is_removed_and_an_absent_one_is_none(tmp_path: Path) -> None:
    for name in ("a.partial", "b.trash"):
        folder_of(tmp_path / name)
    (tmp_path / "kept").write_bytes(b"")
    files.remove_tree(tmp_path / "a.partial")
    files.remove_tree(tmp_path / "absent")
    assert names(tmp_path) == ["b.trash", "kept"]


def test_a_folder_is_gone_under_its_name_before_its_files_are(tmp_path: Path, calls: list[str]) -> None:
    folder_of(tmp_path / "run")
    files.discard_folder(tmp_path / "run")
    assert calls == ["run -> run.trash", f"sync {tmp_path.name}", "delete file"]
    assert names(tmp_path) == []


def test_every_file_of_a_tree_is_synced(tmp_path: Path, calls: list[str]) -> None:
    folder_of(tmp_path / "run")
    (tmp_path / "run" / "at the top").write_bytes(b"")
    files.sync_tree(tmp_path / "run")
    assert calls == ["sync at the top", "sync file"]


def test_a_folder_has_the_bytes_of_its_files(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "one")
    assert files.folder_bytes(one) == 3
    (one / "more").write_bytes(b"x")
    assert files.folder_bytes(one) == 4


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
        torch.int8, torch.uint8, torch.bool,
    ],
    ids=str,
)  # fmt: skip
def test_every_type_of_number_is_read_back(tmp_path: Path, dtype: torch.dtype) -> None:
    told = {"a": torch.tensor([[1, 0], [1, 1]]).to(dtype), "none": torch.zeros(0, 3, dtype=dtype)}
    files.write(tmp_path / "x", tensors.encode({**told, "turned": told["a"].t()}))
    found = tensors.decode(tmp_path / "x")
    assert found.keys() == {"a", "none", "turned"}
    for name, expected in {**told, "turned": told["a"].t()}.items():
        assert found[name].dtype == dtype and torch.equal(found[name], expected)
    assert load_file(tmp_path / "x").keys() == found.keys()


def test_tensors_are_aligned_the_widest_first() -> None:
    mixed = {
        "byte": torch.zeros(3, dtype=torch.uint8),
        "b": torch.zeros(1),
        "a": torch.zeros(1),
        "d": torch.zeros(1).double(),
    }
    head = bytes(next(tensors.encode(mixed)))
    length = int.from_bytes(head[:8], "little")
    assert length % 8 == 0 and len(head) == 8 + length
    header = json.loads(head[8:])
    assert header.pop("__metadata__") == {"format": "pt"}
    assert {name: entry["data_offsets"] for name, entry in header.items()} == {
        "d": [0, 8], "a": [8, 12], "b": [12, 16], "byte": [16, 19],
    }  # fmt: skip
    assert b" " not in head.rstrip()


def test_tensors_that_need_a_gradient_can_be_saved(tmp_path: Path) -> None:
    files.write(tmp_path / "x", tensors.encode({"a": torch.ones(2, requires_grad=True)}))
    assert tensors.decode(tmp_path / "x")["a"].tolist() == [1, 1]


def test_leftovers_are_named_and_everything_else_stays(tmp_path: Path) -> None:
    own = re.compile(r"checkpoint-\d+|final")
    folder_of(tmp_path / "checkpoint-1.partial")
    folder_of(tmp_path / "notes.partial")
    (tmp_path / "final.trash").write_text("half")
    (tmp_path / "my-checkpoint-3.trash").mkdir()
    (tmp_path / "checkpoint-2").mkdir()
    assert files.remove_leftovers(tmp_path / "absent", own) == []
    assert files.remove_leftovers(tmp_path, own) == ["checkpoint-1.partial", "final.trash"]
    assert names(tmp_path) == ["checkpoint-2", "my-checkpoint-3.trash", "notes.partial"]
