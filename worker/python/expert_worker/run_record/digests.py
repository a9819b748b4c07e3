"""What data and weights went in, by content."""

import re
from collections.abc import Mapping
from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.results import FileDigest

_HUB_BLOB = re.compile(r"[0-9a-f]{64}")
CARD = "README.md"
GRAMMARS = ("grammar.gbnf", "grammar.json")
EXPERT = "expert.json"
_WEIGHTS = ("*.safetensors", "*.gguf", "config.json", "tokenizer.json")


def data_digests(sources: Mapping[str, str]) -> dict[str, FileDigest | None]:
    """By the plan's names, never by path; a file that has gone meanwhile is null."""
    return {name: _describe(Path(path)) for name, path in sorted(sources.items())}


def base_digests(folder: Path | None) -> dict[str, FileDigest | None]:
    if folder is None:
        return {}
    found = {path for pattern in _WEIGHTS for path in folder.glob(pattern)}
    return {path.name: _describe(path) for path in sorted(found)}


def final_digests(folder: Path) -> dict[str, FileDigest]:
    """By which a finished adapter is verified. `evaluate` changes the files that are left out: it adds scores
    and replaces the grammar, whose digest is in expert.json. People edit the model card."""
    left_out = {CARD, EXPERT, *GRAMMARS}
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in left_out]
    return {path.relative_to(folder).as_posix(): _digest(path) for path in found}


def _describe(path: Path) -> FileDigest | None:
    return _digest(path) if path.is_file() else None


def _digest(path: Path) -> FileDigest:
    return FileDigest(sha256=_sha256(path), bytes=path.stat().st_size)


def _sha256(path: Path) -> str:
    """The Hub's cache names large files by their digest already: no need to read gigabytes again."""
    target = path.resolve().name
    return target if path.is_symlink() and _HUB_BLOB.fullmatch(target) else files.sha256(path)
