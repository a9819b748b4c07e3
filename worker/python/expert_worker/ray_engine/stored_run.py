"""One expert's run in an object store: the lease, and snapshots of its folder.

    runs/<expert>/<token>/lease            made by `create`: who holds the run
    runs/<expert>/<token>/alive            changes every few seconds
    runs/<expert>/<token>/released         the holder has ended
    runs/<expert>/<token>/files/<sha256>   what its snapshots name
    runs/<expert>/<token>/snapshot-<n>     made by `create`: file -> digest, written after all that it names
    runs/<expert>/finished/<sha256>        a snapshot held the finished run whose `run.json` this is

Tokens only grow. A holder writes and deletes below its own token only, and whoever takes over copies the
newest whole snapshot below the next token before it trains. Readers look at the highest token that has a
snapshot, so what a holder that was paused writes later is read by nobody, and what it deletes is its own.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from expert_worker.checkpoint.files import sha256
from expert_worker.errors import ExpertError, Failed
from expert_worker.exit import Exit
from expert_worker.lease import taken_over
from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.ray_engine.run_folder import BESIDE, FINISHED, checkpoint_of

EVERY = 5.0
# Without a sign of life for this long a lease may be taken over. By the reader's clock: it looks this long.
EXPIRES = 30.0
# A task whose driver was killed may renew its lease once more before it ends.
_DYING = 10.0
_ROUND = 1.0
# Of a token; the one before may be read while the newest is written.
_SNAPSHOTS = 2
_ATTEMPTS = 3
_SNAPSHOT = re.compile(r"snapshot-(\d+)")

Digests = dict[str, dict[str, Any]]


class Locked(ExpertError):
    """Another task trains this expert."""

    exit = Exit.LOCKED
    default_code = "locked"


class Vanished(Exception):
    """A file was deleted while it was read: the worker keeps only some checkpoints."""


class Damaged(Failed):
    """What a snapshot names is not there, or not what was written."""

    default_code = "storage-damaged"


@dataclass
class Snapshot:
    token: int
    number: int
    files: Digests
    # Not of the run's folder: expert.lock.
    beside: Digests = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.token}/{self.number}"

    @property
    def checkpoints(self) -> set[str]:
        return {checkpoint for name in self.files if (checkpoint := checkpoint_of(name))}


class StoredRun:
    def __init__(self, store: ObjectStore, expert: str) -> None:
        self.store = store
        self.expert = expert
        self.token = 0
        self._number = 0
        self._sent: set[str] = set()

    # --- the lease ---

    def take(self, holder: str, succeeds: int | None = None) -> int:
        """`succeeds` is the token of a task that is known to be lost: its lease is taken over at once."""
        while True:
            newest = max(self._tokens(), default=0)
            if newest and newest != succeeds:
                self._await_end(newest)
            token = newest + 1
            said = {"holder": holder, "nonce": uuid.uuid4().hex}
            if not self.store.create(self._name(token, "lease"), json.dumps(said).encode()):
                continue  # Another task was quicker.
            self.token = token
            if self.is_held():  # Whoever slept between the look and the write finds a higher token.
                return token

    def sign(self) -> None:
        """A sign of life. What it says must only change."""
        self.store.write(self._name(self.token, "alive"), uuid.uuid4().hex.encode())

    def is_held(self) -> bool:
        return max(self._tokens(), default=0) <= self.token

    def confirm(self) -> None:
        if not self.is_held():
            raise taken_over()

    def release(self) -> None:
        self.store.write(self._name(self.token, "released"), b"")

    def _await_end(self, token: int) -> None:
        begun = changed = time.monotonic()
        first = seen = self._life(token)
        while self.store.read(self._name(token, "released")) is None:
            now, life = time.monotonic(), self._life(token)
            if life != seen:
                seen, changed = life, now
            if now - begun < _DYING:
                first = life
            elif life != first:
                raise self._busy(token)
            if now - changed >= EXPIRES:
                return
            time.sleep(_ROUND)

    def _life(self, token: int) -> bytes | None:
        return self.store.read(self._name(token, "alive"))

    def _busy(self, token: int) -> Locked:
        said = self.store.read(self._name(token, "lease")) or b"{}"
        holder = json.loads(said).get("holder", "a task of a cluster")
        return Locked(
            f"{self.expert} in {self.store.url} is in use by {holder}",
            hint="Wait until it has ended.",
        )

    def _tokens(self) -> list[int]:
        return [int(name) for name in self.store.names(f"runs/{self.expert}") if name.isdecimal()]

    # --- writing ---

    def publish(
        self, files: dict[str, Path], beside: dict[str, Path], clean: Callable[[bytes], bytes]
    ) -> Snapshot:
        """Visible by its last write alone. `clean` is for records, which name paths of this machine."""
        self._number += 1
        snapshot = Snapshot(
            self.token, self._number, self._send_all(files, clean), self._send_all(beside, clean)
        )
        self.confirm()
        text = json.dumps({"files": snapshot.files, "beside": snapshot.beside, "end": True}).encode()
        if not self.store.create(self._name(self.token, f"snapshot-{self._number}"), text):
            raise taken_over()
        if (record := snapshot.files.get(FINISHED)) is not None:
            self.store.write(self._finished(record["sha256"]), b"")
        return snapshot

    def _send_all(self, files: dict[str, Path], clean: Callable[[bytes], bytes]) -> Digests:
        return {name: self._send(name, path, clean) for name, path in files.items()}

    def _send(self, name: str, path: Path, clean: Callable[[bytes], bytes]) -> dict[str, Any]:
        record = is_record(name)
        source = path
        try:
            if record:
                # One reading: it may grow meanwhile.
                source = path.with_name(f".writing-{uuid.uuid4().hex[:6]}")
                source.write_bytes(clean(path.read_bytes()))
            digest, size = sha256(source), source.stat().st_size
            if digest not in self._sent:
                self.store.upload(source, self._object(self.token, digest))
                self._sent.add(digest)
        except (OSError, ExpertError) as error:
            if not path.exists():
                raise Vanished from error
            raise
        finally:
            if record:
                source.unlink(missing_ok=True)
        return {"sha256": digest, "bytes": size}

    def forget(self, newest: Snapshot) -> None:
        """What earlier snapshots of this token alone name, and everything of the tokens before."""
        kept = [self._parse(self.token, number) for number in self._numbers(self.token)[:_SNAPSHOTS]]
        for number in self._numbers(self.token)[_SNAPSHOTS:]:
            self.store.remove(self._name(self.token, f"snapshot-{number}"))
        named = {entry["sha256"] for one in kept if one for entry in _entries(one)}
        for digest in self.store.names(f"runs/{self.expert}/{self.token:08d}/files"):
            if digest not in named:
                self.store.remove(self._object(self.token, digest))
                self._sent.discard(digest)
        for token in self._tokens():
            if token < newest.token:
                self.store.remove(f"runs/{self.expert}/{token:08d}")

    # --- reading ---

    def newest(self) -> Snapshot | None:
        """None only where there is none at all."""
        return next(self._snapshots(), None)

    def has_held(self, record: str) -> bool:
        """Whether the finished run with this digest of its `run.json` was here, before what is newest too."""
        if self.store.size(self._finished(record)) is not None:
            return True
        # Snapshots of older versions left no such mark.
        newest = self.newest()
        return newest is not None and newest.files.get(FINISHED, {}).get("sha256") == record

    def restore(self, target: Path, warn: Callable[[str], None]) -> Snapshot | None:
        """The newest snapshot whose records and at least one checkpoint are whole, into the empty folder
        `target`; files beside the run are below `target/.beside`. An unreadable past is never a silent fresh
        start."""
        bad: dict[str, str] = {}
        for _ in range(_ATTEMPTS):
            lost: set[str] = set()
            for snapshot in self._snapshots():
                if lost and not snapshot.checkpoints:
                    break
                try:
                    damaged = self.fetch(snapshot, target)
                except Damaged as damage:
                    shutil.rmtree(target, ignore_errors=True)
                    bad[snapshot.name] = str(damage)
                    lost |= snapshot.checkpoints
                    continue
                for name, reason in bad.items():
                    warn(f"Snapshot {name} of {self.expert} was skipped: {reason}")
                for name, reason in damaged.items():
                    warn(f"{name} of {self.expert} was left out: {reason}")
                return snapshot
            if not bad:
                return None
            # A holder that is not known to be lost may have deleted an old snapshot while it was read.
            time.sleep(_ROUND)
        reasons = "\n".join(f"  {name}: {reason}" for name, reason in bad.items())
        raise Failed(
            f"No snapshot of {self.expert} in {self.store.url} can be used:\n{reasons}",
            hint=f"Delete runs/{self.expert} there to start over.",
            code="no-valid-checkpoint",
        )

    def fetch(self, snapshot: Snapshot, target: Path) -> dict[str, str]:
        """Without its damaged checkpoints, which it returns with the reason."""
        damaged: dict[str, str] = {}
        target.mkdir(parents=True, exist_ok=True)
        for folder, entries in ((target, snapshot.files), (target / BESIDE, snapshot.beside)):
            for name, entry in entries.items():
                place = within(folder, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                try:
                    download(self.store, self._object(snapshot.token, entry["sha256"]), entry, place)
                except Damaged as damage:
                    checkpoint = checkpoint_of(name)
                    if checkpoint is None or damaged.keys() | {checkpoint} == snapshot.checkpoints:
                        raise
                    damaged[checkpoint] = str(damage)
        for checkpoint in damaged:
            shutil.rmtree(target / checkpoint)
        return damaged

    def _snapshots(self) -> Iterator[Snapshot]:
        """Newest first, of the highest token that has any."""
        for token in sorted(self._tokens(), reverse=True):
            found = [self._parse(token, number) for number in self._numbers(token)]
            whole = [one for one in found if one is not None]
            yield from whole
            if whole:
                return

    def _numbers(self, token: int) -> list[int]:
        names = self.store.names(f"runs/{self.expert}/{token:08d}")
        found = (_SNAPSHOT.fullmatch(name) for name in names)
        return sorted((int(match[1]) for match in found if match), reverse=True)

    def _parse(self, token: int, number: int) -> Snapshot | None:
        """None for one whose writer was cut off."""
        try:
            said = json.loads(self.store.read(self._name(token, f"snapshot-{number}")) or b"")
            return Snapshot(token, number, said["files"], said["beside"]) if said["end"] else None
        except (ValueError, KeyError, TypeError):
            return None

    def _name(self, token: int, name: str) -> str:
        return f"runs/{self.expert}/{token:08d}/{name}"

    def _finished(self, record: str) -> str:
        return f"runs/{self.expert}/finished/{record}"

    def _object(self, token: int, digest: str) -> str:
        return self._name(token, f"files/{digest}")


def is_record(name: str) -> bool:
    """Text without its own digest, which names paths of this machine."""
    return "/" not in name and name.rpartition(".")[2] in ("json", "jsonl", "html", "log")


def within(folder: Path, name: str) -> Path:
    """What a store says is not trusted to stay in the folder."""
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts:
        raise Damaged(f"{name} leads out of the folder")
    return folder / place


def download(store: ObjectStore, name: str, entry: dict[str, Any], place: Path) -> None:
    """Verified by digest."""
    if not store.download(name, place):
        raise Damaged(f"{place.name} is absent")
    if place.stat().st_size != entry["bytes"] or sha256(place) != entry["sha256"]:
        place.unlink()
        raise Damaged(f"{place.name} is not what was written")


def _entries(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    yield from snapshot.files.values()
    yield from snapshot.beside.values()
