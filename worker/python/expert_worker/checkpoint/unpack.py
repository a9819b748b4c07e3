"""A mirror's compressed checkpoint: `state.json` is plain, every other file is packed with zstd."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import zstandard

from expert_worker.checkpoint import files, record
from expert_worker.checkpoint.record import DamagedError

SUFFIX = ".zst"
_CHUNK = 1 << 20


def is_packed(folder: Path) -> bool:
    return (folder / record.NAME).is_file() and any(folder.glob(f"*{SUFFIX}"))


def unpack(folder: Path, target: Path) -> None:
    """The files that the record names, into the empty folder `target`; copied where they are not packed. A
    damaged one raises DamagedError."""
    packed = is_packed(folder)
    for name, entry in sorted(record.read(folder).files.items()):
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts:
            raise DamagedError(f"{record.NAME} names {name}, which leads out of the checkpoint")
        path = target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        source = folder / (name + SUFFIX if packed else name)
        try:
            files.write(path, _unpacked(source, name, entry.bytes) if packed else _chunks(source))
        except FileNotFoundError:
            raise DamagedError(f"{source.name} is absent") from None
        except zstandard.ZstdError as error:
            raise DamagedError(f"{name}{SUFFIX} cannot be unpacked: {error}") from None
    files.write(target / record.NAME, [(folder / record.NAME).read_bytes()])


def _unpacked(path: Path, name: str, size: int) -> Iterator[bytes]:
    """Never more than was written, however large a damaged file unpacks."""
    read = 0
    with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as source:
        while chunk := source.read(_CHUNK):
            read += len(chunk)
            if read > size:
                raise DamagedError(f"{name}{SUFFIX} unpacks to more than the {size} bytes that were written")
            yield chunk


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            yield chunk
