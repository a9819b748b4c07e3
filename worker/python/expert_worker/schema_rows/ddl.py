"""Reads the CREATE TABLE statements of a file: SQLite's and SQL Server's, and PostgreSQL's and MySQL's dumps.

SQLite refuses the constructs of other dialects, so the statements are read word by word; nothing of the
file is executed. SQLite then executes normalised statements of the same tables, which the rows show.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from expert_worker.errors import BadInput

from .checks import Bounds, Values, read_check
from .clauses import (
    KIND_OF,
    Path,
    added,
    copied,
    inside,
    is_constraint,
    matching,
    name_at,
    parents,
    path_of,
    split,
)
from .tokens import HAVE_BODIES, Token, statements, without_options
from .vocabulary import table_words, words_of

MOST_BYTES = 8 << 20
MOST_TABLES = 200
MOST_COLUMNS = 200
LONGEST_NAME = 64
_ENDS_TYPE_TEXT = """
NOT NULL DEFAULT PRIMARY UNIQUE CHECK REFERENCES COLLATE CONSTRAINT GENERATED AS AUTO_INCREMENT
AUTOINCREMENT COMMENT ON CHARSET IDENTITY KEY STORED VIRTUAL INVISIBLE DEFERRABLE FOREIGN ROWGUIDCOL SPARSE
"""
_ENDS_TYPE = frozenset(_ENDS_TYPE_TEXT.split())
# In options of DB2: `DEFAULT CURRENT TIMESTAMP`, `FOR BIT DATA`.
_BEFORE_TYPES = ("CURRENT", "FOR")
# In Oracle NUMBER(6) has no decimals, and NUMBER alone may have any.
_WHOLE_NUMBER = re.compile(r"NUMBER\((?:\d+(?:,0)?|\*,0)\)")
# Those of UTF-16 are the beginning of UTF-32's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_UNREAD = {
    "UTF-32": "UTF-32",
    "UTF-16LE": "UTF-16 without its byte-order mark",
    "UTF-16BE": "UTF-16 without its byte-order mark",
}
# Behind the name of a full-text or spatial table: further tables in which SQLite keeps its content.
_SHADOWS = (
    "data",
    "idx",
    "content",
    "docsize",
    "config",
    "segments",
    "segdir",
    "stat",
    "node",
    "rowid",
    "parent",
)


@dataclass
class Column:
    name: str
    type: str
    kind: str
    nullable: bool = True
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    # The most characters of a text, where the type says it.
    length: int | None = None


@dataclass
class Table:
    name: str
    columns: list[Column] = field(default_factory=list)
    key: tuple[str, ...] = ()
    # Column -> the table that it refers to.
    links: dict[str, str] = field(default_factory=dict)

    def column(self, name: str) -> Column | None:
        return next((it for it in self.columns if it.name.casefold() == name.casefold()), None)


@dataclass
class Schema:
    tables: list[Table] = field(default_factory=list)
    # What the file has that the rows do not need, and how often.
    ignored: Counter[str] = field(default_factory=Counter)

    def table(self, name: str) -> Table | None:
        return next((it for it in self.tables if it.name.casefold() == name.casefold()), None)


def read_ddl(data: bytes, name: str) -> Schema:
    """The tables of a file's text; `name` is the file's, for messages."""
    if len(data) > MOST_BYTES:
        raise BadInput(
            f"{name} has more than {MOST_BYTES >> 20} MiB; at most that is read",
            code="bad-ddl",
            hint="Write the structure without the rows: pg_dump --schema-only, mysqldump --no-data, "
            "or sqlite3 FILE .schema.",
        )
    text = _decoded(data, name)
    # One kind of line end, for what stands on a line alone: the end of a dump's rows, GO.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        return _Reader().read(text)
    except BadInput as error:
        raise BadInput(f"{name}, {error.message}", hint=error.hint, code=error.code) from None


def _decoded(data: bytes, name: str) -> str:
    encoding = next((it for mark, it in _MARKS if data.startswith(mark)), _without_mark(data))
    if encoding in _UNREAD:
        raise BadInput(
            f"{name} is {_UNREAD[encoding]}, which is not read",
            code="bad-ddl",
            hint=f"Save it as UTF-8, such as by iconv -f {encoding} -t UTF-8 FILE > utf8.sql",
        )
    if b"\0" in data and encoding != "UTF-16":
        raise BadInput(
            f"{name} has NUL bytes: it is not a text file",
            code="bad-ddl",
            hint="Of a database file, write the statements first: sqlite3 FILE .schema > schema.sql",
        )
    try:
        return data.decode("utf-16" if encoding == "UTF-16" else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadInput(
            f"{name}, line {line}: not {encoding}",
            code="bad-ddl",
            hint="Convert the file to UTF-8.",
        ) from None


def _without_mark(data: bytes) -> str:
    """In UTF-16 one of two bytes is zero in most characters of a schema, and the other one almost never."""
    zeros = data[::2].count(0), data[1::2].count(0)
    for high, low, encoding in ((1, 0, "UTF-16LE"), (0, 1, "UTF-16BE")):
        if zeros[high] * 4 > len(data) and zeros[low] * 20 < zeros[high]:
            return encoding
    return "UTF-8"


class _Reader:
    def __init__(self) -> None:
        self.schema = Schema()
        self.types: dict[str, tuple[str, ...]] = {}
        self.domains: dict[str, str] = {}
        # Of domains of texts.
        self.lengths: dict[str, int] = {}
        # Domain -> what its CHECKs say of `VALUE`.
        self.checks: dict[str, list[list[Token]]] = {}
        # Table and column -> the table that it refers to, and its column where the statement names one.
        self.targets: dict[tuple[str, str], tuple[Path, str]] = {}
        # Whole name -> table; and as it is written, with its line.
        self.created: dict[Path, Table] = {}
        self.written: dict[str, tuple[str, int]] = {}
        # The tables that inherit from a table.
        self.heirs: dict[str, list[Table]] = {}
        self.virtual: set[str] = set()
        # Tables that a later statement attaches to others as their partitions.
        self.partitions: set[Path] = set()

    def read(self, text: str) -> Schema:
        pending = [without_options(words) for words in statements(text)]
        self.partitions = {name for words in pending if (name := _attached(words))}
        for words in pending:
            # Tables above it have the domain's columns, too.
            if _checks_domain(words):
                self.add_checks(words, 2)
        place = 0
        while place < len(pending):
            words = pending[place]
            place += 1
            if _is_create(words, *HAVE_BODIES):
                place = _after_body(pending, place, words)
            self.statement(words)
        self.without_shadows()
        if not self.schema.tables:
            raise BadInput(
                "line 1: there is no CREATE TABLE statement with columns",
                code="bad-ddl",
                hint="Name a file of CREATE TABLE statements, such as sqlite3 FILE .schema writes.",
            )
        self.check_links()
        return self.schema

    def statement(self, words: list[Token]) -> None:
        head = [word.text.upper() for word in words[:6] if word.kind == "word"]
        if head[:2] == ["CREATE", "TYPE"] and any(word.says("ENUM") for word in words):
            self.types[_name(words, 2)[0][-1].text.casefold()] = tuple(
                it.text for it in words if it.kind == "text"
            )
        elif head[:2] == ["CREATE", "DOMAIN"] or _is_alias(words, head):
            self.domain(words)
        elif _is_create(words, "TABLE"):
            self.create(words)
        elif _attached(words) or _checks_domain(words):
            # Counted where the partition is created; read before the tables.
            pass
        elif head[:2] == ["ALTER", "TABLE"]:
            self.alter(words)
        else:
            self.schema.ignored[_called(words, head)] += 1

    def domain(self, words: list[Token]) -> None:
        name, at = _name(words, 2)
        if at < len(words) and words[at].says("AS", "FROM"):
            at += 1
        base, behind = name_at(words, at)
        own = name[-1].text.casefold()
        self.domains[own] = base[-1].text if base else "TEXT"
        length = _length(words[behind:]) or self.lengths.get(self.domains[own].casefold())
        if length is not None:
            self.lengths[own] = length
        self.add_checks(words, 2)

    def add_checks(self, words: list[Token], at: int) -> None:
        """Those of a domain, whose name is at `at`."""
        name, at = _name(words, at)
        for place in range(at, len(words) - 1):
            if words[place].says("CHECK") and words[place + 1].text == "(":
                self.checks.setdefault(name[-1].text.casefold(), []).append(_inside(words, place + 1)[0])

    def create(self, words: list[Token]) -> None:
        begin = next(place for place, word in enumerate(words) if word.says("TABLE")) + 1
        if begin < len(words) and words[begin].says("IF"):
            begin += 3
        is_local = begin < len(words) and words[begin].text == "#"
        if is_local or words[1].says("TEMPORARY", "TEMP"):
            self.schema.ignored["CREATE TABLE #" if is_local else "CREATE TEMPORARY TABLE"] += 1
            return
        parts, at = _name(words, begin)
        name, full = parts[-1].text, _joined(words[begin:at])
        if reason := self.unneeded(words, at, parts):
            self.schema.ignored[reason] += 1
            return
        table = Table(_checked(name, words[0].line, "table"))
        self.check_first(words[0], table, full)
        constraints: list[list[Token]] = []
        if words[at].says("LIKE"):
            # MySQL copies the keys, too.
            self.copy(table, words[at:], with_key=True)
        else:
            body, end = _inside(words, at)
            constraints = [part for part in split(body) if self.element(table, part)]
            if table.columns or not _are_checks(constraints):
                self.inherit(table, words[end:], words[0])
        if not table.columns:
            self.schema.ignored["CREATE TABLE without columns"] += 1
            return
        for part in constraints:
            self.constraint(table, part)
        self.schema.tables.append(table)
        self.created[path_of(parts)] = table
        self.written[table.name.casefold()] = full, words[0].line
        if len(self.schema.tables) > MOST_TABLES:
            raise _refused(
                words[0], f"more than {MOST_TABLES} tables", "Keep the tables that questions are asked about."
            )

    def unneeded(self, words: list[Token], at: int, parts: Sequence[Token]) -> str:
        """What the statement is counted as, where it makes no table with columns of the schema. `at` is
        behind the name."""
        name = parts[-1].text.casefold()
        if any(word.says("VIRTUAL") for word in words[:4]):
            self.virtual.add(name)
            return "CREATE VIRTUAL TABLE"
        if name.startswith("sqlite_"):
            return "CREATE TABLE sqlite_*"
        following = words[at] if at < len(words) else None
        is_partition = following and following.says("PARTITION")
        if is_partition or matching(path_of(parts), self.partitions):
            return "partition"
        has_columns = following and (following.text == "(" or following.says("LIKE"))
        return "" if has_columns else "CREATE TABLE without columns"

    def find(self, path: Path) -> Table | None:
        found = matching(path, self.created)
        return self.created[found] if found else None

    def check_first(self, word: Token, table: Table, full: str) -> None:
        earlier, line = self.written.get(table.name.casefold(), ("", 0))
        if not line:
            return
        if earlier.casefold() == full.casefold():
            raise _refused(
                word,
                f"the table {_shown(full)} is created twice, first in line {line}",
                "Remove one of the two statements; of a table that is dropped and created again, the first.",
            )
        raise _refused(
            word,
            f"the tables {_shown(full)} and {_shown(earlier)} (line {line}) have the same name",
            "A query of SQLite names no schema: remove one of the two statements, or rename its table.",
        )

    def without_shadows(self) -> None:
        for table in list(self.schema.tables):
            owner, _, what = table.name.casefold().rpartition("_")
            if owner in self.virtual and what in _SHADOWS:
                self.schema.tables.remove(table)
                self.created = {path: it for path, it in self.created.items() if it is not table}
                self.schema.ignored["CREATE TABLE of a virtual table"] += 1

    def element(self, table: Table, part: list[Token]) -> bool:
        """Adds a column, or answers that this is a constraint of the table."""
        if is_constraint(part):
            if copied(part):
                self.copy(table, part)
            return True
        _check_column(table, part)
        name = _checked(part[0].text, part[0].line, "column")
        if table.column(name):
            raise _refused(
                part[0], f"the table {table.name} has two columns {name}", "Rename one of the two."
            )
        end = 1
        while end < len(part) and not (part[end].kind == "word" and part[end].text.upper() in _ENDS_TYPE):
            if end > 1 and part[end].says("CHARACTER", "GENERATED"):
                break
            end = _inside(part, end)[1] if part[end].text == "(" else end + 1
        column = self.typed(name, part[1:end])
        if end == 1 and end < len(part) and part[end].says("AS"):
            # Computed from others, and of a kind that the statement does not say.
            column.kind = "other"
        _add(table, [column], part[0])
        for body in self.checks.get(_type_name(part[1:end]).casefold(), []):
            of_column = replace(part[0], kind="name")
            self.check(table, [of_column if word.says("VALUE") else word for word in body])
        self.options(table, column, part[end:])
        return False

    def copy(self, table: Table, part: list[Token], *, with_key: bool = False) -> None:
        """`LIKE orders INCLUDING ALL`: the columns of that table."""
        other = self.find(path_of(copied(part)))
        if other is None:
            self.schema.ignored["LIKE of a table that is not above it"] += 1
            return
        _add(table, [replace(it) for it in other.columns if table.column(it.name) is None], part[0])
        options = [it.text.upper() for it, to in pairwise(part) if to.says("ALL", "INDEXES")]
        if with_key or options[-1:] == ["INCLUDING"]:
            table.key = other.key

    def inherit(self, table: Table, words: list[Token], first: Token) -> None:
        """`INHERITS (cities, places)`: the columns of these tables, before its own."""
        own, table.columns = table.columns, []
        declared = {it.name.casefold() for it in own}
        for name in parents(words):
            other = self.find(path_of(name))
            if other is None:
                self.schema.ignored["INHERITS of a table that is not above it"] += 1
                continue
            self.heirs.setdefault(other.name, []).append(table)
            further = [it for it in other.columns if table.column(it.name) is None]
            _add(table, [replace(it) for it in further if it.name.casefold() not in declared], name[0])
        _add(table, own, first)

    def typed(self, name: str, words: list[Token]) -> Column:
        while len(words) > 2 and words[1].text == ".":
            words = words[2:]
        first = next((word.text for word in words if word.is_name), "")
        last = _type_name(words)
        first = self.domains.get(last.casefold(), first)
        values = self.types.get(last.casefold(), ())
        upper = first.upper()
        written = re.sub(r" ?([(),]) ?", r"\1", " ".join(word.text for word in words if word.kind != "text"))
        kind = "text" if values else KIND_OF.get(upper, "text" if not words else "other")
        if upper == "ENUM":
            # In double quotes too, which MySQL takes for texts by default.
            is_text = ("text", "name")
            values = tuple(it.text for it in words if it.kind in is_text and it.written[:1] in "'\"")
        if _WHOLE_NUMBER.fullmatch(written.upper()):
            kind = "int"
        if upper == "TINYINT" and any(word.text == "1" for word in words):
            kind = "bool"
        if upper == "BIT" and any(word.kind == "number" and word.text != "1" for word in words):
            kind = "other"
        if any(word.text == "[" for word in words) or written.endswith("]"):
            kind = "other"
        if upper == "TIMESTAMP" and words[0].kind == "name":
            # SQL Server, which writes types in brackets, calls the version of a row so.
            kind = "other"
        length = _length(words) or self.lengths.get(last.casefold())
        return Column(name, written, kind, values=values, length=length if kind == "text" else None)

    def options(self, table: Table, column: Column, words: list[Token]) -> None:
        place = 0
        while place < len(words):
            word = words[place]
            following = words[place + 1] if place + 1 < len(words) else None
            if word.says("NOT") and following and following.says("NULL"):
                column.nullable = False
            elif word.says("PRIMARY"):
                table.key, column.nullable = (column.name,), False
            elif word.says("REFERENCES") and following:
                self.refer(table, column, words, place + 1)
            elif word.says("CHECK") and following and following.text == "(":
                body, place = _inside(words, place + 1)
                self.check(table, body)
                continue
            place += 1

    def constraint(self, table: Table, part: list[Token]) -> None:
        if part[0].says("CONSTRAINT"):
            has_name = len(part) > 1 and part[1].is_name and not is_constraint(part[1:])
            part = part[2:] if has_name else part[1:]
        if not part:
            return
        opening = next((place for place, word in enumerate(part) if word.text == "("), None)
        if opening is None:
            return
        body, after = _inside(part, opening)
        names = [word.text for word in body if word.is_name and not word.says("ASC", "DESC")]
        if part[0].says("PRIMARY"):
            found = [it.name for name in names if (it := table.column(name))]
            table.key = tuple(found)
            for column in table.columns:
                column.nullable &= column.name not in found
        elif part[0].says("FOREIGN"):
            target = next(
                (place for place in range(after, len(part)) if part[place].says("REFERENCES")), None
            )
            referring = table.column(names[0]) if len(names) == 1 else None
            if target is None or referring is None:
                self.schema.ignored["FOREIGN KEY of several columns"] += 1
            else:
                self.refer(table, referring, part, target + 1)
        elif part[0].says("CHECK"):
            self.check(table, body)

    def refer(self, table: Table, column: Column, words: list[Token], at: int) -> None:
        """`REFERENCES countries(code)`, from the table's name on."""
        name, at = _name(words, at)
        named = ""
        if at < len(words) and words[at].text == "(":
            named = _name(_inside(words, at)[0], 0)[0][-1].text
        table.links[column.name] = name[-1].text
        self.targets[table.name, column.name] = path_of(name), named

    def alter(self, words: list[Token]) -> None:
        """Dumps of PostgreSQL, phpMyAdmin and SQL Server add keys after the tables."""
        at = 2
        while at < len(words) and words[at].says("ONLY", "IF", "EXISTS"):
            at += 1
        name, at = _name(words, at)
        table = self.find(path_of(name))
        if table is None:
            self.schema.ignored["ALTER TABLE"] += 1
            return
        is_whole = True
        for part in added(words[at:]):
            if part and part[0].says("CONSTRAINT", "PRIMARY", "FOREIGN", "CHECK"):
                self.constraint(table, part)
            elif part and not is_constraint(part):
                self.add_column(table, part)
            else:
                is_whole = False
        if not is_whole:
            self.schema.ignored["ALTER TABLE"] += 1

    def add_column(self, table: Table, part: list[Token]) -> None:
        if table.column(part[0].text) is None:
            self.element(table, part)
            for heir in self.heirs.get(table.name, []):
                self.add_column(heir, part)

    def check(self, table: Table, words: list[Token]) -> None:
        """Takes what it says about values, and counts conditions that are not understood."""
        found, is_whole = read_check(words)
        for name, said in found:
            column = table.column(name)
            is_whole &= column is not None and _narrowed(column, said)
        if not is_whole:
            self.schema.ignored["CHECK"] += 1

    def infer_links(self) -> None:
        """Many schemas declare no foreign keys: `film_id` refers to the table whose key has that name."""
        targets: dict[str, list[str]] = {}
        for table in self.schema.tables:
            if len(table.key) == 1:
                stem = table.name.casefold()
                names = {f"{it}{end}" for it in (stem, stem.removesuffix("s")) for end in ("_id", "id")}
                if _says_its_table(table):
                    names.add(table.key[0].casefold())
                for name in names:
                    targets.setdefault(name, []).append(table.name)
        for table in self.schema.tables:
            for column in table.columns:
                found = targets.get(column.name.casefold(), [])
                is_free = column.name not in table.links and table.key != (column.name,)
                if is_free and len(found) == 1 and found[0] != table.name and self.is_alike(column, found[0]):
                    table.links[column.name] = found[0]

    def is_alike(self, column: Column, name: str) -> bool:
        """Whether the column can hold that table's key. SQLite's columns may have no type."""
        table = self.schema.table(name)
        key = table.column(table.key[0]) if table else None
        return (
            key is not None
            and column.kind in ("int", "text")
            and (column.kind == key.kind or not (column.type and key.type))
        )

    def check_links(self) -> None:
        self.infer_links()
        for table in self.schema.tables:
            for name, target in list(table.links.items()):
                path, column = self.targets.get((table.name, name), ((target.casefold(),), ""))
                found = self.find(path)
                key = _key_of(found, column) if found else ""
                if found is None or not key:
                    reason = "REFERENCES to a table without such a key"
                elif column and column.casefold() != key.casefold():
                    reason = "REFERENCES to a column that is not the key"
                else:
                    table.links[name], found.key = found.name, (key,)
                    continue
                del table.links[name]
                self.schema.ignored[reason] += 1


