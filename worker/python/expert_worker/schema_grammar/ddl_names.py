"""Names of the tables and columns that a prompt's CREATE TABLE statements define.

`schema_rows.ddl` reads whole files and refuses what it cannot use; here whatever can be read is enough, and
the rest of the prompt is a question in any language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from expert_worker.schema_rows.clauses import (
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
from expert_worker.schema_rows.tokens import Token, is_mysql, tokens

_CREATE_TEXT = (
    r"\b(?i:CREATE\s+(?:OR\s+REPLACE\s+)?"
    r"(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|FOREIGN|EXTERNAL|TRANSIENT|VIRTUAL)\s+)*"
    r"TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?)"
)
_ALTER_TEXT = r"\b(?i:ALTER\s+TABLE\s+(?:(?:ONLY|IF\s+EXISTS)\s+)*)"
_CREATE = re.compile(_CREATE_TEXT)
_STATEMENT = re.compile(rf"(?P<create>{_CREATE_TEXT})|(?P<alter>{_ALTER_TEXT})")
# Statements in comments, also of tables, and in the bodies of PostgreSQL's functions are not the schema's.
_ASIDE_TEXT = (
    r"--[^\n]*|/\*.*?\*/|\b(?i:AS|DO)\s+\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"
    r"|\b(?i:COMMENT\s+ON\s+(?:TABLE|COLUMN)\s+\S+\s+IS)\s+'[^']*(?:''[^']*)*'"
)
_STATEMENT_OR_ASIDE = re.compile(rf"(?P<aside>{_ASIDE_TEXT})|{_STATEMENT.pattern}", re.S)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
# Words and marks from the table's name to its parenthesis.
_MOST_IN_NAME = 10
# Statements of a schema that hold a query, and calls in dumps: none of them answers a question.
_OWN_QUERIES = re.compile(
    r"--[^\n]*|/\*.*?\*/"
    r"|\b(?:CREATE|create)\s[^;\n]{0,120}?\b(?i:TRIGGER|FUNCTION|PROCEDURE)\b.*?\b(?i:END)\b"
    r"|\b(?:CREATE|create)\s[^;\n]{0,120}?\b(?i:TABLE|VIEW|RULE|POLICY)\b[^;]*"
    r"|\b(?i:IF\s+(?:NOT\s+)?EXISTS\s*\(\s*SELECT)\b[^)]*"
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
    # The whole name, such as `auth`, `users`.
    path: Path
    # Column, table and column that it refers to, as the statement says; without a column the table's first.
    references: tuple[tuple[str, Path, str], ...] = ()

    def column(self, text: str) -> Name | None:
        return next((it for it in self.columns if it.text.casefold() == text.casefold()), None)


@dataclass
class _Created:
    """`columns` are in their order, and other tables stand for all of theirs."""

    name: Name
    columns: list[Name | Path]
    references: list[tuple[str, Path, str]] = field(default_factory=list)

    def add(self, part: list[Token]) -> None:
        if is_constraint(part):
            self.columns += [path_of(name)] if (name := copied(part)) else []
        elif part[0].is_name or part[0].kind == "text":
            self.columns.append(_name(part[0]))
        self.references += _references(part)


def tables_of(prompt: str) -> list[NamedTable]:
    """Of the last schema: examples before it have others. A schema ends where a question about it is
    answered, or where a table of it is created again."""
    # A prompt may have its whole schema in a comment.
    return _tables(prompt, _STATEMENT_OR_ASIDE) or _tables(prompt, _STATEMENT)


def _tables(prompt: str, pattern: re.Pattern[str]) -> list[NamedTable]:
    tables: dict[Path, _Created] = {}
    added_parts: list[tuple[Path, list[Token]]] = []
    place = end = 0
    while found := pattern.search(prompt, place):
        place = found.end()
        if found.lastgroup == "create" and (read := _table(prompt, found)):
            path, table, place = read
            if path in tables or _ANSWER.search(_OWN_QUERIES.sub("", prompt[end : found.start()])):
                tables, added_parts = {}, []
            tables[path], end = table, place
        elif found.lastgroup == "alter":
            words = _altering(prompt, found)
            name, at = name_at(words, 0)
            added_parts += [(path_of(name), part) for part in added(words[at:]) if part and name]
            place = words[-1].end if words else place
    for asked, part in added_parts:
        if known := matching(asked, tables):
            tables[known].add(part)
    return list(_named(tables))


def _named(tables: dict[Path, _Created]) -> Iterator[NamedTable]:
    """With the columns of the tables above that they inherit from or copy."""
    known: dict[Path, dict[str, Name]] = {}
    for path, table in tables.items():
        columns: dict[str, Name] = {}
        for one in table.columns:
            if isinstance(one, Name):
                further: Iterable[Name] = [one]
            else:
                other = matching(one, known)
                further = known[other].values() if other else ()
            for name in further:
                columns.setdefault(name.text.casefold(), name)
        known[path] = columns
        if columns:
            yield NamedTable(table.name, tuple(columns.values()), path, tuple(table.references))


def _table(prompt: str, found: re.Match[str]) -> tuple[Path, _Created, int] | None:
    """With its whole name (`auth.users`), and the place behind its last parenthesis."""
    if prompt.startswith("#", found.end()):
        # A temporary table of SQL Server, not a comment.
        return None
    following = _CREATE.search(prompt, found.end())
    mysql = is_mysql(prompt[found.start() : following.start() if following else None])
    return _created(_creating(prompt, found.end(), mysql=mysql)) or _created(
        _creating(prompt, found.end(), mysql=not mysql)
    )


def _created(words: list[Token]) -> tuple[Path, _Created, int] | None:
    name, at = name_at(words, 0)
    if not name or not name[-1].is_name or at >= len(words):
        return None
    table = _Created(_name(name[-1]), [])
    is_virtual = words[at].says("USING")
    at += 2 if is_virtual else 0
    if words[at:] and words[at].says("LIKE"):
        other, at = name_at(words, at + 1)
        table.columns = [path_of(other)] if other else []
    elif words[at:] and words[at].text == "(" and (columns := inside(words, at)):
        body, at = columns
        for part in split(body):
            # `content='docs'` is an option of a virtual table.
            if not (is_virtual and len(part) > 1 and part[1].text == "="):
                table.add(part)
        if inherited := parents(words[at:]):
            table.columns = [*map(path_of, inherited), *table.columns]
            at = len(words)
    return (path_of(name), table, words[at - 1].end) if table.columns else None


def _creating(prompt: str, start: int, *, mysql: bool) -> list[Token]:
    """The words from the table's name to the parenthesis that closes its columns, and INHERITS (...)."""
    found: list[Token] = []
    depth = opened = 0
    for token in tokens(prompt, start, mysql=mysql):
        mark = token.text if token.kind == "mark" else ""
        if opened and depth == 0:
            inherits = found[-1].says("INHERITS") and mark == "("
            if not inherits and not token.says("INHERITS"):
                break
        elif not opened and (mark == ";" or len(found) == _MOST_IN_NAME):
            break
        if token.says("TABLE") and found and found[-1].says("CREATE"):
            # Nothing closes this one. Each of many such would be read to the prompt's end.
            break
        opened += mark == "("
        depth += {"(": 1, ")": -1}.get(mark, 0)
        found.append(token)
    return found


