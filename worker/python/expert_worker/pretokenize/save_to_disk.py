"""The two JSON files with which `datasets.load_from_disk` opens a split: written, and read for its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.pretokenize.record import DATA_FILE

COLUMNS = ("input_ids", "labels", "seq_lengths", "shared_lengths")
STATE = "state.json"
# By the names of old versions of `datasets`: which rows of the files are meant.
_SELECTIONS = ("_indices_files", "_indices_data_files")


def write_descriptions(folder: Path, split: str, fingerprint: str) -> None:
    files.write(folder / "dataset_info.json", [files.json_bytes({"features": {c: _list() for c in COLUMNS}})])
    state: dict[str, Any] = {
        "_data_files": [{"filename": DATA_FILE}],
        "_fingerprint": fingerprint[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }
    files.write(folder / STATE, [files.json_bytes(state)])


def data_files(folder: Path) -> list[Path]:
    """The files of the rows, in their order. Others may be beside them: `map`, `filter` and `sort` of the
    library leave their results there, as `cache-*.arrow`."""
    try:
        state = files.read_json(folder / STATE)
        found = [folder / entry["filename"] for entry in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise _refusal(f"{folder / STATE} does not name the files of the rows") from None
    if any(state.get(key) for key in _SELECTIONS):
        raise BadInput(
            f"{folder} is a selection of the rows in its files, as old versions of `datasets` saved it",
            hint="Save load_from_disk(FOLDER).flatten_indices() to another folder with that version.",
            code="data-damaged",
        )
    if not found:
        raise _refusal(f"{folder} is a saved data set without rows")
    for file in found:
        if file.parent != folder or not file.is_file():
            raise _refusal(f"{folder / STATE} names {file.name}, which is not in the folder")
    return found


def is_library_cache(file: Path) -> bool:
    """What the library left beside the rows of a saved data set."""
    return file.match("cache-*.arrow") and (file.parent / STATE).is_file()


def _refusal(message: str) -> BadInput:
    return BadInput(message, hint="Copy the whole folder, or save the data set again.", code="data-damaged")


def _list() -> dict[str, Any]:
    return {"feature": {"dtype": "int32", "_type": "Value"}, "_type": "List"}
