"""The words of SQL text, whatever its dialect, without comments.

A statement ends at `;`, at a line of `GO` (SQL Server) or `/` (Oracle), and where the next one creates or
alters a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from expert_worker.errors import BadInput

QUOTED = r"'[^']*(?:''[^']*)*'"
MYSQL_QUOTED = r"'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'"
_PARTS = r"""
(?P<space>\s+)
|(?P<comment>--[^\n]*|{hash}[^\n]*|/\*.*?\*/)
|(?P<body>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
|(?P<text>[EeNn]?{text})
|(?P<name>"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`|\[[^\W\d][^\]\n]{{0,200}}\])
|(?P<word>[^\W\d][\w$]*)
|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)
|(?P<mark>.)
"""
_STANDARD = re.compile(_PARTS.format(text=QUOTED, hash=r"(?<![^\n])\#"), re.S | re.X)
_MYSQL = re.compile(_PARTS.format(text=MYSQL_QUOTED, hash=r"\#"), re.S | re.X)
# In the text without quoted texts and comments. Three backticks are a fence of Markdown.
_IS_MYSQL = re.compile(
    r"(?<!`)`[^`\n]+`(?!`)|\bAUTO_INCREMENT\b|\bENGINE\s*=|\bCOMMENT(?:\s+|\s*=\s*)'", re.I
)
# `id INT, # its number`, but not `DROP TABLE #a, #b` of SQL Server.
_COMMENT = re.compile(r"[,(][ \t]*\#")
_TEMPORARY = re.compile(r"\b(?:TABLE|FROM|INTO|JOIN|UPDATE)\s+\#\w", re.I)
_ASIDE = re.compile(
    rf"(?P<text>{QUOTED})|\"[^\"]*\"|--[^\n]*|/\*.*?(?:\*/|\Z)|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)",
    re.S,
)
# In SQL Server's brackets a name may begin with any character. Behind other words they hold an index.
_BRACKETED = re.compile(r"(?P<name>\[[^\]\n]{1,200}\])")
_BEFORE_NAMES_TEXT = """
TABLE REFERENCES ADD COLUMN EXISTS ONLY CONSTRAINT KEY INDEX ON AND OR NOT CHECK BETWEEN
"""
_BEFORE_NAMES = frozenset(_BEFORE_NAMES_TEXT.split())
# Rows of a PostgreSQL dump, commands of psql, and MySQL's change of the mark that ends a statement.
_COPY = re.compile(r"^COPY\s[^;]*;\n.*?^\\\.$", re.S | re.M | re.I)
_COMMAND = re.compile(r"^(?:\\[a-z!].*|DELIMITER\s.*)$", re.M | re.I)
_END = re.compile(r"^[ \t]*(?:GO(?:[ \t]+\d+)?|/)[ \t]*$", re.M | re.I)
HAVE_BODIES = ("TRIGGER", "FUNCTION", "PROCEDURE", "PROC", "EVENT")


@dataclass(frozen=True)
class Token:
    """`text` is a name without its quotes, or the value of a quoted text."""

    kind: str
    text: str
    line: int

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
    source = _END.sub(";", _COMMAND.sub("", source))
    pattern = _MYSQL if is_mysql(source) else _STANDARD
    found: list[Token] = []
    depth = 0
    for token in _tokens(source, pattern):
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


def _tokens(source: str, pattern: re.Pattern[str]) -> Iterator[Token]:
    line, place = 1, 0
    before: Token | None = None
    while match := _next(source, place, pattern, before):
        kind, text, place = str(match.lastgroup), match[0], match.end()
        if kind == "mark" and (text in "'\"`" or source.startswith("/*", match.start())):
            what = "a comment" if text == "/" else "a quoted text or name"
            raise BadInput(
                f"line {line}: {what} has no end", code="bad-ddl", hint="Add the mark that closes it."
            )
        if kind not in ("space", "comment"):
            before = Token(kind, _value(kind, text), line)
            yield before
        line += text.count("\n")


def _next(source: str, place: int, pattern: re.Pattern[str], before: Token | None) -> re.Match[str] | None:
    if source.startswith("[", place) and (before is None or _is_before_name(before)):
        return _BRACKETED.match(source, place) or pattern.match(source, place)
    return pattern.match(source, place)


def _is_before_name(word: Token) -> bool:
    return word.text not in (")", "[", "]") if word.kind == "mark" else word.says(*_BEFORE_NAMES)


def _value(kind: str, text: str) -> str:
    if kind == "text":
        text = text[text.index("'") + 1 : -1]
        return text.replace("''", "'")
    if kind == "name":
        mark = text[-1]
        return text[1:-1] if mark == "]" else text[1:-1].replace(mark * 2, mark)
    return text
