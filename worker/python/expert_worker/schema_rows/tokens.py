"""The words of SQL text, whatever its dialect, without comments: of a file, or from a place in a prompt.

A statement ends at `;`, at a line of `GO` (SQL Server) or `/` (Oracle), and where the next one creates or
alters a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from expert_worker.errors import BadInput

_QUOTED = r"'[^']*(?:''[^']*)*'"
_BACKSLASHED = r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'"
# PostgreSQL's E'it\'s', and Oracle's q'[it's]' and q'!it's!'. `{end}` is what else ends one.
_OWN_QUOTES = (
    rf"[Ee]{_BACKSLASHED}"
    r"|[Nn]?[Qq]'(?:\[.*?(?:\]'|{end})|\{{.*?(?:\}}'|{end})|\(.*?(?:\)'|{end})|<.*?(?:>'|{end})"
    r"|(?P<delimiter>[^\s\w'\[{{(<]).*?(?:(?P=delimiter)'|{end}))"
)
_PARTS = r"""
(?P<end>^[ \t]*(?:(?i:GO)(?:[ \t]+\d+)?|/)[ \t]*$)
|(?P<space>\s*\n|\s+)
|(?P<comment>--[^\n]*|{hash}[^\n]*|/\*.*?\*/)
|(?P<body>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
|(?P<text>{own}|[Nn]?{quoted})
|(?P<name>"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`|\[[^\W\d][^\]\n]{{0,200}}\])
|(?P<open>['"`]|/\*|[Nn]?[Qq]'[^\s\w'])
|(?P<word>[^\W\d][\w$]*)
|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)
|(?P<mark>.)
"""


def _pattern(quoted: str, comment: str) -> re.Pattern[str]:
    own = _OWN_QUOTES.format(end="(?!)")
    return re.compile(_PARTS.format(own=own, quoted=quoted, hash=comment), re.S | re.X | re.M)


_STANDARD = _pattern(_QUOTED, r"(?<![^\n])\#")
_MYSQL = _pattern(_BACKSLASHED, r"\#")
# In the text without quoted texts and comments. Three backticks are a fence of Markdown.
_IS_MYSQL = re.compile(
    r"(?<!`)`[^`\n]+`(?!`)|\bAUTO_INCREMENT\b|\bENGINE\s*=|\bCOMMENT(?:\s+|\s*=\s*)'", re.I
)
# `id INT, # its number` and `city TEXT # of the client`, but not `DROP TABLE #a, #b` of SQL Server, nor
# PostgreSQL's operator, which stands in parentheses.
_COMMENT = re.compile(r"[,(][ \t]*\#|(?<=[ \t])\#[ \t][^\n()]*(?:\n|\Z)")
_TEMPORARY = re.compile(r"\b(?:TABLE|FROM|INTO|JOIN|UPDATE)\s+\#\w", re.I)
# Lines of Oracle's SQL*Plus, which hold any text.
_REMARK = r"(?P<comment>^(?i:REM(?:ARK)?|PROMPT)(?:[ \t][^\n]*)?$)"
_REMARKED = re.compile(_REMARK, re.M)
_ASIDE = re.compile(
    rf"(?P<text>(?<!\w)(?:{_OWN_QUOTES.format(end=chr(92) + 'Z')})|{_QUOTED})|{_REMARK}|\"[^\"]*\"|--[^\n]*"
    r"|/\*.*?(?:\*/|\Z)|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)",
    re.S | re.M,
)
# In SQL Server's brackets a name may begin with any character. Behind other words they hold an index.
_BRACKETED = re.compile(r"(?P<name>\[[^\]\n]{1,200}\])")
_BEFORE_NAMES_TEXT = """
TABLE REFERENCES ADD COLUMN EXISTS ONLY CONSTRAINT KEY INDEX ON AND OR NOT CHECK BETWEEN
"""
_BEFORE_NAMES = frozenset(_BEFORE_NAMES_TEXT.split())
# Rows of a PostgreSQL dump, commands of psql, and MySQL's change of the mark that ends a statement.
_COPY = re.compile(r"^COPY\s[^;]*;\n.*?^\\\.$", re.S | re.M | re.I)
_COMMAND = re.compile(r"^\\[a-z!].*$", re.M | re.I)
_DELIMITED = re.compile(r"^DELIMITER[ \t]+(\S+)[^\n]*$(.*?)(?=^DELIMITER\s|\Z)", re.M | re.I | re.S)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
HAVE_BODIES = ("TRIGGER", "FUNCTION", "PROCEDURE", "PROC", "EVENT")


@dataclass(frozen=True)
class Token:
    """`text` is a name without its quotes, or the value of a quoted text; `end` is the place behind it. A
    quote or a comment that nothing closes is of the kind `open`."""

    kind: str
    text: str
    line: int
    written: str
    end: int

    def says(self, *words: str) -> bool:
        return self.kind == "word" and self.text.upper() in words

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "name")


def is_mysql(source: str) -> bool:
    """Whether a backslash escapes a quote in its texts, and `#` begins a comment anywhere."""
    plain = _ASIDE.sub(lambda found: "''" if found["text"] else " ", source)
    has_comment = _COMMENT.search(plain) and not _TEMPORARY.search(plain)
    return bool(has_comment or _IS_MYSQL.search(plain))


def statements(source: str) -> Iterator[list[Token]]:
    """Each statement's tokens. Lines end with a line feed alone."""
    copied = [found[0].count("\n") for found in _COPY.finditer(source)]
    source = _COPY.sub(lambda found: "COPY;" + "\n" * found[0].count("\n"), source) if copied else source
    source = _COMMAND.sub("", _DELIMITED.sub(_delimited, source))
    found: list[Token] = []
    depth = 0
    for token in tokens(source, 0, mysql=is_mysql(source)):
        if token.kind == "open":
            what = "a comment" if token.text.startswith("/") else "a quoted text or name"
            raise BadInput(
                f"line {token.line}: {what} has no end", code="bad-ddl", hint="Add the mark that closes it."
            )
        if token.kind == "mark" and token.text == ";":
            if found:
                yield found
            found, depth = [], 0
            continue
        if token.kind == "mark":
            depth = max(0, depth + {"(": 1, ")": -1}.get(token.text, 0))
        begins = _last_verb(found) if depth == 0 and token.says("TABLE") else 0
        if begins:
            yield found[:begins]
            found = found[begins:]
        found.append(token)
    if found:
        yield found


def without_options(words: list[Token]) -> list[Token]:
    """Without what may stand between CREATE and what is created: OR REPLACE, DEFINER = name@host,
    SQL SECURITY INVOKER, ALGORITHM = MERGE."""
    at = 1
    while at < len(words):
        if words[at].says("OR"):
            at += 2
        elif words[at].says("SQL"):
            at += 3
        elif words[at].says("DEFINER", "ALGORITHM"):
            at += 3
            if at < len(words) and words[at].text in ("@", "("):
                at += 2
        else:
            break
    return [*words[:1], *words[at:]] if at > 1 and words[0].says("CREATE") else words


def _last_verb(words: list[Token]) -> int:
    """The place of CREATE or ALTER before TABLE; 0 where no new statement begins."""
    if words and (
        words[0].says("GRANT", "REVOKE", "DENY")
        or any(it.says(*HAVE_BODIES) for it in without_options(words[:16])[1:6])
    ):
        return 0
    places = range(len(words) - 1, max(0, len(words) - 4), -1)
    return next((place for place in places if words[place].says("CREATE", "ALTER")), 0)


def _delimited(found: re.Match[str]) -> str:
    """With `;` where the statements end at another mark."""
    text = found[2]
    if found[1] != ";":
        text = re.sub(rf"{re.escape(found[1])}(?=[ \t]*(?:--.*)?$)", ";", text, flags=re.M)
    return text


def tokens(source: str, start: int, *, mysql: bool) -> Iterator[Token]:
    """One by one, from a place between two words on: behind a statement of a prompt follows other text."""
    pattern = _MYSQL if mysql else _STANDARD
    line, place, depth = 1, start, 0
    before: Token | None = None
    while match := _next(source, place, pattern, before, depth):
        kind, written, place = str(match.lastgroup), match[0], match.end()
        if kind == "end":
            kind, written = "mark", ";"
        if kind == "mark":
            depth = 0 if written == ";" else max(0, depth + {"(": 1, ")": -1}.get(written, 0))
        if kind not in ("space", "comment"):
            before = Token(kind, _value(kind, written, mysql=mysql), line, written, place)
            yield before
        line += match[0].count("\n")


def _next(
    source: str, place: int, pattern: re.Pattern[str], before: Token | None, depth: int
) -> re.Match[str] | None:
    if source.startswith("[", place) and (before is None or _is_before_name(before)):
        return _BRACKETED.match(source, place) or pattern.match(source, place)
    if depth == 0 and source.startswith(("R", "r", "P", "p"), place):
        return _REMARKED.match(source, place) or pattern.match(source, place)
    return pattern.match(source, place)


def _is_before_name(word: Token) -> bool:
    return word.text not in (")", "[", "]") if word.kind == "mark" else word.says(*_BEFORE_NAMES)


def _value(kind: str, written: str, *, mysql: bool) -> str:
    if kind == "text":
        prefix, _, inner = written[:-1].partition("'")
        if prefix.upper().endswith("Q"):
            return inner[1:-1]
        if mysql or prefix in ("E", "e"):
            return re.sub(
                r"\\(.)|''", lambda it: _ESCAPES.get(it[1], it[1]) if it[1] else "'", inner, flags=re.S
            )
        return inner.replace("''", "'")
    if kind == "name":
        mark = written[-1]
        return written[1:-1] if mark == "]" else written[1:-1].replace(mark * 2, mark)
    return written
