"""Names of the tables and columns that a prompt's CREATE TABLE statements define.

`schema_rows.ddl` reads whole files and refuses what it cannot use; here whatever can be read is enough, and
the rest of the prompt is a question in any language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from expert_worker.schema_rows.ddl import begins_constraint

_TOKENS = re.compile(
    r"""
    (?P<space>\s+ | --[^\n]* | /\*.*?\*/)
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]\n]*\])
    |(?P<word>[^\W\d][\w$]*)
    |(?P<mark>.)
    """,
    re.S | re.X,
)
_CREATE = re.compile(r"\bCREATE\s+(?:TEMP(?:ORARY)?\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?", re.I)


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
    """Of the last group of statements: examples before it have other schemas."""
    group: list[NamedTable] = []
    end = 0
    for found in _CREATE.finditer(prompt):
        if found.start() < end:
            continue
        table, after = _table(prompt, found.end())
        if table is None:
            continue
        if group and _is_other_text(prompt[end : found.start()]):
            group = []
        group.append(table)
        end = after
    return group


def _is_other_text(between: str) -> bool:
    """Comments and line ends may stand between the statements of one schema."""
    return bool(re.sub(r"--[^\n]*|/\*.*?\*/|[;\s]", "", between, flags=re.S))


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    end: int


def _table(prompt: str, start: int) -> tuple[NamedTable | None, int]:
    tokens = _words(prompt, start)
    name = None
    for token in tokens:
        if token.kind in ("word", "name"):
            name = _name(token)
        elif token.text == "(":
            break
        elif token.text != ".":
            return None, start
    parts, end = _parts(tokens)
    heads = [part[0] for part in parts if part and not _is_constraint(part)]
    columns = tuple(_name(head) for head in heads if head.kind in ("word", "name"))
    if name is None or not columns:
        return None, start
    return NamedTable(name, columns, tuple(_references(parts))), end


def _words(prompt: str, start: int) -> Iterator[_Token]:
    for found in _TOKENS.finditer(prompt, start):
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
    mark = token.text[-1]
    inner = token.text[1:-1]
    text = inner if mark == "]" else inner.replace(mark * 2, mark)
    quoted = text.replace('"', '""')
    plain = (text,) if re.fullmatch(r"[A-Za-z_]\w*", text) else ()
    return Name(text, (*plain, f'"{quoted}"', token.text))