# Without a length they have one character.
_ONE_CHARACTER = ("CHAR", "CHARACTER", "NCHAR")


def _length(words: Sequence[Token]) -> int | None:
    """The 20 of `varchar(20)`, `varchar2(20 CHAR)` and `character varying (20)`; None of `nvarchar(max)`."""
    opening = next((place for place, word in enumerate(words) if not word.is_name), len(words))
    names = [word.text.upper() for word in words[:opening]]
    if names and names[0] in _ONE_CHARACTER and opening == len(words) and not {"VARYING", "LARGE"} & {*names}:
        return 1
    if opening + 1 >= len(words) or words[opening].text != "(" or not words[opening + 1].text.isdigit():
        return None
    return int(words[opening + 1].text) or None


def _type_name(words: Sequence[Token]) -> str:
    """Without the schema of a domain or an enumeration."""
    return next((word.text for word in reversed(words) if word.is_name), "")


def _is_alias(words: Sequence[Token], head: Sequence[str]) -> bool:
    """`CREATE TYPE [dbo].[Name] FROM nvarchar(50)`, which SQL Server has for domains."""
    behind = name_at(words, 2)[1]
    return head[:2] == ["CREATE", "TYPE"] and behind < len(words) and words[behind].says("FROM")


def _add(table: Table, columns: list[Column], word: Token) -> None:
    table.columns += columns
    if len(table.columns) > MOST_COLUMNS:
        raise _refused(
            word,
            f"the table {table.name} has more than {MOST_COLUMNS} columns",
            "Keep the columns that questions are asked about.",
        )


