"""Data sets of any kind: their digests, and their rows as a file name or an Arrow stream."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expert_worker._native import BROKEN_COLUMN, JSON_COLUMN, layout
from expert_worker.errors import FULL, BadInput, Missing
from expert_worker.events import Events
from expert_worker.hub_errors import not_fetched
from expert_worker.plan import Source
from expert_worker.pretokenize.csv_rows import CsvRows, NamedTwice
from expert_worker.pretokenize.json_document import rows_of_object
from expert_worker.pretokenize.plain_columns import plain_batches
from expert_worker.pretokenize.save_to_disk import STATE, data_files
from expert_worker.pretokenize.unpack import DAMAGED, SUSPECT_BYTES, SUSPECT_RATIO, Head, plain_file
from expert_worker.pretokenize.watch import reading
from expert_worker.processor import available_cores

if TYPE_CHECKING:
    from expert_worker._native import ArrowStream

# Beside `BROKEN_COLUMN` in place of a row that cannot be read: what the native reader calls its fault.
BROKEN_CODE = "__code__"
_BATCH_ROWS = 1024
_PART = 16 << 20
_READ = 1 << 18
_DOWNLOAD_BUDGET = 1800.0
_LFS = b"version https://git-lfs.github.com/spec/"
_COMMIT = re.compile("[0-9a-f]{40}")


def source_digest(source: Source, files: Mapping[str, str], threads: int | None) -> str:
    """Of every byte that rows are read from."""
    if source.format == "huggingface":
        return digest_of((Path(entry["filename"]) for entry in _hub_dataset(source).cache_files), threads)
    return digest_of(_files(_place(source, files)), threads)


def open_source(
    source: Source, files: Mapping[str, str], scratch: Path, head: Head | None = None
) -> str | ArrowStream:
    """The path of a file of JSON rows, for the native reader; else a stream of record batches. `files` has
    the place of each source on this machine.

    Unpacked copies are written to `scratch`, and must stay until the rows are read. With `head`, a copy of
    rows by line may hold the first ones only."""
    if source.format == "huggingface":
        return _hub_stream(source)
    path, kind = _place(source, files), str(source.format)
    try:
        if path.is_file():
            place = path
            path, name = plain_file(place, source.name, scratch, head)
            kind = format_of(name) or kind
            if head is not None and head.was_cut and not _is_lines(path, kind):
                head.was_cut = False
                path, _ = plain_file(place, source.name, scratch)
        _refuse_pointer(path, source.name)
        if kind in ("json", "jsonl"):
            return _json(path, source.name)
        return sound(_READERS[kind](path), source.name)
    except BadInput:
        raise
    except (
        *DAMAGED,
        RecursionError,
        MemoryError,
    ) as error:  # pyarrow's errors are kinds of these.
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        raise unreadable(source, error) from None


def _is_lines(path: Path, kind: str) -> bool:
    return kind in ("json", "jsonl") and layout(str(path)) == "lines"


def unreadable(source: Source, error: BaseException) -> BadInput:
    reason = _first_line(error)
    if "straddling object" in reason:
        reason = "a row is longer than 16 MiB, or a quote is not closed"
    return BadInput(
        f"{source.name} cannot be read as {source.format}: {reason}", hint=_whole(error), code="data-damaged"
    )


def _whole(error: BaseException) -> str:
    if isinstance(error, NamedTwice):
        return "Rename one of them."
    if isinstance(error, EOFError | zipfile.BadZipFile | zlib.error):
        return "The file is cut off or damaged: copy or download it again."
    return "If the file is cut off or damaged, copy or download it again. Its name's ending says its format."


def sound(found: Any, name: str) -> ArrowStream:
    """The same rows, none of which leads the native reader out of its buffers: what Arrow says of offsets and
    texts is checked first. A row that fails is replaced by the reason, under its own number. `found` has a
    schema and gives batches, or a reason in the place of a row that its reader could not read.

    The batches are checked as they were read: importing a C stream takes the size of a text buffer from the
    offsets that are to be checked."""
    import pyarrow as pa

    plain_schema, plain = plain_batches(found.schema)
    schema = plain_schema.append(pa.field(BROKEN_COLUMN, pa.string()))
    parts = (part for batch in _read(found, name) for part in _sound_parts(batch, plain, schema))
    return _reader(schema, parts)


def _read(batches: Iterable[Any], name: str) -> Iterator[Any]:
    source = iter(batches)
    while True:
        with reading(name):
            batch = next(source, None)
        if batch is None:
            return
        yield batch


def _sound_parts(batch: Any, plain: Callable[[Any], Any], schema: Any) -> Iterator[Any]:
    import pyarrow as pa

    if isinstance(batch, str):
        yield _broken_row(batch, schema)
        return
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for at in range(batch.num_rows):
            row = batch.slice(at, 1)
            try:
                row.validate(full=True)
            except pa.ArrowInvalid as error:
                yield _broken_row(f"the row is damaged: {_first_line(error)}", schema)
                continue
            yield _with_reason(plain(row), schema)
        return
    yield _with_reason(plain(batch), schema)


def _broken_row(reason: str, schema: Any) -> Any:
    import pyarrow as pa

    columns = [pa.nulls(1, field.type) for field in list(schema)[:-1]]
    return pa.record_batch([*columns, pa.array([reason], pa.string())], schema=schema)


def _with_reason(batch: Any, schema: Any) -> Any:
    import pyarrow as pa

    return pa.record_batch([*batch.columns, pa.nulls(batch.num_rows, pa.string())], schema=schema)


def _place(source: Source, files: Mapping[str, str]) -> Path:
    path = files.get(source.name)
    if path is None or not Path(path).exists():
        raise BadInput(
            f"The data {source.name} is not there" + (f": {path}" if path else ""),
            hint="Check the manifest's dataset paths, or make the data with the expert's generator.",
            code="data-missing",
        )
    if not Path(path).is_file() and not Path(path).is_dir():
        raise BadInput(
            f"The data {source.name} is a pipe or a device, and data is read more than once",
            hint=f"Save it to a file, `cat {shlex.quote(path)} > rows.jsonl`, and name that file.",
            code="data-damaged",
        )
    return Path(path)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / STATE).is_file():
        return data_files(path)
    return [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(".")]


def digest_of(paths: Iterable[Path], threads: int | None) -> str:
    """A file's own SHA-256 where it is small; of long and of several files that of their parts' digests,
    so that every thread can take a part."""
    parts = [(path, start) for path in paths for start in range(0, max(path.stat().st_size, 1), _PART)]
    workers = min(threads or available_cores(), len(parts))
    if workers > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            digests = list(pool.map(_part_digest, parts))
    else:
        digests = [_part_digest(part) for part in parts]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _part_digest(part: tuple[Path, int]) -> str:
    path, start = part
    digest, left = hashlib.sha256(), _PART
    buffer = memoryview(bytearray(_READ))
    with path.open("rb", buffering=0) as stream:
        stream.seek(start)
        while left and (count := stream.readinto(buffer[:left])):
            digest.update(buffer[:count])
            left -= count
    return digest.hexdigest()


def is_pointer(path: Path) -> bool:
    """Whether the file stands in for one that Git LFS has not fetched."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_LFS)) == _LFS


