"""Reads rows of any format, groups copies, divides the groups, and writes three files."""

from __future__ import annotations

import json
import random
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from expert_worker._native import BROKEN_COLUMN, Duplicates, NativeError, RowReader, compare
from expert_worker.errors import BadInput, Missing, storage_error
from expert_worker.evaluate.authoring.write import SPLITS, refuse_existing
from expert_worker.evaluate.rows import dotted, numbered_rows
from expert_worker.plan import Source
from expert_worker.pretokenize.broken_rows import BrokenRows, bad_rows
from expert_worker.pretokenize.sources import format_of
from expert_worker.pretokenize.template import renderer
from expert_worker.process.work_folder import create_work_folder, remove_abandoned
from expert_worker.processor import available_cores

from .answers import Answers
from .parts import TRAIN, Groups, assign

FEWEST = 20
# Without a wish for either: a tenth, and not more than can be scored in minutes without a GPU.
_SHARE, _MOST = 0.1, 500
_PREFIX = ".split-"
_PACKED = (".gz", ".zst")
_ARCHIVE = ".zip"
# Nothing is rendered: rows are compared by their texts.
_NO_TEMPLATE = "{{ messages }}"
# Where nothing is measured: a row of so many bytes is a token or more in most languages and tokenizers.
_BYTES_A_TOKEN = 3
# So many rows, drawn at random, and so many of the longest answers are measured, each text up to so many
# characters: longer ones have more tokens than `init` asks for anyway.
_MEASURED, _LONGEST_TEXT, _AT_ONCE = 2000, 20_000, 256


@dataclass(frozen=True)
class Request:
    data: tuple[Path, ...]
    output: Path
    # A share below 1, or a number of rows; None for a tenth of at most 500.
    validation: float | None = None
    test: float | None = None
    field_mapping: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    seed: int = 1
    # Whether anybody asks how long rows and answers are.
    lengths: bool = False


@dataclass(frozen=True)
class Written:
    rows: dict[str, int]
    files: tuple[str, ...]
    exact: int
    near: int
    """Rows that copy an earlier one: exactly, and nearly. They are in the same file."""
    scorer: str | None
    labels: tuple[str, ...]
    is_free_text: bool
    answer_tokens: int
    row_tokens: int
    """About how many the longest answer has, and 99 of 100 rows; 0 where nobody asked."""
    left_out: dict[str, int]
    """In how many rows a field that none is read from holds bytes that are not text, and was left out."""


def split(request: Request) -> Written:
    refuse_existing(request.output)
    is_new = not request.output.exists()
    try:
        request.output.mkdir(parents=True, exist_ok=True)
        remove_abandoned(request.output.glob(f"{_PREFIX}*"))
        with closing(create_work_folder(_PREFIX, request.output)) as work:
            return _split(request, work.path)
    except OSError as error:
        # `init` names the folder by another option than `datasets`.
        raise storage_error(error, "write the rows", elsewhere="") from None
    finally:
        if is_new:
            # Of a refused division nothing stays; a folder with rows in it cannot be removed.
            with suppress(OSError):
                request.output.rmdir()


def _split(request: Request, scratch: Path) -> Written:
    rows = _read(request, scratch / "all.jsonl")
    count = len(rows.sizes)
    if count < FEWEST:
        raise BadInput(
            f"{count} rows are too few to divide: at least {FEWEST} are needed",
            hint="Write more rows, or all rows into one file that the manifest names.",
            code="few-rows",
        )
    # Texts without questions cannot be scored by answers.
    has_test = rows.answers.rows > 0 or request.test is not None
    wanted = (
        _wanted(request.validation, count, "--validation"),
        _wanted(request.test, count, "--test") if has_test else 0,
    )
    if sum(wanted) >= count:
        raise BadInput(
            f"{count} rows cannot have {wanted[0]} validation and {wanted[1]} test rows",
            hint="Choose fewer with --validation and --test.",
            code="few-rows",
        )
    groups = Groups(count)
    found = _compared(request, [scratch / "all.jsonl"])
    groups.join((copy - 1, original - 1) for (_, copy), (_, original) in found.repeats())
    if request.by is not None:
        groups.join_equal(rows.keys)
    parts = assign(groups, rows.labels, wanted, request.seed)
    files = [scratch / f"{name}.jsonl" for name in SPLITS]
    numbers = _write(scratch / "all.jsonl", files, parts)
    # Each round moves rows to the training rows until the parts share no copies. None or one is usual.
    while across := _compared(request, files).across():
        for (copy_in, copy), (original_in, original) in across:
            pair = numbers[copy_in][copy - 1], numbers[original_in][original - 1]
            groups.join([pair])
            parts[groups.first(pair[0])] = TRAIN
        parts = [parts[groups.first(row)] for row in range(count)]
        numbers = _write(scratch / "all.jsonl", files, parts)
    _refuse_empty(request, parts, wanted)
    answer_tokens, row_tokens = _lengths(request, scratch / "all.jsonl", rows) if request.lengths else (0, 0)
    exact, near = next(((exact, near) for _, _, exact, near, _ in found.copies()), (0, 0))
    return Written(
        rows={name: parts.count(part) for part, name in enumerate(SPLITS)},
        files=tuple(str(file) for file in _placed(request, files, parts)),
        exact=exact,
        near=near,
        scorer=rows.answers.scorer(),
        labels=tuple(rows.answers.labels),
        is_free_text=rows.answers.is_free_text(),
        answer_tokens=answer_tokens,
        row_tokens=row_tokens,
        left_out=dict(rows.left_out),
    )


