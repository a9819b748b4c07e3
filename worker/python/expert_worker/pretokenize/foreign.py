"""A `save_to_disk` folder that another tool wrote at the cache's place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.pretokenize.cache import Cache, open_cache
from expert_worker.pretokenize.foreign_documents import LENGTHS, MASK, POSITIONS, RowFault, documents
from expert_worker.pretokenize.record import (
    DATA_FILE,
    FILE,
    FORMAT,
    damage,
    read_description,
    sealed,
)
from expert_worker.pretokenize.save_to_disk import COLUMNS, STATE, data_files, write_descriptions
from expert_worker.process.builder_lock import builder_lock
from expert_worker.results import CacheRecord, SplitStatistics

_NEEDED = ("input_ids", "labels")
_BY_TOKEN = (MASK, POSITIONS)
_MOST_IDS = 1 << 28
_PREFIX = "foreign-"


def foreign_cache(root: Path, home: Path, base: Path | None, events: Events) -> Cache | None:
    """The folder's rows where it is such a folder: checked, and copied once into the layout mapped here."""
    splits = _splits(root)
    if not splits:
        return None
    events.warning(
        "foreign-cache",
        f"{root} holds rows that another tool tokenized: they are used as they are, whatever the "
        "manifest says of data, template and lengths",
        "Set pretokenized_cache to another folder to have the rows made here.",
    )
    words = _vocabulary_size(base)
    key = _PREFIX + _digest(splits, words)[:24]
    target = home / "foreign" / key
    found = _existing(target)
    if found is None:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = target.with_name(f".{key}.lock")
        with builder_lock(lock, events, "another process is copying these rows") as alone:
            # Another process may have copied them while this one waited.
            if _existing(target) is None:
                files.build_folder(target, lambda folder: _copy(splits, folder, key, words), alone=alone)
        found = read_description(target)
    if found is None:
        raise BadInput(f"The rows of {root} cannot be kept in {target}", code="foreign-cache")
    return open_cache(target, found, existed=True)


def _existing(target: Path) -> CacheRecord | None:
    found = read_description(target)
    return found if found is not None and damage(target, found) is None else None


def holds_foreign_rows(root: Path) -> bool:
    return bool(_splits(root))


def is_foreign(key: str) -> bool:
    """Whether the rows of this key are not made of the manifest's data."""
    return key.startswith(_PREFIX)


def refuse_beyond(words: int, largest: int) -> None:
    """Where the copy was made before the base was known."""
    if largest >= words:
        raise _refusal(f"they have the id {largest}, which is not below {words}, the base's vocabulary")


def _splits(root: Path) -> dict[str, Path]:
    if (root / STATE).is_file() and (root / "dataset_info.json").is_file():
        return {"train": root}
    if not (root / "dataset_dict.json").is_file():
        return {}
    there = sorted(folder.name for folder in root.iterdir() if (folder / STATE).is_file())
    if "train" not in there:
        named = ", ".join(f'"{name}"' for name in there) or "none"
        raise BadInput(
            f'{root} holds a saved data set without a split "train": its splits are {named}',
            hint="Set pretokenized_cache to the folder of one split, or save the splits as train and "
            "validation.",
            code="foreign-cache",
        )
    # Not "test": rows that finished adapters are scored on decide nothing.
    validation = next((name for name in ("validation", "eval") if name in there), None)
    return {"train": root / "train"} | ({"validation": root / validation} if validation else {})


def _vocabulary_size(base: Path | None) -> int:
    """Rows of the base's embedding, which ids stay below; the most that ids can be where it is not known."""
    try:
        found = files.read_json(base / "config.json")["vocab_size"] if base else None
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    return found if isinstance(found, int) and 0 < found < _MOST_IDS else _MOST_IDS


def _digest(splits: dict[str, Path], words: int) -> str:
    digest = hashlib.sha256(f"{words}\n".encode())
    for split, folder in sorted(splits.items()):
        for path in data_files(folder):
            digest.update(f"{split} {path.name} {files.sha256(path)}\n".encode())
    return digest.hexdigest()