def _refuse_pointer(path: Path, name: str) -> None:
    if is_pointer(path):
        raise BadInput(
            f"{name} is a Git LFS pointer, not the data",
            hint="Run `git lfs install` and `git lfs pull` in its repository.",
            code="lfs-pointer",
        )


def _json(path: Path, name: str) -> str | ArrowStream:
    """Rows by line, values, or a list: the native reader's. Of one object the rows in it."""
    import pyarrow as pa

    rows = rows_of_object(path, name) if layout(str(path)) == "object" else None
    if rows is None:
        return str(path)
    # One column of text, each row as JSON again: rows of one file may differ in shape, columns may not.
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    table = pa.table({JSON_COLUMN: pa.array(texts, pa.large_string())})
    return sound(_reader(table.schema, table.to_batches(_BATCH_ROWS)), name)


TEXT_FORMATS = ("jsonl", "json", "csv")
_ENDINGS = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "csv": "csv",
    "tsv": "csv",
    "tab": "csv",
    "parquet": "parquet",
    "arrow": "arrow",
}


def place_of_row(name: str, number: int) -> str:
    """As an editor finds it where rows are lines; elsewhere the number of the row."""
    lines = format_of(name.removesuffix(".gz").removesuffix(".zst")) == "jsonl"
    return f"{name}:{number}" if lines else f"{name}, row {number}"


def format_of(name: str) -> str | None:
    """As the file's ending says it."""
    return _ENDINGS.get(name.rsplit(".", 1)[-1].lower()) if "." in name else None


