"""Rows as they will be learned: decoded again from their ids, piece by piece with the loss mask."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from expert_worker._native import BROKEN_COLUMN, Tokenizer, rows_of_columns
from expert_worker._native import first_rows as native_first_rows
from expert_worker.events import Events
from expert_worker.plan import Source
from expert_worker.pretokenize.cache import Cache
from expert_worker.pretokenize.coder import Coder
from expert_worker.pretokenize.inputs import Inputs, recipe_for
from expert_worker.pretokenize.sources import BROKEN_CODE, open_source
from expert_worker.pretokenize.unpack import Head
from expert_worker.results import PreviewRow, PreviewSpan

# Of each file.
_MOST_ROWS = 10_000


def preview(inputs: Inputs, coder: Coder, count: int, events: Events) -> list[PreviewRow]:
    """The rows are `text` events too."""
    recipe = recipe_for(inputs, coder.prefix, coder.suffix, interpret=False)
    decode = _decoder(inputs, coder)
    shown: list[PreviewRow] = []
    for row in itertools.islice(first_rows(inputs), count):
        try:
            _, _, ids, learned = recipe.show(row, coder.work)
        except ValueError as error:
            shown.append(PreviewRow(error=str(error), spans=()))
            continue
        shown.append(_shown(ids, learned, decode, events))
    return shown


def preview_of_cache(cache: Cache, tokenizer: bytes, count: int, events: Events) -> list[PreviewRow]:
    """The first rows of a cache, which another tool tokenized."""
    decode = _decoder_of(tokenizer)
    shown = []
    for index in range(min(count, len(cache.train))):
        ids, labels, _ = cache.train.row(index)
        shown.append(_shown(ids.tolist(), (labels != -100).tolist(), decode, events))
    return shown


def _shown(ids: Sequence[int], learned: Sequence[bool], decode: Any, events: Events) -> PreviewRow:
    spans = [
        PreviewSpan(text=decode([i for i, _ in group]), learned=bool(flag))
        for flag, group in itertools.groupby(zip(ids, learned, strict=True), key=lambda pair: pair[1])
    ]
    for span in spans:
        events.text("learned" if span.learned else "context", span.text)
    events.text("context", "", done=True)
    return PreviewRow(spans=tuple(spans), tokens=len(ids), supervised_tokens=sum(learned))


def _decoder(inputs: Inputs, coder: Coder) -> Any:
    if isinstance(coder.work, Tokenizer):
        tokenizer = coder.work
        return lambda ids: b"".join(tokenizer.token_bytes(i) or b"" for i in ids).decode(errors="replace")
    return _decoder_of(inputs.vocabulary.tokenizer_json)


def _decoder_of(tokenizer: bytes) -> Any:
    from tokenizers import Tokenizer as Reference

    reference = Reference.from_str(tokenizer.decode())
    return lambda ids: reference.decode(ids, skip_special_tokens=False)


def first_rows(inputs: Inputs) -> Iterator[str]:
    """Rows in JSON, from the first source on."""
    for source in inputs.plan.recipe.data.train:
        yield from rows_as_json(source, inputs.plan.machine.paths.data, _MOST_ROWS)


def rows_as_json(
    source: Source, files: Mapping[str, str], most: int, *, strict: bool = False
) -> Iterator[str]:
    """The first rows of one source; broken ones are left out, or if `strict` the reason alone in
    `BROKEN_COLUMN`, and in `BROKEN_CODE` what the native reader calls it."""
    head, given = None if strict else Head(), 0
    with tempfile.TemporaryDirectory(prefix="expert-") as scratch:
        for row in _rows(open_source(source, files, Path(scratch), head), most, strict):
            given += 1
            yield row
    if head is not None and head.was_cut and given < most:
        with tempfile.TemporaryDirectory(prefix="expert-") as scratch:
            rows = _rows(open_source(source, files, Path(scratch)), most, strict)
            yield from itertools.islice(rows, given, None)


def _rows(place: Any, most: int, strict: bool) -> Iterator[str]:
    if isinstance(place, str):
        for row, fault in native_first_rows(place, most):
            if row is not None:
                yield row
            elif strict and fault is not None:
                yield json.dumps({BROKEN_CODE: fault[0], BROKEN_COLUMN: fault[1]})
        return
    rows = (row for batch in place for row in rows_of_columns(batch))
    for row, reason in itertools.islice(rows, most):
        if row is not None:
            yield row
        elif strict:
            yield json.dumps({BROKEN_COLUMN: reason})
