"""The two JSON files with which `datasets.load_from_disk` opens a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expert_worker.checkpoint import files
from expert_worker.pretokenize.record import DATA_FILE

COLUMNS = ("input_ids", "labels", "seq_lengths", "shared_lengths")


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
    files.write(folder / "state.json", [files.json_bytes(state)])


def _list() -> dict[str, Any]:
    return {"feature": {"dtype": "int32", "_type": "Value"}, "_type": "List"}