def _parquet(path: Path) -> ArrowStream:
    from pyarrow import parquet

    files, schemas = _files(path), []
    for file in files:
        with parquet.ParquetFile(file) as opened:
            _refuse_bomb(opened.metadata)
            schemas.append(opened.schema_arrow)

    def batches() -> Iterator[Any]:
        # A folder may have more files than a process may have open.
        for file in files:
            with parquet.ParquetFile(file) as opened:
                yield from opened.iter_batches(_BATCH_ROWS // 4, use_threads=False)

    return _reader(schemas[0], batches())


def _refuse_bomb(metadata: Any) -> None:
    """Before any of it is read: a file of some kB can say that it becomes GBs."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            size, stored = chunk.total_uncompressed_size, max(1, chunk.total_compressed_size)
            if size > SUSPECT_BYTES and size / stored > SUSPECT_RATIO:
                raise ValueError(
                    f"the column {chunk.path_in_schema} becomes {size / 1e6:,.0f} MB when it is read from "
                    f"{stored / 1e6:.1f} MB: a row may be 16 MiB long"
                )


def _arrow(path: Path) -> ArrowStream:
    """An IPC file or stream, or a folder of `save_to_disk`."""
    import pyarrow as pa

    files = [path] if path.is_file() else data_files(path)
    schema = _schema(files[0])
    # Before any row is read: an error in the stream would be one of the reader behind it.
    for file in files[1:]:
        _refuse_other_columns(file, files[0])
    tables = (pa.Table.from_batches([batch]) for file in files for batch in _open_ipc(file)[1])
    ordered = (
        table if table.schema.names == schema.names else table.select(schema.names) for table in tables
    )
    return _reader(schema, (batch for table in ordered for batch in table.to_batches(_BATCH_ROWS)))


def _refuse_other_columns(file: Path, first: Path) -> None:
    """Their order may differ."""
    found, expected = (dict(zip(it.names, it.types, strict=True)) for it in map(_schema, (file, first)))
    for name in (*expected, *found):
        kind, other = found.get(name), expected.get(name)
        if kind != other:
            raise BadInput(
                f"The columns of {file} are not those of {first.name}: {name} is {kind or 'absent'} "
                f"instead of {other or 'absent'}",
                hint="Save the data set again, with the same columns in all of its files.",
                code="data-damaged",
            )


def _schema(path: Path) -> Any:
    return _open_ipc(path)[0]


def _open_ipc(path: Path) -> tuple[Any, Iterator[Any]]:
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(source)
        return file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
    except pa.ArrowInvalid:
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        return stream.schema, iter(stream)


def _reader(schema: Any, batches: Iterable[Any]) -> ArrowStream:
    import pyarrow as pa

    reader: ArrowStream = pa.RecordBatchReader.from_batches(schema, batches)
    return reader


_READERS = {"csv": CsvRows, "parquet": _parquet, "arrow": _arrow}


def fetch_hub_datasets(sources: Iterable[Source], events: Events) -> None:
    for source in sources:
        if source.format == "huggingface":
            events.stage("download data", _DOWNLOAD_BUDGET, source.name)
            _hub_dataset(source)


def _hub_dataset(source: Source) -> Any:
    """A data set of the Hub by `name::split::config`, at the commit of its last download: what the CLI has
    recorded is what is read."""
    from datasets import load_dataset

    name, split, config = [*source.name.split("::"), "", ""][:3]
    if not Path(name).is_absolute() and Path(name).exists():
        # The library would take it first.
        raise BadInput(
            f"The data set {name} of the Hub has the name of a folder here: {Path(name).resolve()}",
            hint="Run the command from another folder.",
            code="data-missing",
        )
    revision = cached_revision(source)
    try:
        found = load_dataset(name, config or None, split=split or "train", revision=revision)
    except Exception as error:  # The library raises many kinds, all of which mean the same here.
        raise not_fetched(
            error,
            f"The data set {source.name} is neither in the Hugging Face cache nor can it be fetched",
            name,
            hint="Write it as name::split::config, and check the network or HF_HOME.",
            code="data-missing",
            kind="data set",
        ) from None
    _refuse_other_commit(found, source.name, revision)
    return found


def cached_revision(source: Source) -> str | None:
    """The commit of the last download of a Hub dataset, read as in contract/src/resolve/base.rs."""
    from huggingface_hub import constants

    name = source.name.partition("::")[0]
    repository = Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}"
    try:
        return (repository / "refs" / "main").read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None


def _refuse_other_commit(found: Any, name: str, revision: str | None) -> None:
    """Without a network the library takes the newest rows that it has prepared, whichever commit was asked
    for. Their folder is named by theirs."""
    folders = {Path(entry["filename"]).parent for entry in found.cache_files}
    others = [it for it in folders if _COMMIT.fullmatch(it.name) and it.name != revision]
    if revision is None or not others:
        return
    raise Missing(
        f"Without a network, the `datasets` library reads commit {others[0].name[:12]} of {name}, and the "
        f"Hugging Face cache points to commit {revision[:12]}",
        hint=f"Start with a network, or remove {others[0]}.",
        code="data-missing",
    )


def _hub_stream(source: Source) -> ArrowStream:
    found = _hub_dataset(source)
    table = found.data.table
    batches = table.to_batches(_BATCH_ROWS)
    if found._indices is not None:
        found = found.flatten_indices()
        batches = found.data.table.to_batches(_BATCH_ROWS)
    return sound(_reader(table.schema, batches), source.name)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
