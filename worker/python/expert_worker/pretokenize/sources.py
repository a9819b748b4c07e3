"""Data sets of any kind: their digests, and their rows as a file name or an Arrow stream."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expert_worker.errors import BadInput, Missing
from expert_worker.plan import Plan, Source

if TYPE_CHECKING:
    from expert_worker._native import ArrowStream

_BATCH_ROWS = 1024
_PART = 16 << 20
_READ = 1 << 18
_LFS = b"version https://git-lfs.github.com/spec/"


def source_digest(plan: Plan, source: Source) -> str:
    """Of every byte that rows are read from."""
    if source.format == "huggingface":
        return digest_of((Path(entry["filename"]) for entry in _hub_dataset(source).cache_files), plan)
    return digest_of(_files(_place(plan, source)), plan)


def open_source(plan: Plan, source: Source) -> str | ArrowStream:
    """A JSONL file's path, for the native reader; else a stream of record batches."""
    if source.format == "huggingface":
        return _hub_stream(source)
    path = _place(plan, source)
    if source.format == "jsonl":
        return str(path)
    _refuse_pointer(path, source.name)
    try:
        return _READERS[source.format](path)
    except (ValueError, OSError) as error:  # pyarrow's errors are kinds of these.
        raise BadInput(
            f"{source.name} cannot be read as {source.format}: {_first_line(error)}", code="data-damaged"
        ) from None


def _place(plan: Plan, source: Source) -> Path:
    path = plan.machine.paths.data.get(source.name)
    if path is None or not Path(path).exists():
        raise BadInput(
            f"The data {source.name} is not there" + (f": {path}" if path else ""),
            hint="Check the manifest's dataset paths, or make the data with the expert's generator.",
            code="data-missing",
        )
    return Path(path)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(".")]


def digest_of(paths: Iterable[Path], plan: Plan) -> str:
    """A file's own SHA-256 where it is small; of long and of several files that of their parts' digests,
    so that every thread can take a part."""
    parts = [(path, start) for path in paths for start in range(0, max(path.stat().st_size, 1), _PART)]
    threads = min(plan.machine.threads.pretokenize or os.cpu_count() or 1, len(parts))
    if threads > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
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


def _refuse_pointer(path: Path, name: str) -> None:
    if path.is_file():
        with path.open("rb") as stream:
            if stream.read(len(_LFS)) == _LFS:
                raise BadInput(
                    f"{name} is a Git LFS pointer, not the data",
                    hint="Run `git lfs install` and `git lfs pull` in its repository.",
                    code="lfs-pointer",
                )


def _json(path: Path) -> ArrowStream:
    """One JSON document: a list of rows, or an object with one list in it."""
    import json

    import pyarrow as pa

    if path.stat().st_size > 2 << 30:
        raise ValueError("a JSON document above 2 GB must be held in memory whole: make it JSON Lines")
    document = json.loads(path.read_bytes())
    lists = (
        [value for value in document.values() if isinstance(value, list)]
        if isinstance(document, dict)
        else []
    )
    rows = document if isinstance(document, list) else lists[0] if len(lists) == 1 else None
    if rows is None:
        raise ValueError("it holds no list of rows")
    # One column of text, each row as JSON again: rows of one file may differ in shape, columns may not.
    texts = [json.dumps(row, ensure_ascii=False) for row in rows]
    table = pa.table({JSON_COLUMN: pa.array(texts, pa.large_string())})
    return _reader(table.schema, table.to_batches(_BATCH_ROWS))


JSON_COLUMN = "__json__"


def _csv(path: Path) -> ArrowStream:
    import pyarrow as pa
    from pyarrow import csv

    with path.open("rb") as stream:
        head = csv.open_csv(stream).schema
    # Every field is text: a column of numbers is still something to be written out.
    types = {name: pa.string() for name in head.names}
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    parse = csv.ParseOptions(newlines_in_values=True)
    reader: ArrowStream = csv.open_csv(path, convert_options=options, parse_options=parse)
    return reader


def _parquet(path: Path) -> ArrowStream:
    from pyarrow import dataset

    scanner = dataset.dataset(path, format="parquet").scanner(batch_size=_BATCH_ROWS, use_threads=False)
    reader: ArrowStream = scanner.to_reader()
    return reader


def _arrow(path: Path) -> ArrowStream:
    """An IPC file or stream, or a folder of `save_to_disk`."""
    import pyarrow as pa

    files = [path] if path.is_file() else sorted(path.rglob("*.arrow"))
    if not files:
        raise ValueError("the folder holds no .arrow file")
    schema = _open_ipc(files[0])[0]
    batches = (batch for file in files for batch in _open_ipc(file)[1])
    return _reader(
        schema,
        (small for batch in batches for small in pa.Table.from_batches([batch]).to_batches(_BATCH_ROWS)),
    )


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


_READERS = {"json": _json, "csv": _csv, "parquet": _parquet, "arrow": _arrow}


def _hub_dataset(source: Source) -> Any:
    """A data set of the Hub by `name::split::config`, from the local cache where it is there."""
    from datasets import load_dataset

    name, split, config = [*source.name.split("::"), "", ""][:3]
    try:
        return load_dataset(name, config or None, split=split or "train")
    except Exception as error:  # The library raises many kinds, all of which mean the same here.
        raise Missing(
            f"The data set {source.name} is neither in the Hugging Face cache nor can it be fetched: "
            f"{_first_line(error)}",
            hint="Write it as name::split::config, and check the network or HF_HOME.",
            code="data-missing",
        ) from None


def _hub_stream(source: Source) -> ArrowStream:
    found = _hub_dataset(source)
    table = found.data.table
    batches = table.to_batches(_BATCH_ROWS)
    if found._indices is not None:
        found = found.flatten_indices()
        batches = found.data.table.to_batches(_BATCH_ROWS)
    return _reader(table.schema, batches)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
