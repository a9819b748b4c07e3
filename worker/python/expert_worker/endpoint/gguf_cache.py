"""GGUF files of base and adapters, made once and kept in the home folder by what they are made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import human
from expert_worker.endpoint.shelf import Expert
from expert_worker.errors import BadInput, storage_error
from expert_worker.results import FileDigest
from expert_worker.run_record.digests import base_digests

# Another number where the conversion changes.
_VERSION = 1
_FOLDER = "gguf"
Say = Callable[[str], None]


def check_base(base: Path, expert: Expert, say: Say) -> dict[str, FileDigest]:
    """The files must be those that the expert was trained on: their digests are compared."""
    say(f"Verifying {expert.record.base.name}")
    found = {name: digest for name, digest in base_digests(base).items() if digest is not None}
    for name, digest in expert.record.base.files.items():
        if digest is not None and found.get(name) != digest:
            raise BadInput(
                f"{base / name} is not the file that {expert.name} was trained on",
                hint="Name the folder of the right base with --base, or train the expert again.",
                code="base-digest",
            )
    return found


def base_gguf(home: Path, base: Path, expert: Expert, say: Say) -> tuple[Path, str]:
    """The base in f16, and the key that stands for it."""
    found = check_base(base, expert, say)
    key = _key("base", {name: digest.sha256 for name, digest in found.items()})

    def write(target: Path) -> None:
        from expert_worker.export.gguf_files import write_model

        weights = sum(digest.bytes for name, digest in found.items() if name.endswith(".safetensors"))
        say(f"Converting {expert.record.base.name} ({human(weights)}) for llama.cpp, once")
        write_model(base, target, expert.record.base.name, "")

    return _kept(home, key, write), key


def adapter_gguf(home: Path, base: Path, base_key: str, expert: Expert, say: Say) -> Path:
    content = {name: files.sha256(expert.folder / name) for name in (WEIGHTS, CONFIG)}

    def write(target: Path) -> None:
        from expert_worker.export.gguf_files import write_adapter

        say(f"Converting {expert.name} for llama.cpp, once")
        write_adapter(expert.folder, base, target)

    return _kept(home, _key("adapter", {**content, "base": base_key}), write)


def _key(kind: str, content: dict[str, str]) -> str:
    text = json.dumps({"version": _VERSION, "kind": kind, **content}, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _kept(home: Path, key: str, write: Callable[[Path], None]) -> Path:
    target = home / _FOLDER / f"{key}.gguf"
    if target.is_file():
        return target
    temp = target.with_name(f"{target.name}.{os.getpid()}{files.PARTIAL}")
    # Two servers may convert the same base at once.
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(temp)
        temp.replace(target)
    except OSError as error:
        raise storage_error(error, "keep the converted model", "with EXPERT_HOME") from error
    finally:
        temp.unlink(missing_ok=True)
    return target
