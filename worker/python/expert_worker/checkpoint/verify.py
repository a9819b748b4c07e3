"""Reads every byte of a checkpoint against the digests in its state.json."""

from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.checkpoint.record import DamagedError, read
from expert_worker.results import CheckpointRecord


def verify(folder: Path) -> CheckpointRecord:
    """Raises DamagedError with the reason; otherwise each listed file is exactly what was written."""
    record = read(folder)
    for name, entry in sorted(record.files.items()):
        _verify_file(folder / name, name, entry.bytes, entry.sha256)
    return record


def _verify_file(path: Path, name: str, size: int, digest: str) -> None:
    try:
        found = path.stat().st_size
        if found != size:
            raise DamagedError(f"{name} has {found} bytes, {size} were written")
        if files.sha256(path) != digest:
            raise DamagedError(f"{name} has changed since it was written")
    except FileNotFoundError:
        raise DamagedError(f"{name} is absent") from None
    except OSError as error:
        raise DamagedError(f"{name} cannot be read: {error.strerror or error}") from None
