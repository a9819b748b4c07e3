"""What an expert is trained of, in an object store: files by their content, so that each is sent once.

objects/<sha256>       manifests, data, bases, token caches
caches/<key>           the token cache of an expert with these inputs: file -> digest
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from expert_worker.checkpoint.files import sha256
from expert_worker.errors import BadInput, Failed
from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.ray_engine.stored_run import Damaged, Digests, download, within

_LOCK = "expert.lock"
_CACHE_RECORD = "cache.json"


@dataclass
class Inputs:
    """Paths are those of the driver's machine."""

    expert: str
    expert_dir: str
    run: str
    cache: str
    cache_key: str
    # Without the root of the file system.
    files: Digests
    # The run that the driver's folder holds, by paths in it: for a store that has none.
    seed: Digests


class Local:
    """The same paths on a node, below its work folder."""

    def __init__(self, inputs: Inputs, root: Path) -> None:
        self.root = root
        self.expert_dir, self.run, self.cache = map(self.place, (inputs.expert_dir, inputs.run, inputs.cache))

    def place(self, path: str) -> Path:
        return self.root / bare(Path(path))

    def beside(self) -> dict[str, Path]:
        lock = self.expert_dir / _LOCK
        return {_LOCK: lock} if lock.is_file() else {}


def bare(path: Path) -> Path:
    """Without the root, and without `..`, which a node resolves the same way: it has no links."""
    return Path(os.path.normpath(path)).relative_to(path.anchor)


# --- on the driver's machine ---


def send(
    store: ObjectStore, paths: dict[str, Any], order: dict[str, Any], seed: dict[str, Path]
) -> dict[str, Any]:
    """What a task needs to know. `paths` are the paths that the CLI has found in the expert's plan."""
    manifest, expert_dir = Path(paths["manifest"]), Path(paths["expert_dir"])
    given = {manifest, expert_dir / _LOCK, *map(Path, paths["inputs"])}
    files = {path for one in given for path in _below(one)}
    _refuse_absolute(manifest, [*files, *given, Path(paths["run"]), Path(paths["cache"])])
    sent = {bare(path).as_posix(): _send(store, path) for path in sorted(files)}
    decides = {name: entry["sha256"] for name, entry in sent.items() if not name.endswith(f"/{_LOCK}")}
    options = order["training"]["options"]
    key = hashlib.sha256(json.dumps([decides, options, order["code"]], sort_keys=True).encode()).hexdigest()
    inputs = Inputs(
        expert=paths["expert"],
        expert_dir=paths["expert_dir"],
        run=paths["run"],
        cache=paths["cache"],
        cache_key=key,
        files=sent,
        seed={name: _send(store, path) for name, path in seed.items()},
    )
    return asdict(inputs)


def _below(given: Path) -> Iterator[Path]:
    if given.is_file():
        yield given
    elif given.is_dir():
        for path in given.rglob("*"):
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(given).parts):
                yield path


def _refuse_absolute(manifest: Path, used: list[Path]) -> None:
    for text in _strings(_document(manifest)):
        if Path(text).is_absolute() and any(path.is_relative_to(text) for path in used):
            raise BadInput(
                f"{manifest} names {text}, which nodes without a shared file system do not have",
                hint="Write the path relative to the manifest: then the file is brought to the nodes.",
                code="storage-path",
            )


def _document(manifest: Path) -> Any:
    with suppress(ValueError):  # The CLI has read it, and says what is wrong.
        return json.loads(manifest.read_bytes())
    return None


def _strings(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for value in document.values():
            yield from _strings(value)
    elif isinstance(document, list):
        for value in document:
            yield from _strings(value)


def _send(store: ObjectStore, path: Path) -> dict[str, Any]:
    entry = {"sha256": sha256(path), "bytes": path.stat().st_size}
    name = f"objects/{entry['sha256']}"
    if store.size(name) != entry["bytes"]:
        store.upload(path, name)
    return entry


# --- on a node ---


def lay_out(store: ObjectStore, files: Digests, root: Path, kept: Path | None = None) -> None:
    """`kept` is a folder of this machine for what the next task may need as well."""
    for name, entry in files.items():
        place = within(root, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if kept is None:
            _fetch(store, entry, place)
            continue
        kept.mkdir(parents=True, exist_ok=True)
        copy = kept / entry["sha256"]
        if not copy.is_file() or sha256(copy) != entry["sha256"]:
            part = kept / f"{uuid.uuid4().hex}.partial"
            try:
                _fetch(store, entry, part)
                part.replace(copy)
            finally:
                part.unlink(missing_ok=True)
        _link(copy, place)


def _fetch(store: ObjectStore, entry: dict[str, Any], place: Path) -> None:
    try:
        download(store, f"objects/{entry['sha256']}", entry, place)
    except Damaged as damage:
        store.remove(f"objects/{entry['sha256']}")
        raise Failed(
            f"An object of {store.url} is damaged: {damage}",
            hint="It is removed there, and another start sends it again.",
            code="storage-damaged",
        ) from damage


def _link(copy: Path, place: Path) -> None:
    """Copied where the expert's own task writes."""
    place.unlink(missing_ok=True)
    if place.name != _LOCK:
        with suppress(OSError):
            os.link(copy, place)
            return
    shutil.copyfile(copy, place)


def fetch_cache(store: ObjectStore, inputs: Inputs, cache: Path) -> bool:
    """The token cache that another node has built of the same inputs."""
    said = store.read(f"caches/{inputs.cache_key}")
    if said is None:
        return False
    cache.mkdir(parents=True, exist_ok=True)
    with suppress(Failed):  # A damaged one is built again.
        lay_out(store, json.loads(said)["files"], cache)
        return True
    shutil.rmtree(cache, ignore_errors=True)
    return False


def share_cache(store: ObjectStore, inputs: Inputs, cache: Path) -> bool:
    """The first that has built it: a cache is the same whoever builds it."""
    name = f"caches/{inputs.cache_key}"
    whole = [path.parent for path in cache.glob(f"*/{_CACHE_RECORD}")] if cache.is_dir() else []
    if not whole or store.size(name) is not None:
        return False
    files = [path for folder in whole for path in folder.rglob("*") if path.is_file()]
    sent = {path.relative_to(cache).as_posix(): _send(store, path) for path in files}
    return store.create(name, json.dumps({"files": sent, "nonce": uuid.uuid4().hex}).encode())