def _check_column(table: Table, part: list[Token]) -> None:
    # SQLite writes the columns of some tables in single quotes.
    if not (part[0].is_name or part[0].kind == "text"):
        shown = _shown(" ".join(it.text for it in part[:4]))
        raise _refused(
            part[0],
            f"the table {table.name} has {shown}, which is neither a column nor a constraint",
            "Quote the column's name as your database does, or remove it from the file.",
        )
    if second := _second_column(part):
        raise _refused(
            second,
            f"in the table {table.name} a comma is missing before {_shown(second.text)}",
            "Add it between the two columns.",
        )


def _second_column(part: list[Token]) -> Token | None:
    """`name` in `id int primary key name text`. The words of a type may be any: `BLOB SUB_TYPE TEXT`."""
    depth = 0
    for place in range(2, len(part) - 1):
        before, word, *following = part[place - 1 : place + 3]
        if word.kind == "mark":
            depth += {"(": 1, ")": -1}.get(word.text, 0)
            continue
        is_behind = before.text == ")" if before.kind == "mark" else place > 2 or _is_type(before)
        if depth == 0 and is_behind and _is_typed_name(word, following):
            return word
    return None


def _is_typed_name(word: Token, following: list[Token]) -> bool:
    if [it.text.upper() for it in following] in (["CHARACTER", "SET"], ["CHAR", "SET"]):
        return False
    is_keyword = word.says(*_ENDS_TYPE, *_BEFORE_TYPES) or (word.kind == "word" and _is_type(word))
    return word.is_name and not is_keyword and _is_type(following[0])


