"""Compressed files and UTF-16 text as plain UTF-8 files, within bounds."""

from __future__ import annotations

import codecs
import shlex
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from expert_worker.errors import BadInput

# What grows so much when it is unpacked, to so much, holds no text that people wrote.
SUSPECT_RATIO, SUSPECT_BYTES = 500, 128 << 20
_CHUNK = 1 << 20
# How packed files begin.
_ZIP = b"PK\x03\x04"
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Errors of zipfile, gzip, pyarrow's zstd and codecs for files that are not what they begin as.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


@dataclass
class Head:
    """The first bytes of a file are enough for who reads its first rows."""

    most: int = 8 << 20
    was_cut: bool = False
    """Whether a copy ends, after a whole line, before its file does."""


def plain_file(path: Path, name: str, scratch: Path, head_only: Head | None = None) -> tuple[Path, str]:
    """The file itself, or an unpacked copy in `scratch`, and the name that shows its format."""
    with path.open("rb") as stream:
        head = stream.read(4)
    if head == _ZIP:
        path, name = _unzipped(path, name, scratch, head_only)
    elif head.startswith(GZIP):
        path, name = _unpacked(path, name, scratch, _gzip, head_only), _without(name, ".gz")
    elif head == ZSTD:
        path, name = _unpacked(path, name, scratch, _zstd, head_only), _without(name, ".zst")
    return _utf8(path, name, scratch, head_only), name


def _without(name: str, ending: str) -> str:
    return name[: -len(ending)] if name.lower().endswith(ending) else name


def _gzip(path: Path) -> Any:
    import gzip

    return gzip.open(path, "rb")


def _zstd(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="zstd")


def _unpacked(path: Path, name: str, scratch: Path, opened: Callable[[Path], Any], head: Head | None) -> Path:
    with opened(path) as stream:
        return _copied(iter(lambda: stream.read(_CHUNK), b""), path.stat().st_size, name, scratch, head)


def _unzipped(path: Path, name: str, scratch: Path, head: Head | None) -> tuple[Path, str]:
    with zipfile.ZipFile(path) as archive:
        inside = [
            entry
            for entry in archive.infolist()
            if not entry.is_dir() and not entry.filename.startswith(("__MACOSX/", "."))
        ]
        if len(inside) != 1:
            names = [entry.filename for entry in inside]
            raise BadInput(
                f"{name} is a zip archive of {len(names)} files; one with a single data file is read",
                hint=_many_files(name, names),
                code="data-packed",
            )
        with archive.open(inside[0]) as stream:
            size = max(1, inside[0].compress_size)
            copy = _copied(iter(lambda: stream.read(_CHUNK), b""), size, name, scratch, head)
        return copy, PurePosixPath(inside[0].filename).name


def _many_files(name: str, names: list[str]) -> str:
    if any(inside.startswith("xl/") for inside in names):
        return "It is an Excel workbook: save the sheet as CSV (UTF-8)."
    folder = PurePosixPath(name).with_suffix("")
    return (
        "Unpack it in the expert's folder, then name the new folder or one of its files: "
        f"unzip {shlex.quote(name)} -d {shlex.quote(str(folder))}"
    )


def _copied(chunks: Iterator[bytes], stored: int, name: str, scratch: Path, head: Head | None) -> Path:
    """A new file of these bytes; refused where so few bytes become so many. The head alone only of UTF-8: in
    other encodings the byte of a line's end is half of a character."""
    target, size = _new_file(scratch), 0
    first = next(chunks, b"")
    if _encoding(first[:4]) is not None:
        head = None
    chunks = chain([first], chunks)
    with target.open("wb") as out:
        for chunk in chunks:
            size += len(chunk)
            if size > SUSPECT_BYTES and size / max(1, stored) > SUSPECT_RATIO:
                raise BadInput(
                    f"{name} becomes more than {size / 1e6:,.0f} MB when it is unpacked from "
                    f"{stored / 1e6:.1f} MB: that is not text that people wrote",
                    hint="Unpack it yourself if it is meant so, and name the unpacked file.",
                    code="data-damaged",
                )
            out.write(chunk)
            if head is not None and size >= head.most and (end := chunk.rfind(b"\n")) >= 0:
                out.truncate(out.tell() - len(chunk) + end + 1)
                head.was_cut = True
                break
    return target


def _new_file(scratch: Path) -> Path:
    scratch.mkdir(parents=True, exist_ok=True)
    return scratch / f"{len(list(scratch.iterdir()))}.data"


def _utf8(path: Path, name: str, scratch: Path, head: Head | None) -> Path:
    """The same text as UTF-8 where it is UTF-16 or UTF-32."""
    with path.open("rb") as stream:
        encoding = _encoding(stream.read(4))
    if encoding is None:
        return path
    with path.open("r", encoding=encoding, newline="") as text:
        pieces = (piece.encode() for piece in iter(lambda: text.read(_CHUNK), ""))
        return _copied(pieces, path.stat().st_size, name, scratch, head)


def _encoding(head: bytes) -> str | None:
    for mark, encoding in _ENCODINGS:
        if head.startswith(mark):
            return encoding
    # Without a mark: a character of ASCII, with its other byte zero.
    if len(head) == 4 and head[1] == head[3] == 0 != head[0] and head[2]:
        return "utf-16-le"
    return "utf-16-be" if len(head) == 4 and head[0] == head[2] == 0 != head[1] and head[3] else None
