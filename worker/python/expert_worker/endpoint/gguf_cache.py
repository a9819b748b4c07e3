"""GGUF files of base and adapters, made once and kept in the home folder by what they are made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import human
from expert_worker.endpoint.shelf import Expert
from expert_worker.errors import storage_error
from expert_worker.plan import GgufQuantization
from expert_worker.process.builder_lock import share_lock
from expert_worker.results import FileDigest
from expert_worker.run_record import digests

# Another number where the conversion changes.
_VERSION = 1
_FOLDER = "gguf"
Say = Callable[[str], None]


def check_base(base: Path, expert: Expert, say: Say) -> dict[str, FileDigest]:
    say(f"Verifying {expert.record.base.name}")
    hint = "Name the folder of the right base with --base, or train the expert again."
    return digests.check_base(base, expert.record.base.files, expert.name, hint)


@dataclass(frozen=True)
class BaseFile:
    path: Path
    # Of its weights, which adapters share whatever its quantization.
    key: str
    files: dict[str, str]


def base_gguf(
    home: Path,
    base: Path,
    experts: Sequence[Expert],
    say: Say,
    quantize: GgufQuantization | None = None,
) -> BaseFile:
    """The base in f16 or quantized."""
    name = experts[0].record.base.name
    found = check_base(base, experts[0], say)
    content = {name: digest.sha256 for name, digest in found.items()}
    key = _key("base", content)
    kept = _key("base", {**content, "quantize": quantize}) if quantize else key

    def write(target: Path) -> None:
        from expert_worker.export.gguf_files import write_model

        weights = sum(digest.bytes for name, digest in found.items() if name.endswith(".safetensors"))
        say(f"Converting {name} ({human(weights)}) for llama.cpp, once")
        write_model(base, target, name, "", quantize)

    users = [str(expert.folder.resolve()) for expert in experts]
    return BaseFile(_kept(home, kept, write, {"base": content}, users), key, content)


def adapter_gguf(home: Path, base: Path, made: BaseFile, expert: Expert, say: Say) -> Path:
    content = {name: files.sha256(expert.folder / name) for name in (WEIGHTS, CONFIG)}

    def write(target: Path) -> None:
        from expert_worker.export.gguf_files import write_adapter

        say(f"Converting {expert.name} for llama.cpp, once")
        write_adapter(expert.folder, base, target)

    key = _key("adapter", {**content, "base": made.key})
    made_of = {"base": made.files, "adapter": content}
    return _kept(home, key, write, made_of, [str(expert.folder.resolve())])


def hold(path: Path) -> IO[bytes]:
    """Until it is closed, `clean` leaves the file there: llama.cpp reads it at each of its starts."""
    handle = path.open("rb")
    share_lock(handle.fileno())
    return handle


def _key(kind: str, content: dict[str, str]) -> str:
    text = json.dumps({"version": _VERSION, "kind": kind, **content}, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _kept(
    home: Path,
    key: str,
    write: Callable[[Path], None],
    made_of: dict[str, dict[str, str]],
    experts: Iterable[str],
) -> Path:
    target = home / _FOLDER / f"{key}.gguf"
    temp = target.with_name(f"{target.name}.{os.getpid()}{files.PARTIAL}")
    # Two servers may convert the same base at once.
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        note = _Note(target.with_suffix(".json"), made_of, frozenset(experts))
        known = note.known_bytes()
        # Before the file is there: `clean` removes one that has no note.
        note.write(known)
        if not target.is_file() or target.stat().st_size != known:
            write(temp)
            files.publish(temp, target)
            note.write(target.stat().st_size)
    except OSError as error:
        raise storage_error(error, "keep the converted model", "with EXPERT_HOME") from error
    finally:
        temp.unlink(missing_ok=True)
    return target


@dataclass(frozen=True)
class _Note:
    """Beside a file: its size, and the folders that it was made for. `clean` removes it when none of them is
    what it was made of; a file of another size was cut or damaged."""

    path: Path
    made_of: dict[str, dict[str, str]]
    experts: frozenset[str]

    def known_bytes(self) -> int | None:
        size = self._known().get("bytes")
        return size if isinstance(size, int) else None

    def write(self, size: int | None) -> None:
        earlier: set[str] = set()
        with suppress(KeyError, TypeError):
            earlier = {str(folder) for folder in self._known()["experts"]}
        document = {"experts": sorted(earlier | self.experts), "bytes": size, **self.made_of}
        files.replace_shared(self.path, files.json_bytes(document))

    def _known(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            found = json.loads(self.path.read_bytes())
            if isinstance(found, dict):
                return found
        return {}