@dataclass
class _Rows:
    answers: Answers = field(default_factory=Answers)
    # Of each row: the bytes of its texts and of its answer, the answer where that may be a label, and its
    # value of `by`.
    sizes: array[int] = field(default_factory=lambda: array("q"))
    answer_sizes: array[int] = field(default_factory=lambda: array("q"))
    labels: list[str | None] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def _read(request: Request, copy: Path) -> _Rows:
    """Every row, as JSON in `copy`. Rows that training would refuse are an error that names each."""
    rows, reader = _Rows(), RowReader(request.field_mapping)
    broken = BrokenRows()
    with copy.open("wb") as out:
        for path in request.data:
            source = _source(path)
            for number, raw in numbered_rows(source, {source.name: str(path)}):
                try:
                    if isinstance(raw, BadInput):
                        raise raw
                    _add(raw, reader, request, rows, out)
                except (BadInput, ValueError) as error:
                    broken.add(_reason(error), source.name, number)
    if broken.total:
        raise _named_here(broken.error("Correct these rows, or take them out of the file."))
    return rows


def _add(raw: Mapping[str, Any], reader: RowReader, request: Request, rows: _Rows, out: BinaryIO) -> None:
    line = _json(raw)
    messages = json.loads(reader.read(line)[0])
    if unread := [name for name, value in raw.items() if _is_unreadable(value)]:
        rows.left_out.update(unread)
        raw = {name: value for name, value in raw.items() if name not in unread}
        line = _json(raw)
    encoded = line.encode()
    if request.by is not None:
        value = dotted(raw, request.by)
        if value is None:
            raise BadInput(
                f"it has no {request.by!r}",
                hint="Name a field that all rows have with --by.",
                code="no-field",
            )
        rows.keys.append(json.dumps(value, sort_keys=True, default=str))
    texts = [_text(message.get("content")) for message in messages]
    has_answer = _has_answer(messages)
    rows.labels.append(rows.answers.add(texts[-1]) if has_answer else None)
    rows.answer_sizes.append(len(texts[-1].encode()) if has_answer else 0)
    rows.sizes.append(sum(len(text.encode()) for text in texts) if texts else len(encoded))
    out.write(encoded + b"\n")


def _json(raw: Mapping[str, Any]) -> str:
    return json.dumps(raw, ensure_ascii=False, separators=(",", ":"), default=str)


def _is_unreadable(value: Any) -> bool:
    """Whether JSON has no place for it, or for a part of it: bytes of a table that are not text."""
    if isinstance(value, Mapping):
        return BROKEN_COLUMN in value or any(map(_is_unreadable, value.values()))
    return isinstance(value, list) and any(map(_is_unreadable, value))


def _has_answer(messages: Sequence[Mapping[str, Any]]) -> bool:
    return bool(messages) and messages[-1].get("role") == "assistant"


