"""The clauses of statements that create or alter a table, for the reader of whole files and that of prompts.

Nothing here refuses: what cannot be read is None or empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from .tokens import Token

_KINDS = {
    "int": "INT INTEGER BIGINT SMALLINT TINYINT MEDIUMINT INT2 INT4 INT8 SERIAL BIGSERIAL SMALLSERIAL",
    "bool": "BOOL BOOLEAN BIT",
    "year": "YEAR",
    "real": "REAL FLOAT DOUBLE NUMERIC DECIMAL NUMBER MONEY SMALLMONEY DEC FLOAT4 FLOAT8",
    "date": "DATE",
    "datetime": "DATETIME TIMESTAMP TIMESTAMPTZ DATETIME2 SMALLDATETIME DATETIMEOFFSET",
    "text": "CHAR VARCHAR TEXT CHARACTER NVARCHAR NCHAR CLOB STRING CITEXT TINYTEXT MEDIUMTEXT LONGTEXT ENUM "
    "VARCHAR2 NVARCHAR2 BPCHAR NATIVE VARYING NTEXT SYSNAME",
}
KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_CONSTRAINTS_TEXT = """
PRIMARY FOREIGN UNIQUE CHECK CONSTRAINT EXCLUDE LIKE FULLTEXT SPATIAL
"""
_CONSTRAINTS = frozenset(_CONSTRAINTS_TEXT.split())
# SQL Server's types of columns that hold no value that a question can name.
_FURTHER_TYPES_TEXT = """
BINARY GEOGRAPHY GEOMETRY HIERARCHYID IMAGE JSON ROWVERSION SQL_VARIANT TIME UNIQUEIDENTIFIER VARBINARY XML
"""
_FURTHER_TYPES = frozenset(_FURTHER_TYPES_TEXT.split())
# In the SQL standard, Oracle, MariaDB and DB2.
_TWO_WORDS = (("PERIOD", "FOR"), ("SUPPLEMENTAL", "LOG"), ("SYSTEM", "VERSIONING"), ("PERIOD", "SYSTEM_TIME"))
# Behind the name of an index, where its columns do not follow at once.
_OF_INDEX = ("CLUSTERED", "NONCLUSTERED", "COLUMNSTORE", "HASH", "USING")
# What ALTER TABLE can add beside columns and constraints, and what else it does.
_NOT_COLUMNS = ("DEFAULT", "PARTITION")
_VERBS = ("ALTER", "CHANGE", "DROP", "MODIFY", "RENAME", "SET")
_DEFAULT_SCHEMAS = ("public", "dbo", "main")

Path = tuple[str, ...]


def name_at(words: Sequence[Token], at: int) -> tuple[Sequence[Token], int]:
    """The parts of `sales.orders`, and the place behind it; none where no name stands. SQLite writes some
    names in single quotes, and SQL Server may leave a schema out: `shop..orders`."""
    if at >= len(words) or not (words[at].is_name or words[at].kind == "text"):
        return (), at
    parts = [words[at]]
    at += 1
    while at < len(words) and words[at].text == ".":
        following = at + 2 if at + 1 < len(words) and words[at + 1].text == "." else at + 1
        if following >= len(words) or not words[following].is_name:
            break
        parts.append(words[following])
        at = following + 1
    return parts, at


def path_of(parts: Sequence[Token]) -> Path:
    return tuple(it.text.casefold() for it in parts)


def matching(asked: Path, known: Collection[Path]) -> Path | None:
    """The table that a name means. Where only one of both has a schema or a database they can be the same
    table; of several, a name without a schema means the one in the default schema."""
    if asked in known:
        return asked
    found = [it for it in known if _is_end(it, asked) or _is_end(asked, it)]
    if len(found) > 1:
        found = [it for it in found if len(it) == 1 or it[-2] in _DEFAULT_SCHEMAS]
    return found[0] if len(found) == 1 else None


def _is_end(end: Path, whole: Path) -> bool:
    return whole[-len(end) :] == end


def inside(words: Sequence[Token], opening: int) -> tuple[list[Token], int] | None:
    """What is between this parenthesis and its own end, and the place behind it."""
    depth = 0
    for place in range(opening, len(words)):
        if words[place].kind == "mark":
            depth += {"(": 1, ")": -1}.get(words[place].text, 0)
            if depth == 0:
                return list(words[opening + 1 : place]), place + 1
    return None


def split(words: Sequence[Token]) -> list[list[Token]]:
    """What stands between commas, where something does."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for word in words:
        if word.kind == "mark":
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word.text, 0)
            if word.text == "," and depth == 0:
                parts.append([])
                continue
        parts[-1].append(word)
    return [part for part in parts if part]


def is_constraint(part: Sequence[Token]) -> bool:
    """Whether a part of a table is one, or copies columns: a column may be called `key` or `period`."""
    if part[0].kind != "word":
        return False
    first, following, *behind = [*(word.text.upper() for word in part[:4]), "", "", ""][:4]
    if following in KIND_OF:
        return False
    if first in ("KEY", "INDEX"):
        further = behind[1] if behind[0] == "UNIQUE" else behind[0]
        return "(" in (following, further) or further in _OF_INDEX
    return (first, following) in _TWO_WORDS or (first in _CONSTRAINTS and bool(following))


def copied(part: Sequence[Token]) -> Sequence[Token]:
    """The name of the table whose columns `LIKE orders INCLUDING ALL` copies."""
    return name_at(part, 1)[0] if part[0].says("LIKE") else ()


def parents(words: Sequence[Token]) -> list[Sequence[Token]]:
    """The names in `INHERITS (cities, places)`, behind the table's own columns."""
    at = next((place for place, it in enumerate(words) if it.says("INHERITS")), len(words)) + 1
    found = inside(words, at) if at < len(words) and words[at].text == "(" else None
    return [name for part in split(found[0]) if (name := name_at(part, 0)[0])] if found else []


def added(words: Sequence[Token]) -> Iterator[list[Token] | None]:
    """The columns and constraints that ALTER TABLE adds, from behind the table's name on; None for each
    other thing that it does."""
    at = 0
    while at + 1 < len(words) and words[at].says("WITH") and words[at + 1].says("CHECK", "NOCHECK"):
        at += 2
    is_adding = False
    for part in split(words[at:]):
        if part[0].says("ADD"):
            is_adding = True
            yield from _each(part[1:])
        elif part[0].says("CONSTRAINT", "PRIMARY", "FOREIGN", "CHECK") or (is_adding and _is_typed(part)):
            # SQL Server has one ADD for all of them.
            yield part
        else:
            yield None


def _each(part: list[Token]) -> Iterator[list[Token] | None]:
    """Of `COLUMN IF NOT EXISTS city text`, and in Oracle of `(city text, zip text)`."""
    while part and part[0].says("COLUMN", "IF", "NOT", "EXISTS"):
        part = part[1:]
    listed = inside(part, 0) if part and part[0].text == "(" else None
    for one in split(listed[0]) if listed else [part]:
        is_column = one and one[0].is_name and not one[0].says(*_NOT_COLUMNS)
        yield one if is_column else None


def _is_typed(part: Sequence[Token]) -> bool:
    if len(part) < 2 or not part[0].is_name or part[0].says(*_VERBS):
        return False
    return part[1].kind == "name" or part[1].says(*KIND_OF, *_FURTHER_TYPES)
