"""A `save_to_disk` folder that another tool wrote at the cache's place."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.pretokenize.cache import DATA_FILE, Cache, open_cache
from expert_worker.pretokenize.record import FILE, FORMAT, Description, SplitStatistics, read_description
from expert_worker.pretokenize.save_to_disk import write_descriptions

_NEEDED = ("input_ids", "labels")
_BATCH_ROWS = 512


def foreign_cache(root: Path, home: Path, events: Events) -> Cache | None:
    """The folder's rows where it is such a folder; copied once into the layout that is mapped here."""
    splits = _splits(root)
    if not splits:
        return None
    events.warning(
        "foreign-cache",
        f"{root} holds rows that another tool tokenized: they are used as they are, whatever the "
        "manifest says of data, template and lengths",
        "Set pretokenized_cache to another folder to have the rows made here.",
    )
    key = "foreign-" + _digest(splits)[:24]
    target = home / "foreign" / key
    found = read_description(target)
    if found is None:
        target.parent.mkdir(parents=True, exist_ok=True)
        files.build_folder(target, lambda folder: _copy(splits, folder, key))
        found = read_description(target)
    if found is None:
        raise BadInput(f"The rows of {root} cannot be kept in {target}", code="foreign-cache")
    return open_cache(target, found, existed=True)


def _splits(root: Path) -> dict[str, Path]:
    if (root / "state.json").is_file() and (root / "dataset_info.json").is_file():
        return {"train": root}
    if not (root / "dataset_dict.json").is_file():
        return {}
    names = {"train": ("train",), "validation": ("validation", "eval", "test")}
    found = {
        split: next((root / name for name in given if (root / name / "state.json").is_file()), None)
        for split, given in names.items()
    }
    return {split: folder for split, folder in found.items() if folder is not None}


def _digest(splits: dict[str, Path]) -> str:
    digest = hashlib.sha256()
    for split, folder in sorted(splits.items()):
        for path in sorted(folder.glob("*.arrow")):
            digest.update(f"{split} {path.name} {files.sha256(path)}\n".encode())
    return digest.hexdigest()


def _copy(splits: dict[str, Path], folder: Path, key: str) -> None:
    statistics = {}
    for split, source in splits.items():
        target = folder / split
        target.mkdir()
        statistics[split] = _copy_split(source, target)
        write_descriptions(target, split, key.removeprefix("foreign-"))
    description = Description(
        format=FORMAT, key=key, inputs={}, encoder="another tool", sources=(), splits=statistics
    )
    files.write(folder / FILE, [files.json_bytes(description.model_dump(mode="json"))])


def _copy_split(source: Path, target: Path) -> SplitStatistics:
    import pyarrow as pa

    from expert_worker.pretokenize.sources import _arrow as open_arrow

    numbers = pa.list_(pa.int32())
    schema = pa.schema([(name, numbers) for name in ("input_ids", "labels", "seq_lengths")])
    rows = documents = tokens = supervised = 0
    path = target / DATA_FILE
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        for batch in _checked(open_arrow(source), source):
            converted = _converted(batch, numbers)
            writer.write_batch(pa.record_batch(converted, schema=schema))
            rows += batch.num_rows
            documents += len(converted[2].flatten())
            tokens += len(converted[0].flatten())
            supervised += pa.compute.sum(pa.compute.not_equal(converted[1].flatten(), -100)).as_py() or 0
    return SplitStatistics(
        rows=rows,
        documents=documents,
        tokens=tokens,
        supervised_tokens=supervised,
        length_histogram=(),
        length_quantiles=(),
        bytes=path.stat().st_size,
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


def _converted(batch: Any, numbers: Any) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids, labels = (batch.column(name).cast(numbers) for name in _NEEDED)
    if "seq_lengths" in batch.schema.names:
        return [ids, labels, batch.column("seq_lengths").cast(numbers)]
    lengths = pc.list_value_length(ids).cast(pa.int32())
    offsets = pa.array(range(len(ids) + 1), pa.int32())
    return [ids, labels, pa.ListArray.from_arrays(offsets, lengths)]
