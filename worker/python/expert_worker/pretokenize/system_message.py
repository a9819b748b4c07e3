"""The system message that the training rows have in common: questions are asked with it later, too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from expert_worker._native import RowReader
from expert_worker.errors import ExpertError
from expert_worker.plan import Data
from expert_worker.pretokenize.preview import rows_as_json

# Of each source: reading every row again would cost as much as tokenizing.
_LOOKED_AT = 256


def common_system_message(data: Data, files: Mapping[str, str]) -> str | None:
    """That of the first rows of each source. None where one of them has another or none, or where no row can
    be read any more."""
    found: set[str | None] = set()
    reader = RowReader(data.field_mapping)
    with suppress(OSError, ExpertError):
        for text in _first_rows(data, files):
            found.add(_system_message(text, reader))
            if len(found) > 1:
                return None
    return found.pop() if found else None


def _first_rows(data: Data, files: Mapping[str, str]) -> Iterator[str]:
    for source in data.train:
        yield from islice(rows_as_json(source, files, _LOOKED_AT), _LOOKED_AT)


def _system_message(row: str, reader: RowReader) -> str | None:
    try:
        messages, _ = reader.read(row)
    except ValueError:  # A text, or a row that training refuses.
        return None
    first: dict[str, Any] = next(iter(json.loads(messages)), {})
    content = first.get("content")
    return content if first.get("role") == "system" and isinstance(content, str) and content else None