def _lengths(request: Request, copy: Path, rows: _Rows) -> tuple[int, int]:
    """The tokens of the longest answer, and of 99 of 100 rows: those of the embedded base, or where it is not
    installed as many as an answer can have, and an estimate for rows."""
    try:
        return _measured(request, copy, rows)
    except Missing:
        sizes = sorted(rows.sizes)
        return max(rows.answer_sizes) + 1, sizes[len(sizes) * 99 // 100] // _BYTES_A_TOKEN + 1


def _measured(request: Request, copy: Path, rows: _Rows) -> tuple[int, int]:
    from expert_worker.base.embedded import Lengths

    lengths, reader = Lengths(), RowReader(request.field_mapping)
    count = len(rows.sizes)
    drawn = set(random.Random(request.seed).sample(range(count), min(count, _MEASURED)))
    answering = set(nlargest(_MEASURED, range(count), key=rows.answer_sizes.__getitem__))
    answer, found = 0, []
    with copy.open(encoding="utf-8") as file:
        chosen = ((row, line) for row, line in enumerate(file) if row in drawn or row in answering)
        for some in iter(lambda: list(islice(chosen, _AT_ONCE)), []):
            read = [(row, line, json.loads(reader.read(line)[0])) for row, line in some]
            answers = [_shown(it[-1]) for row, _, it in read if row in answering and _has_answer(it)]
            answer = max([answer, *lengths.of_answers([it["content"] for it in answers])])
            found += lengths.of_rows([list(map(_shown, it)) for row, _, it in read if row in drawn and it])
            found += lengths.of_texts(
                [line[:_LONGEST_TEXT] for row, line, it in read if row in drawn and not it]
            )
    return answer, sorted(found)[len(found) * 99 // 100]


def _shown(message: Mapping[str, Any]) -> dict[str, str]:
    return {"role": str(message.get("role")), "content": _text(message.get("content"))[:_LONGEST_TEXT]}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _reason(error: BadInput | ValueError) -> BadInput:
    if isinstance(error, BadInput):
        return error
    if isinstance(error, UnicodeError):
        return BadInput("it holds half of a surrogate pair, which is not Unicode", code="bad-row")
    message, hint = (*error.args, None)[:2]
    return BadInput(str(message), hint=hint, code="bad-row")


def _named_here(refused: BadInput) -> BadInput:
    """Without a manifest, fields of other names are said by an option."""
    refused.hint = "\n".join(dict.fromkeys(map(_as_option, (refused.hint or "").splitlines())))
    return refused


def _as_option(hint: str) -> str:
    if "its fields are" in hint:
        return hint.replace("correct field_mapping", "name one of them with --map")
    if "on_bad_row" in hint:
        return "Complete these rows, or take them out of the file."
    if "field_mapping" in hint:
        return "Say which fields hold question and answer: --map prompt=FIELD --map completion=FIELD."
    return hint.replace(", in the expert's folder", "")


def _source(path: Path) -> Source:
    name = path.name
    for ending in _PACKED:
        name = name[: -len(ending)] if name.lower().endswith(ending) else name
    # What an archive holds shows when it is open.
    kind = "jsonl" if name.lower().endswith(_ARCHIVE) else format_of(name)
    if not path.exists():
        raise BadInput(f"{path} is not there", hint="Check the path.", code="data-missing")
    if path.is_dir():
        raise BadInput(
            f"{path} is a folder", hint="Name its files, one after the other.", code="data-missing"
        )
    if kind is None:
        raise BadInput(
            f"The ending of {path.name} does not say its format",
            hint="Name it .jsonl, .json, .csv, .tsv, .parquet or .arrow, also with .gz, .zst or .zip behind.",
            code="no-format",
        )
    return Source.model_validate({"name": str(path), "format": kind, "weight": 1.0})


def _wanted(asked: float | None, count: int, option: str) -> int:
    if asked is None:
        return min(_MOST, max(1, round(count * _SHARE)))
    rows = round(count * asked) if asked < 1 else int(asked)
    if asked > 0 and rows == 0:
        raise BadInput(
            f"{option} {asked:g} of {count} rows is none", hint="Choose a larger share.", code="few-rows"
        )
    return rows


def _compared(request: Request, parts: Sequence[Path]) -> Duplicates:
    # As `RowReader` reads them: of a row that is refused here alone, copies would not be found.
    recipe = renderer(_NO_TEMPLATE, {}, request.field_mapping, parse_dialogue=True, train_on="completions")
    try:
        found = compare(
            recipe, [[(part.name, str(part))] for part in parts], available_cores(), lambda *_: True
        )
    except NativeError as error:
        raise BadInput(f"The rows cannot be compared: {error.args[1]}", code="data-damaged") from None
    for part in range(len(parts)):
        problems, total = found.problems(part)
        if total:
            raise _named_here(bad_rows(problems, total))
    return found


def _write(rows: Path, files: Sequence[Path], parts: Sequence[int]) -> list[list[int]]:
    """The rows of each part in their order; of each file the numbers of its rows."""
    numbers: list[list[int]] = [[] for _ in files]
    outs = [file.open("wb") for file in files]
    try:
        with rows.open("rb") as lines:
            for row, (part, line) in enumerate(zip(parts, lines, strict=True)):
                outs[part].write(line)
                numbers[part].append(row)
    finally:
        for out in outs:
            out.close()
    return numbers


def _refuse_empty(request: Request, parts: Sequence[int], wanted: tuple[int, int]) -> None:
    for part, name in enumerate(SPLITS):
        if part in parts or (part != TRAIN and wanted[part - 1] == 0):
            continue
        because = (
            f"too many rows have the same {request.by}"
            if request.by
            else "too many rows are copies of others"
        )
        raise BadInput(
            f"No rows are left for {name}: {because}, and such rows stay together",
            hint="Bring more rows that differ, or divide them by hand.",
            code="few-rows",
        )


def _placed(request: Request, files: Sequence[Path], parts: Sequence[int]) -> Iterator[Path]:
    """Where the files with rows are once all are written."""
    for part, file in enumerate(files):
        if part in parts:
            place = request.output / file.name
            file.rename(place)
            yield place