def _copy(splits: dict[str, Path], folder: Path, key: str, words: int) -> None:
    statistics = {}
    for split, source in splits.items():
        target = folder / split
        target.mkdir()
        statistics[split] = _copy_split(source, target, words)
        write_descriptions(target, split, key.removeprefix(_PREFIX))
    for split, source in splits.items():
        if not statistics[split].supervised_tokens:
            what = "nothing to learn" if split == "train" else "no loss to compare"
            raise _refusal(f"every label of {source} is -100, so there is {what}")
    record = CacheRecord(
        format=FORMAT,
        key=key,
        inputs={},
        template=None,
        encoder="another tool",
        slow_encoder=None,
        sources=(),
        splits=statistics,
    )
    files.write(folder / FILE, [sealed(record)])


def _copy_split(source: Path, target: Path, words: int) -> SplitStatistics:
    import pyarrow as pa

    from expert_worker.pretokenize.sources import _arrow as open_arrow

    numbers = pa.list_(pa.int32())
    schema = pa.schema([(name, numbers) for name in COLUMNS])
    rows = found = tokens = supervised = 0
    path = target / DATA_FILE
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for batch in _checked(open_arrow(source), source):
            converted = _converted(batch, numbers, source, rows, words)
            writer.write_batch(pa.record_batch(converted, schema=schema))
            rows += batch.num_rows
            found += len(converted[2].flatten())
            tokens += len(converted[0].flatten())
            supervised += pa.compute.sum(pa.compute.not_equal(converted[1].flatten(), -100)).as_py() or 0
    return SplitStatistics(
        rows=rows,
        documents=found,
        tokens=tokens,
        supervised_tokens=supervised,
        fill=None,
        length_histogram=(),
        length_quantiles=(),
        bytes=path.stat().st_size,
        sha256=files.sha256(path),
    )


def _checked(stream: Any, source: Path) -> Any:
    missing = [name for name in _NEEDED if name not in stream.schema.names]
    if missing:
        raise BadInput(
            f"{source} is a saved data set without the column {missing[0]!r}",
            hint="Set pretokenized_cache to another folder, or tokenize it with input_ids and labels.",
            code="foreign-cache",
        )
    return stream


def _converted(batch: Any, numbers: Any, source: Path, before: int, words: int) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [name for name in (*_NEEDED, *_BY_TOKEN, LENGTHS) if name in batch.schema.names]
    try:
        batch.validate(full=True)
        columns = {name: batch.column(name).cast(numbers) for name in names}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refusal(str(error).splitlines()[0]) from None
    try:
        _check_rows(columns, words)
        ids, labels, lengths = documents(columns)
    except RowFault as fault:
        raise _refusal(f"row {before + fault.row + 1} of {source}: {fault.reason}") from None
    # Whole documents, whatever they share.
    shared = pa.ListArray.from_arrays(lengths.offsets, pc.multiply(lengths.values, 0).cast(pa.int32()))
    return [ids, labels, lengths, shared]


def _check_rows(columns: dict[str, Any], words: int) -> None:
    """A wrong id is an index beyond a matrix: an IndexError, or on a GPU the end of the process."""
    for at, row in enumerate(zip(*columns.values(), strict=True)):
        parts = {
            name: part.values.to_numpy(zero_copy_only=False) if part.is_valid else None
            for name, part in zip(columns, row, strict=True)
        }
        if (fault := _fault(parts, words)) is not None:
            raise RowFault(at, fault)


def _fault(parts: dict[str, Any], words: int) -> str | None:
    if any(part is None or part.dtype.kind != "i" for part in parts.values()):
        return "it holds a null"
    ids, labels = parts["input_ids"], parts["labels"]
    lengths = parts.get(LENGTHS, numpy.full(1, len(ids)))
    for name in ("labels", *_BY_TOKEN):
        if name in parts and len(parts[name]) != len(ids):
            return f"it has {len(ids)} ids and, in {name}, {len(parts[name])} numbers"
    if lengths.sum() != len(ids) or (lengths <= 0).any():
        return "its seq_lengths do not add up to its ids"
    if ((ids < 0) | (ids >= words)).any():
        return f"it has an id that is not below {words}, the base's vocabulary"
    if ((labels != -100) & ((labels < 0) | (labels >= words))).any():
        return f"it has a label that is neither -100 nor below {words}, the base's vocabulary"
    return None


def _refusal(reason: str) -> BadInput:
    return BadInput(
        f"The rows that another tool tokenized cannot be trained on: {reason}",
        hint="Set pretokenized_cache to another folder, or tokenize them again for this base.",
        code="foreign-cache",
    )
