"""What data and weights went in, by content."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from expert_worker.adapter import EXPERT
from expert_worker.base.embedded import is_unpacked
from expert_worker.base.locate import COPY, weight_files
from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.results import FileDigest

_HUB_BLOB = re.compile(r"[0-9a-f]{64}")
CARD = "README.md"
GRAMMARS = ("grammar.gbnf", "grammar.json")
# Beside `final/`.
RUN = "run.json"
# Of the worker's home folder: digests of large files, by what changes when a file is written.
_KNOWN = "weight-digests.json"
_LARGE = 16 << 20
# A file written within the clock's resolution may change without a new time.
_SETTLED_NS = 2_000_000_000
_BESIDE_WEIGHTS = ("*.gguf", "config.json", "tokenizer.json")


def data_digests(sources: Mapping[str, str]) -> dict[str, FileDigest | None]:
    """By the plan's names, never by path; a file that has gone meanwhile is null."""
    return {name: _describe(Path(path)) for name, path in sorted(sources.items())}


def base_digests(folder: Path | None, known: KnownDigests | None = None) -> dict[str, FileDigest | None]:
    if folder is None:
        return {}
    return {path.name: _describe(path, known) for path in _of_base(folder)}


def _of_base(folder: Path) -> list[Path]:
    beside = {path for pattern in _BESIDE_WEIGHTS for path in folder.glob(pattern)}
    return sorted({*weight_files(folder), *beside})


def _stamp(path: Path) -> list[int] | None:
    """Changes when the file is written or replaced; none if it is not there."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return None
    return [now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_dev]


class BaseFiles:
    """The files of a base as a run finds them, whose digests are taken when it ends. Of one that somebody
    replaces meanwhile nobody knows the digest of what was read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps = {path.name: _stamp(path) for path in _of_base(folder)}

    def digests(self, changed: Collection[str], known: KnownDigests) -> dict[str, FileDigest | None]:
        """None of those that `changed`."""
        found = base_digests(self._folder, known)
        return {name: None if name in changed else found.get(name) for name in {**self._stamps, **found}}

    def changed(self) -> list[str]:
        now = {path.name: _stamp(path) for path in _of_base(self._folder)}
        return sorted(name for name in {**self._stamps, **now} if self._stamps.get(name) != now.get(name))


def check_base(
    folder: Path,
    trained_on: Mapping[str, FileDigest | None],
    expert: str,
    hint: str,
    known: KnownDigests | None = None,
) -> dict[str, FileDigest]:
    """The files must be those that the expert was trained on, as `base.files` of its expert.json has them."""
    found = {name: digest for name, digest in base_digests(folder, known).items() if digest is not None}
    for name, digest in trained_on.items():
        # Experts of earlier versions have the digest of a second copy of the weights.
        if name not in found and fnmatchcase(name, COPY):
            continue
        # Another version of transformers unpacks the same weights and writes its own number beside them.
        if name.endswith(".json") and is_unpacked(folder):
            continue
        if digest is not None and found.get(name) != digest:
            raise BadInput(
                f"{folder / name} is not the file that {expert} was trained on", hint=hint, code="base-digest"
            )
    return found


def final_digests(folder: Path) -> dict[str, FileDigest]:
    """By which a finished adapter is verified. `evaluate` changes the files that are left out: it adds scores
    and replaces the grammar, whose digest is in expert.json. People edit the model card."""
    left_out = {CARD, EXPERT, *GRAMMARS}
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in left_out]
    return {path.relative_to(folder).as_posix(): digest_of(path) for path in found}


def _describe(path: Path, known: KnownDigests | None = None) -> FileDigest | None:
    if not path.is_file():
        return None
    return digest_of(path) if known is None else FileDigest(sha256=known.of(path), bytes=path.stat().st_size)


def digest_of(path: Path) -> FileDigest:
    return FileDigest(sha256=_sha256(path), bytes=path.stat().st_size)


def _sha256(path: Path) -> str:
    """The Hub's cache names large files by their digest already: no need to read gigabytes again."""
    target = path.resolve().name
    return target if path.is_symlink() and _HUB_BLOB.fullmatch(target) else files.sha256(path)


class KnownDigests:
    """Digests of whole files; gigabytes that have not changed are not read again."""

    def __init__(self, home: Path) -> None:
        self._file = home / _KNOWN
        try:
            found = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            found = {}
        self._known: dict[str, Any] = found if isinstance(found, dict) else {}

    def of(self, path: Path) -> str:
        now, stamp = path.stat(), _stamp(path)
        if now.st_size < _LARGE or os.name != "posix":
            return _sha256(path)
        known = self._known.get(str(path.absolute()))
        if isinstance(known, dict) and known.get("stamp") == stamp and isinstance(known.get("sha256"), str):
            return str(known["sha256"])
        digest = _sha256(path)
        if time.time_ns() > now.st_ctime_ns + _SETTLED_NS:
            self._known[str(path.absolute())] = {"stamp": stamp, "sha256": digest}
            # Without it the file is only read again. A path may have no Unicode.
            with suppress(OSError, ValueError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                files.replace_shared(self._file, files.json_bytes(self._known))
        return digest