def _is_type(word: Token) -> bool:
    return word.is_name and word.text.upper() in KIND_OF


def _shown(text: str) -> str:
    return repr(text[:LONGEST_NAME])


def _key_of(table: Table, named: str) -> str:
    """Its one key column. Without a declared key it is the one that a reference names, or one called `id`."""
    if table.key:
        return table.key[0] if len(table.key) == 1 else ""
    for name in (named, "id", f"{table.name}_id"):
        if found := table.column(name):
            return found.name
    return ""


def _says_its_table(table: Table) -> bool:
    """Whether the key's name says whose key it is: `film_id`, `order_code`; not `id`, `code` or `version`."""
    key = table.key[0].casefold()
    words = set(words_of(table.key[0]))
    return key != "id" and (key.endswith("id") or bool(words & set(table_words(table.name))))


def _narrowed(column: Column, said: Bounds) -> bool:
    """Sets the values or the range; False where the column cannot have them."""
    if isinstance(said, Values):
        column.values = said.values
        return True
    low = said.low if said.low is not None else column.low
    high = said.high if said.high is not None else column.high
    if low is not None and high is not None and low > high:
        return False
    column.low, column.high = low, high
    return True


def _is_create(words: list[Token], *things: str) -> bool:
    return bool(words) and words[0].says("CREATE") and any(word.says(*things) for word in words[1:5])


