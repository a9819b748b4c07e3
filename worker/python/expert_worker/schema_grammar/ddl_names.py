"""Names of the tables and columns that a prompt's CREATE TABLE statements define.

`schema_rows.ddl` reads whole files and refuses what it cannot use; here whatever can be read is enough, and
the rest of the prompt is a question in any language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, islice, takewhile, zip_longest

from expert_worker.schema_rows.ddl import NOT_COLUMNS, begins_constraint
from expert_worker.schema_rows.tokens import MYSQL_QUOTED, QUOTED, is_mysql

# In MySQL `#` begins a comment; in PostgreSQL `#>` and others are operators.
_PARTS = r"""
    (?P<space>\s+ | --[^\n]* | /\*.*?\*/ | (?<![^\n])\#[^\n]* | (?<!\w)\#(?![>\#=-])[^\n]*)
    |(?P<text>{text})
    |(?P<name>"(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]\n]*\])
    |(?P<word>[^\W\d][\w$]*)
    |(?P<mark>.)
    """
_STANDARD = re.compile(_PARTS.format(text=QUOTED), re.S | re.X)
_MYSQL = re.compile(_PARTS.format(text=MYSQL_QUOTED), re.S | re.X)
_CREATE = re.compile(
    r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|FOREIGN|EXTERNAL|VIRTUAL)\s+)*"
    r"TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?",
    re.I,
)
_ALTER = re.compile(
    r"\bALTER\s+TABLE\s+(?:(?:ONLY|IF\s+EXISTS)\s+)*(?P<rest>.*?)(?=;|\n\s*\n|^\s*GO\b|\Z)",
    re.I | re.S | re.M,
)
_BEFORE_COLUMN = ("ADD", "COLUMN", "IF", "NOT", "EXISTS")
# Words and marks from the table's name to its parenthesis.
_MOST_IN_NAME = 10
# Statements of a schema that hold a query, and calls in dumps: none of them answers a question.
_OWN_QUERIES = re.compile(
    r"--[^\n]*|/\*.*?\*/"
    r"|\b(?:CREATE|create)\s[^;\n]{0,120}?\b(?i:TRIGGER|FUNCTION|PROCEDURE)\b.*?\b(?i:END)\b"
    r"|\b(?:CREATE|create)\s[^;\n]{0,120}?\b(?i:TABLE|VIEW|RULE|POLICY)\b[^;]*"
    r"|\b(?i:INSERT\s+INTO)\s+[\w.\"`\[\]]+\s*(?:\([^()]*\)\s*)?(?i:SELECT)\b[^;]*"
    r"|\b(?i:SELECT\s+(?:pg_catalog\.)?set(?:val|_config))\b[^;]*"
    r"|\b(?i:SELECT\s+\*\s+FROM\s+[^\s;]+\s+LIMIT\s+\d+)",
    re.S,
)
# In small letters only at the start of a line or behind `Answer:`, because prose has these words too.
_ANSWER = re.compile(
    r"(?:\bSELECT\b|(?:^|[:>`])[^\w\n]*select\b)[^;]*?\b(?i:FROM)\b"
    r"|(?:^|[:>`])[^\w\n]*(?i:WITH\s+\w+\s+AS\s*\()",
    re.M,
)


@dataclass(frozen=True)
class Name:
    """`written` are the ways in which a query may write it."""

    text: str
    written: tuple[str, ...]


@dataclass(frozen=True)
class NamedTable:
    name: Name
    columns: tuple[Name, ...]
    # Column, table and column that it refers to, as the statement says; without a column the table's first.
    references: tuple[tuple[str, str, str], ...] = ()

    def column(self, text: str) -> Name | None:
        return next((it for it in self.columns if it.text.casefold() == text.casefold()), None)


def tables_of(prompt: str) -> list[NamedTable]:
    """Of the last schema: examples before it have others. A schema ends where a question about it is
    answered, or where a table of it is created again."""
    tables: dict[tuple[str, ...], NamedTable] = {}
    begin = end = 0
    creates = list(_CREATE.finditer(prompt))
    for found, following in zip_longest(creates, creates[1:]):
        if found.start() < end:
            continue
        text = prompt[found.start() : following.start() if following else None]
        patterns = (_MYSQL, _STANDARD) if is_mysql(text) else (_STANDARD, _MYSQL)
        read = _table(prompt, found.end(), patterns[0]) or _table(prompt, found.end(), patterns[1])
        if read is None:
            continue
        name, table, after = read
        if name in tables or _ANSWER.search(_OWN_QUERIES.sub("", prompt[end : found.start()])):
            tables, begin = {}, found.start()
        tables[name], end = table, after
    added = list(_added(prompt[begin:]))
    return [
        _with(table, [part for name, part in added if name == table.name.text.casefold()])
        for table in tables.values()
    ]


def _added(prompt: str) -> Iterator[tuple[str, list[_Token]]]:
    """The table and each part of `ALTER TABLE ONLY t ADD part`: dumps add keys and columns so."""
    for found in _ALTER.finditer(prompt):
        pattern = _MYSQL if is_mysql(found[0]) else _STANDARD
        words = [*_words(found["rest"], 0, pattern), _Token("mark", ")", 0)]
        while len(words) > 2 and words[1].text == ".":
            words = words[2:]
        if words[0].kind not in ("word", "name"):
            continue
        for part in _parts(iter(words[1:]))[0]:
            verbs = [token.text.upper() for token in part[:3]]
            # In SQL Server behind WITH CHECK.
            begin = 2 if verbs[:1] == ["WITH"] else 0
            if verbs[begin : begin + 1] == ["ADD"]:
                rest = dropwhile(lambda it: it.text.upper() in _BEFORE_COLUMN, part[begin:])
                yield _name(words[0]).text.casefold(), list(rest)


def _with(table: NamedTable, parts: list[list[_Token]]) -> NamedTable:
    heads = [part[0] for part in parts if len(part) > 1 and not _is_constraint(part)]
    names = [_name(it) for it in heads if it.kind != "mark" and it.text.upper() not in NOT_COLUMNS]
    return replace(
        table,
        columns=(*table.columns, *(it for it in names if table.column(it.text) is None)),
        references=(*table.references, *_references(parts)),
    )


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    end: int


def _table(
    prompt: str, start: int, pattern: re.Pattern[str]
) -> tuple[tuple[str, ...], NamedTable, int] | None:
    """With its whole name (`auth.users`), and the place behind its last parenthesis."""
    if prompt.startswith("#", start):
        # A temporary table of SQL Server, not a comment.
        return None
    tokens = _words(prompt, start, pattern)
    names = _names_before(tokens)
    parts, end = _parts(tokens)
    heads = [part[0] for part in parts if part and not _is_constraint(part)]
    columns = tuple(_name(head) for head in heads if head.kind != "mark")
    if not names or not columns:
        return None
    full = tuple(name.text.casefold() for name in names)
    return full, NamedTable(names[-1], columns, tuple(_references(parts))), end


def _names_before(tokens: Iterator[_Token]) -> list[Name]:
    """`sales.orders` before the parenthesis, and of a virtual table before USING; empty where something
    else stands there, such as AS SELECT."""
    head = list(takewhile(lambda token: token.text != "(", islice(tokens, _MOST_IN_NAME)))
    if len(head) > 2 and head[-2].text.upper() == "USING":
        head = head[:-2]
    names, dots = head[::2], head[1::2]
    is_name = len(names) > len(dots) and all(it.kind in ("word", "name") for it in names)
    return [_name(it) for it in names] if is_name and all(it.text == "." for it in dots) else []


def _words(prompt: str, start: int, pattern: re.Pattern[str]) -> Iterator[_Token]:
    for found in pattern.finditer(prompt, start):
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found[0], found.end())


def _parts(tokens: Iterator[_Token]) -> tuple[list[list[_Token]], int]:
    """What stands between the commas, up to the parenthesis that closes the table."""
    parts: list[list[_Token]] = [[]]
    depth = 1
    for token in tokens:
        mark = token.text if token.kind == "mark" else ""
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if depth == 0:
            return parts, token.end
        if mark == "," and depth == 1:
            parts.append([])
        else:
            parts[-1].append(token)
    return [], 0


def _is_constraint(part: list[_Token]) -> bool:
    return part[0].kind == "word" and begins_constraint([token.text for token in part[:3]])


def _references(parts: list[list[_Token]]) -> Iterator[tuple[str, str, str]]:
    """`a INT REFERENCES t(b)` and `FOREIGN KEY (a) REFERENCES t(b)`, of one column each."""
    for part in parts:
        words = [token.text.upper() if token.kind == "word" else "" for token in part]
        if "REFERENCES" not in words:
            continue
        at = words.index("REFERENCES")
        while len(part) > at + 2 and part[at + 2].text == ".":
            at += 2
        before = [token for token in part[:at] if token.kind in ("word", "name")]
        after = [_name(token).text for token in part[at + 1 :] if token.kind in ("word", "name")]
        own = (
            before[words.index("KEY") + 1 :][:1]
            if words[0] in ("FOREIGN", "CONSTRAINT") and "KEY" in words
            else before[:1]
        )
        if own and after:
            has_column = len(part) > at + 2 and part[at + 2].text == "("
            yield _name(own[0]).text, after[0], after[1] if has_column and len(after) > 1 else ""


def _name(token: _Token) -> Name:
    if token.kind == "word":
        return Name(token.text, (token.text, f'"{token.text}"'))
    # In single quotes too: SQLite writes the columns of some tables so.
    mark = token.text[-1]
    inner = token.text[1:-1]
    text = inner if mark == "]" else inner.replace(mark * 2, mark)
    quoted = text.replace('"', '""')
    plain = (text,) if re.fullmatch(r"[A-Za-z_]\w*", text) else ()
    own = () if mark == "'" else (token.text,)
    return Name(text, (*plain, f'"{quoted}"', *own))
