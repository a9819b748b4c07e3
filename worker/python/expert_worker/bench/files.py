"""Where results go: checked before anything is measured, so that no hour is measured for nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from expert_worker.errors import Storage, storage_error


def demand_writable(path: Path | None) -> None:
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        why = "is a folder" if path.is_dir() else "cannot be written"
        raise Storage(f"{path} {why}", hint="Name a file in a folder that is there and may be written.")


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise storage_error(error, f"write {path}") from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    write(path, json.dumps(document, indent=2) + "\n")
