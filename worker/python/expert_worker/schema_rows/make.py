"""Makes the three files of a data set from a schema, and says what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from pathlib import Path

from expert_worker.errors import BadInput, Missing, storage_error
from expert_worker.evaluate.authoring.rows import Messages
from expert_worker.evaluate.authoring.sql.by_hand import by_hand
from expert_worker.evaluate.authoring.write import SPLITS, refuse_existing, write_rows
from expert_worker.evaluate.authoring.written import among

from .answer_grammar import fits
from .copies import without_copies
from .ddl import MOST_BYTES, Schema, read_ddl
from .document import HINT, read_document
from .json_rows import JsonRows
from .payload import read_schema
from .scenes import Database
from .sql_rows import SYSTEM, SqlRows
from .turns import FEWEST, FITS, Row, check_size
from .vocabulary import Synonyms, read_synonyms

MOST_ROWS = 50_000
# Of held-out rows more are made than written, because near copies of training rows are dropped.
SPARE = 1.5
COPIES = "near copies of training rows"
# Of a table that is too wide, a row shows only some of the columns.
IN_PART = "tables shown in part"
# This part of the training rows asks about other tables, in words that no generator has.
WRITTEN = Fraction(1, 3)


@dataclass(frozen=True)
class Request:
    schema: Path
    rows: int
    seed: int
    output: Path
    words: Path | None = None
    # Of a JSON Schema: the definition that is meant, and where to write the schema alone.
    part: str | None = None
    copy: Path | None = None
    # Whether anybody asks how long rows and answers are.
    lengths: bool = False


@dataclass(frozen=True)
class Made:
    rows: dict[str, int]
    files: tuple[str, ...]
    # Tables, or properties.
    parts: int
    ignored: dict[str, int]
    dropped: dict[str, int]
    # What no table has, and columns that no question names.
    unused_words: tuple[str, ...]
    unasked_words: tuple[str, ...] = ()
    # Tables that could be asked about.
    unasked_tables: tuple[str, ...] = ()
    # Whether the copy of the schema can be the grammar of the answers.
    is_grammar: bool = False
    # Those of the longest answer and of the longest row about the schema; 0 where nobody asked or the base is
    # not installed.
    answer_tokens: int = 0
    row_tokens: int = 0


def held_out_rows(rows: int) -> int:
    """A tenth of the training rows, and enough for a score to say something."""
    return min(400, max(40, rows // 10))


def from_ddl(request: Request) -> Made:
    """Rows from CREATE TABLE statements."""
    _check_output(request, "tables.sql")
    schema = read_ddl(read(request.schema), request.schema.name)
    synonyms = read_synonyms(request.words)
    database = Database(schema, synonyms)
    if not database.spoken:
        check_size(0, "training", Counter())
    maker = SqlRows(database, request.seed)
    own = max(FEWEST, request.rows - floor(request.rows * WRITTEN))
    splits = _splits(own, held_out_rows(request.rows), maker.rows, maker.dropped)
    about_it = [row["messages"] for rows in splits.values() for row in rows]
    written = by_hand(SYSTEM, FITS, f"ddl/{request.seed}")
    splits["train"] = list(among(iter(splits["train"]), written, WRITTEN, request.rows))
    statements = "".join(database.statement(table.name) + "\n" for table in schema.tables)
    files = _write(request.output, splits, {request.output / "tables.sql": statements.encode()})
    ignored = schema.ignored + Counter({IN_PART: len(maker.in_part)})
    made = _made(splits, files, len(database.spoken), ignored, maker.dropped, *_unused(synonyms, schema))
    made = replace(made, unasked_tables=tuple(sorted(database.spoken.keys() - maker.asked)))
    return _measured(made, about_it) if request.lengths else made


def from_json_schema(request: Request) -> Made:
    """Rows from the JSON Schema of a payload."""
    _check_output(request)
    name = request.schema.name
    try:
        document = read_document(read(request.schema), name, request.part)
        payload = read_schema(document)
    except RecursionError:
        raise BadInput(f"{name} is nested too deeply", code="bad-schema", hint=HINT) from None
    maker = JsonRows(payload, request.seed)
    splits = _splits(request.rows, held_out_rows(request.rows), maker.rows, maker.dropped)
    files = _write(request.output, splits, {request.copy: document.copy} if request.copy else {})
    made = _made(splits, files, payload.leaves, payload.ignored, maker.dropped, [], [])
    every = [row["messages"] for rows in splits.values() for row in rows]
    if request.lengths:
        made = _measured(made, every)
    if request.copy is None:
        return made
    return replace(made, is_grammar=fits(document.copy, [messages[-1]["content"] for messages in every]))


def _measured(made: Made, rows: list[Messages]) -> Made:
    """With the longest answer and row, in tokens of the base that the preset names."""
    from expert_worker.base.embedded import Lengths

    try:
        lengths = Lengths()
    except Missing:
        return made
    answers = lengths.of_answers([messages[-1]["content"] for messages in rows])
    return replace(made, answer_tokens=max(answers), row_tokens=max(lengths.of_rows(rows)))


def _unused(synonyms: Synonyms, schema: Schema) -> tuple[list[str], list[str]]:
    """The words of what no table has, and of columns that no question names, such as keys."""
    columns = {
        name
        for table in schema.tables
        for it in table.columns
        for name in (it.name, f"{table.name}.{it.name}")
    }
    known = {name.casefold() for name in columns}
    unused = synonyms.unused()
    return [it for it in unused if it not in known], [it for it in unused if it in known]


def _splits(
    count: int, wanted: int, rows: Callable[[str, int], Iterator[Row]], dropped: Counter[str]
) -> dict[str, list[Row]]:
    train = list(rows("train", count))
    check_size(len(train), "training", dropped)
    splits = {"train": train}
    earlier = list(train)
    for split in SPLITS[1:]:
        drawn = list(rows(split, int(wanted * SPARE)))
        left = without_copies(drawn, earlier)
        dropped[COPIES] += len(drawn) - len(left)
        splits[split] = left[:wanted]
        check_size(len(splits[split]), split, dropped)
        earlier += splits[split]
    return splits


def _made(
    splits: dict[str, list[Row]],
    files: tuple[str, ...],
    parts: int,
    ignored: Counter[str],
    dropped: Counter[str],
    unused: list[str],
    unasked: list[str],
) -> Made:
    return Made(
        rows={split: len(rows) for split, rows in splits.items()},
        files=files,
        parts=parts,
        ignored=dict(sorted(ignored.items())),
        dropped={reason: count for reason, count in sorted(dropped.items()) if count},
        unused_words=tuple(unused),
        unasked_words=tuple(unasked),
    )


def read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", hint="Check the path.") from None


def _check_output(request: Request, *others: str) -> None:
    if not 20 <= request.rows <= MOST_ROWS:
        raise BadInput(
            f"{request.rows} rows cannot be made",
            code="bad-rows",
            hint=f"Choose --rows between 20 and {MOST_ROWS:,}.",
        )
    refuse_existing(request.output, *others)


def _write(output: Path, splits: dict[str, list[Row]], others: dict[Path, bytes]) -> tuple[str, ...]:
    written = []
    try:
        for split, rows in splits.items():
            written.append(output / f"{split}.jsonl")
            write_rows(written[-1], rows)
        for path, content in others.items():
            written.append(path)
            path.write_bytes(content)
    except OSError as error:
        for path in written:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        # `init` names the folder by another option than `datasets`.
        raise storage_error(error, "write the rows", elsewhere="") from None
    return tuple(map(str, written))
