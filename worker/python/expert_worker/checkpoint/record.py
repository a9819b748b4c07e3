"""`state.json`: the description of a checkpoint. Written last: a folder without it is not a checkpoint."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from expert_worker.checkpoint import files
from expert_worker.document import U32, U64, Document
from expert_worker.plan import Inputs

NAME = "state.json"
FORMAT = 2

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """JSON has no infinities, and a diverged metric can never be the best one."""
    return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}


class FileEntry(Document):
    sha256: Digest
    bytes: U64


class Facts(Document):
    """The trainer's state at this step, needed to resume or to refuse it."""

    recipe_digest: str
    recipe: dict[str, Any]
    cache_key: str
    total_steps: U64
    micro_batch: U64
    """The micro-batch that fits this machine, as found after out-of-memory splits."""
    totals: dict[str, Any]
    """Running sums: tokens, seconds, epochs, whatever the summary at the end is made of."""
    metrics: Annotated[dict[str, float], BeforeValidator(finite)]
    """Of the evaluation at exactly this step; empty where there was none."""
    inputs: Inputs | None = None
    """Digests of what the run was begun with."""
    threads: U32 | None = None
    """The number of compute threads affects rounding, so a resumed run keeps it."""
    fp32_products: bool | None = None
    """Whether a 16-bit run on a CPU forms its products in fp32, which a resumed run keeps for the same
    reason; null where there is no choice."""
    processor: str | None = None
    """What computed the run: another one rounds differently."""


class Record(Document):
    format: U64
    step: U64
    facts: Facts
    files: dict[str, FileEntry]


class DamagedError(Exception):
    """The reason why a folder is not a valid checkpoint."""


def sealed(record: Record) -> bytes:
    # Without fields that are newer than the record: it has to stay as it was written.
    document = record.model_dump(mode="json", exclude_unset=True)
    return files.json_bytes(document | {"seal": _seal(document)})


def read(folder: Path) -> Record:
    """The record of a checkpoint whose state.json is intact; the other files are not looked at."""
    try:
        raw = (folder / NAME).read_bytes()
        document = json.loads(raw)
        if (found := document.get("format")) != FORMAT and isinstance(found, int):
            raise DamagedError(f"{NAME} is of format {found}, this version reads {FORMAT}")
        seal = document.pop("seal")
        if seal != _seal(document):
            raise DamagedError(f"{NAME} does not match its own digest")
        record = Record.model_validate(document)
    except FileNotFoundError:
        raise DamagedError(f"{NAME} is absent") from None
    except (OSError, ValueError, KeyError, AttributeError, ValidationError) as error:
        raise DamagedError(f"{NAME} cannot be read: {str(error).splitlines()[0]}") from None
    if sealed(record) != raw:
        raise DamagedError(f"{NAME} is not as it was written")
    return record


def _seal(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