def _attached(words: list[Token]) -> Path:
    """`public.orders_2024` of `ALTER TABLE public.orders ATTACH PARTITION public.orders_2024 FOR VALUES`."""
    if not (len(words) > 1 and words[0].says("ALTER") and words[1].says("TABLE")):
        return ()
    for place, (word, following) in enumerate(pairwise(words[:16])):
        if word.says("ATTACH") and following.says("PARTITION"):
            return path_of(_name(words, place + 2)[0])
    return ()


def _are_checks(constraints: list[list[Token]]) -> bool:
    """Whether there is nothing but these: what inherits and adds no more is a partition of a table, as
    PostgreSQL had them before PARTITION OF."""
    return bool(constraints) and all(any(it.says("CHECK") for it in part[:3:2]) for part in constraints)


def _joined(words: list[Token]) -> str:
    return "".join(word.text for word in words)


def _after_body(pending: list[list[Token]], place: int, words: list[Token]) -> int:
    """Behind the END of a trigger's or a procedure's body."""
    if any(word.kind == "body" for word in words) or not any(word.says("BEGIN") for word in words):
        return place
    for end in range(place, len(pending)):
        if pending[end][0].says("END"):
            return end + 1
        is_temporary = any(word.says("TEMPORARY", "TEMP") or word.text == "#" for word in pending[end][1:4])
        if _is_create(pending[end], "TABLE", "TRIGGER") and not is_temporary:
            break
    return place


