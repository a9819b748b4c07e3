"""`state.json`: the description of a checkpoint. Written last: a folder without it is not a checkpoint."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from expert_worker.checkpoint import files
from expert_worker.results import CheckpointRecord

NAME = "state.json"
# The folder of a step, as a pattern.
FOLDER = r"checkpoint-(0|[1-9]\d*)"
FORMAT = 2


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """JSON has no infinities, and a diverged metric can never be the best one."""
    return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}


class DamagedError(Exception):
    """The reason why a folder is not a valid checkpoint."""


def sealed(record: CheckpointRecord) -> bytes:
    # Without fields that are newer than the record: it has to stay as it was written.
    document = record.as_json()
    return files.json_bytes(document | {"seal": _seal(document)})


def read(folder: Path) -> CheckpointRecord:
    """The record of a checkpoint whose state.json is intact; the other files are not looked at."""
    try:
        raw = (folder / NAME).read_bytes()
        document = _document(raw)
        if (found := document.get("format")) != FORMAT and isinstance(found, int):
            raise DamagedError(f"{NAME} is of format {found}, this version reads {FORMAT}")
        seal = document.pop("seal")
        if seal != _seal(document):
            raise DamagedError(f"{NAME} does not match its own digest")
        record = CheckpointRecord.model_validate(document)
    except FileNotFoundError:
        raise DamagedError(f"{NAME} is absent") from None
    except OSError as error:
        raise DamagedError(f"{NAME} cannot be read: {error.strerror or error}") from None
    except (KeyError, ValidationError):
        raise DamagedError(f"{NAME} lacks what a checkpoint's record has") from None
    if sealed(record) != raw:
        raise DamagedError(f"{NAME} is not as it was written")
    return record


def _document(raw: bytes) -> dict[str, Any]:
    # After a power cut a file may have its size and none of its bytes.
    if not raw.strip(b"\0"):
        raise DamagedError(f"{NAME} is empty")
    try:
        document = json.loads(raw)
    except ValueError:
        raise DamagedError(f"{NAME} is not JSON") from None
    if not isinstance(document, dict):
        raise DamagedError(f"{NAME} is not a JSON object")
    return document


def _seal(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
