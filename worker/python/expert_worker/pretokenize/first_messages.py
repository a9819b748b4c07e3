"""Dialogues at the beginning of the training data, for questions about how the rows are made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from expert_worker._native import RowReader
from expert_worker.plan import Data
from expert_worker.pretokenize.preview import rows_as_json

# Of each source: reading every row again would cost as much as tokenizing.
_LOOKED_AT = 256


def first_messages(data: Data, files: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """Of the first rows of each source, up to the last answer that may be learned. A text has none, nor has a
    row that training refuses; one that training leaves out is left out here too."""
    reader = RowReader(data.field_mapping)
    for source in data.train:
        for row in islice(rows_as_json(source, files, _LOOKED_AT), _LOOKED_AT):
            try:
                messages, _ = reader.read(row)
            except ValueError:
                if data.on_bad_row != "skip":
                    yield []
            else:
                yield json.loads(messages)
