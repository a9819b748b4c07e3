"""The answer in what a model wrote: without code fences, labels and prose, by one rule for every model.

The same rules read reference answers, so that each of them is right when a model writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

LONGEST = 100_000
# Places where an answer may begin after prose.
MOST_STARTS = 20
# The fences are lines: three backticks inside a line belong to the code.
_BLOCK = re.compile(r"(?:^|\n)[ \t]*```[\w+-]*[ \t]*\n(.*?)((?<=\n)[ \t]*```|\Z)", re.DOTALL)
# A fence inside a line stands after a space or a sign of prose, never after a quote.
_INLINE = re.compile(r"(?<![^\s:(*>])```[\w+-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_EMPTY_LINE = re.compile(r"\n[ \t\r]*\n")
SETS = frozenset({"UNION", "EXCEPT", "INTERSECT"})


def unfenced(text: str) -> str:
    """The first fenced block, or the whole text where there is none."""
    text = text[:LONGEST]
    block = _BLOCK.search(text)
    if block is not None:
        return block[1].strip() if block[2] else _closed(block[1])
    found = _INLINE.search(text)
    return (found[1] if found else text).strip()


def is_fenced(text: str) -> bool:
    """Whether the text is one fenced block and nothing else."""
    block = _BLOCK.match(text.strip())
    return block is not None and block.end() == len(text.strip())


def _closed(code: str) -> str:
    """Of a block whose closing fence is not a line, if it has one: the code before it."""
    code = code.strip()
    return (code[:-3] if code.endswith("```") else code.partition("```")[0]).strip()


@dataclass(frozen=True)
class Language:
    """What `statement` knows about a query language. Words are in capitals."""

    # Patterns of what a statement begins with.
    starts: tuple[str, ...]
    # The words that begin what is returned.
    returns: frozenset[str]
    # Words that continue a statement after an empty line: before what is returned, and anywhere.
    before: frozenset[str]
    anywhere: frozenset[str]
    has_comments: bool = False

    @cached_property
    def opening(self) -> re.Pattern[str]:
        return re.compile(rf"(?:^|\n|:){self._beginning}", re.IGNORECASE | re.DOTALL)

    @cached_property
    def opening_after_prose(self) -> re.Pattern[str]:
        """After a colon, a line that ends as a sentence does, or an empty line."""
        ends = rf"(?::|[.!?][ \t\r]*\n|{_EMPTY_LINE.pattern})"
        return re.compile(rf"{ends}{self._beginning}", re.IGNORECASE | re.DOTALL)

    @cached_property
    def _beginning(self) -> str:
        comments = r"(?:(?:--[^\n]*\n|/\*.*?\*/)\s*)*" if self.has_comments else ""
        parentheses = r"(?:\(\s*)*" if self.has_comments else ""
        return rf"\s*{comments}({parentheses}(?:{'|'.join(self.starts)}))"

    @cached_property
    def _piece(self) -> re.Pattern[str]:
        comments = r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|" if self.has_comments else ""
        strings = r"'[^']*(?:'|\Z)|\"[^\"]*(?:\"|\Z)|`[^`]*(?:`|\Z)"
        return re.compile(rf"(?P<skip>{comments}{strings})|(?P<empty>{_EMPTY_LINE.pattern})|\w+|.", re.DOTALL)

    def uncommented(self, text: str) -> str:
        """With spaces in the place of its comments."""
        if not self.has_comments:
            return text
        return self._piece.sub(lambda found: " " * len(found[0]) if found["comment"] else found[0], text)

    def pieces(self, text: str) -> Iterator[Piece]:
        """Words and signs outside strings and comments, and empty lines; white space is left out."""
        depth = 0
        for found in self._piece.finditer(text):
            sign = found[0]
            if found["skip"] is not None or (sign.isspace() and found["empty"] is None):
                continue
            depth -= sign == ")"
            yield Piece("" if found["empty"] is not None else sign, found.start(), found.end(), depth)
            depth += sign == "("


@dataclass(frozen=True)
class Piece:
    """A word or a sign of a statement; an empty text is an empty line."""

    text: str
    start: int
    end: int
    # How many parentheses are open around it; a parenthesis itself is outside.
    depth: int

    @property
    def word(self) -> str:
        return self.text.upper()


SQL = Language(
    starts=(r"SELECT\b", r"WITH\b", r"VALUES\s*\("),
    returns=frozenset({"SELECT", "VALUES"}),
    before=frozenset({"SELECT", "VALUES"}),
    anywhere=SETS
    | frozenset(
        """
        FROM WHERE GROUP HAVING ORDER LIMIT OFFSET WINDOW AND OR ON
        JOIN LEFT RIGHT INNER CROSS FULL NATURAL
        """.split()  # noqa: SIM905
    ),
    has_comments=True,
)


def statement(text: str, language: Language, is_prose: Callable[[str], bool] = lambda _: False) -> str:
    """One statement of a query language: from its first word to a semicolon or the empty line that ends it.

    Empty where no first word stands at the start of a line or after a colon: prose is not an answer. Prose
    may begin with such a word too ("With this table:"): where `is_prose` says so, a later statement counts.
    """
    text = text[:LONGEST]
    # A fence may be part of a string.
    for body in (unfenced(text), text):
        found = language.opening.search(body)
        if found is not None:
            first = _from(body, found.start(1), language)
            later = _after_prose(body, found.start(1), language) if is_prose(first) else ()
            return next((it for it in later if not is_prose(it)), first)
    return ""


def _after_prose(body: str, start: int, language: Language) -> Iterator[str]:
    for found in islice(language.opening_after_prose.finditer(body, start), MOST_STARTS):
        # One inside parentheses is a part of the statement before it.
        before = body[start : found.start(1)]
        if before.count("(") <= before.count(")"):
            yield _from(body, found.start(1), language)


def _from(body: str, start: int, language: Language) -> str:
    cut = _until_end(body[start:], language)
    return _without_parentheses(cut, language) if cut.startswith("(") else cut


def _until_end(text: str, language: Language) -> str:
    """Prose may follow after an empty line, and so may the rest of the statement."""
    pieces = list(language.pieces(text))
    returned, last = False, ""
    for place, piece in enumerate(pieces):
        if piece.text == ";":
            return text[: piece.start].strip()
        if not piece.text:
            following = next((other for other in pieces[place + 1 :] if other.text), None)
            if following is None or not (
                piece.depth or last in {",", "("} or _continues(following, language, returned)
            ):
                return text[: piece.start].strip()
            continue
        if not piece.depth:
            returned = (returned or piece.word in language.returns) and piece.word not in SETS
        last = piece.text
    return text.strip()


def _continues(piece: Piece, language: Language, returned: bool) -> bool:
    """`FROM` and `from` do; `From` begins a sentence."""
    if piece.text in {",", ")"}:
        return True
    known = language.anywhere if returned else language.anywhere | language.before
    return piece.word in known and (piece.text.isupper() or piece.text.islower())


def _without_parentheses(text: str, language: Language) -> str:
    """SQLite takes no parentheses around a whole statement."""
    while text.startswith("("):
        closing = next((it for it in language.pieces(text) if it.text == ")" and not it.depth), None)
        if closing is None or text[closing.end :].strip():
            return text
        text = text[1 : closing.start].strip()
    return text


def json_text(text: str) -> str:
    """The text itself where it is JSON; else the first balanced {...} or [...] that is, amid prose."""
    body = unfenced(text)
    for whole in (text[:LONGEST].strip(), body):
        if _is_json(whole):
            return whole
    starts = [found.start() for found in islice(re.finditer(r"[{\[]", body), MOST_STARTS)]
    if not starts:
        return body
    # Brackets may be prose: "Here is [the] result: {}".
    found = (body[start : _closing(body, start)] for start in _outer(body, starts))
    return next(filter(_is_json, found), body[starts[0] : _closing(body, starts[0])])


def _outer(body: str, starts: Sequence[int]) -> Iterator[int]:
    """The first of them and those outside what begins before them: a part of broken JSON is not an answer."""
    end = 0
    for start in starts:
        if start >= end:
            yield start
            end = _closing(body, start)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _closing(body: str, start: int) -> int:
    depth, quoted, escaped = 0, False, False
    for place in range(start, len(body)):
        sign = body[place]
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = sign == "\\", sign != '"'
        elif sign == '"':
            quoted = True
        elif sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
            if depth == 0:
                return place + 1
    return len(body)