def _checks_domain(words: Sequence[Token]) -> bool:
    """`ALTER DOMAIN stars ADD CONSTRAINT c CHECK (VALUE > 0) NOT VALID`."""
    is_altered = len(words) > 1 and words[0].says("ALTER") and words[1].says("DOMAIN")
    return is_altered and any(a.says("CHECK") and b.text == "(" for a, b in pairwise(words[2:]))


def _called(words: list[Token], head: Sequence[str]) -> str:
    if not head or not words[0].says(head[0]):
        return "other text"
    kinds = ("INDEX", "VIEW", "TRIGGER", "FUNCTION", "PROCEDURE", "SEQUENCE", "EXTENSION", "SCHEMA")
    if head[0] in ("CREATE", "DROP"):
        found = next((word for word in head if word in kinds), head[1] if len(head) > 1 else "")
        return f"{head[0]} {found}".strip()
    return head[0][:20]


def _name(words: Sequence[Token], at: int) -> tuple[Sequence[Token], int]:
    found, end = name_at(words, at)
    if not found:
        line = words[min(at, len(words) - 1)].line if words else 1
        raise BadInput(f"line {line}: a name is missing", code="bad-ddl", hint="Correct the statement.")
    return found, end


def _inside(words: list[Token], opening: int) -> tuple[list[Token], int]:
    found = inside(words, opening)
    if found is None:
        raise _refused(words[opening], "a parenthesis has no end", "Add the missing `)`.")
    return found


def _checked(name: str, line: int, what: str) -> str:
    if not name.strip() or len(name) > LONGEST_NAME or '"' in name or not name.isprintable():
        raise BadInput(
            f"line {line}: the {what} name {_shown(name)} cannot be used",
            code="bad-ddl",
            hint=f"Names have at most {LONGEST_NAME} printable characters and no double quote.",
        )
    return name


def _refused(word: Token, message: str, hint: str) -> BadInput:
    return BadInput(f"line {word.line}: {message}", code="bad-ddl", hint=hint)