def _altering(prompt: str, begun: re.Match[str]) -> list[Token]:
    """The words from the table's name to the statement's end, or to a blank line."""
    following = _STATEMENT.search(prompt, begun.end())
    stop = following.start() if following else len(prompt)
    found: list[Token] = []
    behind = begun.end()
    for token in tokens(prompt, begun.end(), mysql=is_mysql(prompt[begun.start() : stop])):
        is_end = (token.kind == "mark" and token.text == ";") or token.end > stop
        if is_end or _BLANK_LINE.search(prompt, behind, token.end - len(token.written)):
            break
        found.append(token)
        behind = token.end
    return found


def _references(part: list[Token]) -> Iterator[tuple[str, Path, str]]:
    """`a INT REFERENCES t(b)` and `FOREIGN KEY (a) REFERENCES t(b)`, of one column each."""
    at = next((place for place, it in enumerate(part) if it.says("REFERENCES")), len(part))
    other, behind = name_at(part, at + 1)
    own = _first_listed(part[:at]) if is_constraint(part) else part[0].text
    if other and own:
        has_column = behind < len(part) and part[behind].text == "("
        yield own, path_of(other), _first_listed(part[behind:]) if has_column else ""


def _first_listed(words: Sequence[Token]) -> str:
    """`a` of `FOREIGN KEY (a)`"""
    opening = next((place for place, it in enumerate(words) if it.text == "("), len(words))
    return next((it.text for it in words[opening:] if it.is_name), "")


def _name(token: Token) -> Name:
    if token.kind == "word":
        return Name(token.text, (token.text, f'"{token.text}"'))
    quoted = token.text.replace('"', '""')
    plain = (token.text,) if re.fullmatch(r"[A-Za-z_]\w*", token.text) else ()
    # In single quotes, as SQLite writes the columns of some tables, it is a text in a query.
    own = () if token.kind == "text" else (token.written,)
    return Name(token.text, (*plain, f'"{quoted}"', *own))
