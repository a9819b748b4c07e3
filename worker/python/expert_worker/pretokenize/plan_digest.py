"""The digest of a data source as `expert-cli` takes it for plans, locks and scores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.plan import Source
from expert_worker.pretokenize.save_to_disk import is_library_cache
from expert_worker.pretokenize.sources import source_digest


def plan_digest(source: Source, places: Mapping[str, str], threads: int | None) -> str:
    """Of a file its SHA-256, of a folder that of its files' digests and names; of a dataset of the Hub, which
    `expert-cli` knows by its commit, that of its rows."""
    if source.name not in places:
        return source_digest(source, places, threads)
    path = Path(places[source.name])
    return files.sha256(path) if path.is_file() else folder_digest(path)


def folder_digest(path: Path) -> str:
    # Links to folders are followed, as `expert-cli` does.
    found = [Path(folder, name) for folder, _, names in os.walk(path, followlinks=True) for name in names]
    inside = [file for file in found if file.is_file() and not file.name.startswith(".")]
    own = [file for file in inside if not is_library_cache(file)]
    return digest_of_files(sorted(own))


def digest_of_files(paths: Iterable[Path]) -> str:
    lines = (f"{files.sha256(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
