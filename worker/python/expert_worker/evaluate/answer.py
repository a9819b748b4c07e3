"""The answer in what a model wrote: without thoughts, fences, labels and prose, by one rule for every model.

Thoughts are removed first. Then the places where the answer may be are tried in one order: the first fenced
block, the whole text, and the text without the prose around it. The same rules read reference answers, so
that each of them is right when a model writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise

LONGEST = 100_000
# Places where an answer may begin after prose.
MOST_STARTS = 20
# Some templates end the prompt with the opening mark: then only the closing one is in the answer, on a line
# before it. Thoughts without an end, which `max_new_tokens` cut, leave no answer.
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)|.*?</think>[ \t\r]*\n", re.DOTALL)
# The fences are lines: three backticks inside a line belong to the code.
_BLOCK = re.compile(
    r"(?:^|\n)[ \t]*(?P<fence>```|~~~)[\w+-]*[ \t]*\n(?P<code>.*?)(?P<end>(?<=\n)[ \t]*(?P=fence)|\Z)",
    re.DOTALL,
)
# The first fence of a text that does not begin with it.
_LONE_FENCE = re.compile(r"\n[ \t]*(?:```|~~~)[ \t\r]*(?:\n|\Z)")
_FENCE = re.compile(r"```|~~~")
# A fence inside a line stands after a space or a sign of prose, never after a quote.
_INLINE = re.compile(r"(?<![^\s:(*>])```[\w+-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_CODE_SPAN = re.compile(r"`([^`]+)`")
_QUOTE_MARK = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
# A line that begins with a capital, has two words or more and ends as a sentence does: no line of code does.
_SENTENCE = r"[*_#]{0,3}[ \t]*+[A-ZÀ-ÞА-Я][^\sA-Z]*+(?:[ \t]++\S++)++(?<=[.!?:])[ \t\r]*(?=\n|\Z)"
_SENTENCE_LINE = re.compile(rf"^[ \t]*{_SENTENCE}(?:[ \t\r]*\n)*", re.MULTILINE)
# What Markdown or a template puts before an answer: emphasis, a heading, an item's number, a tag.
_MARKS = r"(?:[\s*_>#`]|[-+]\s|\d+[.)]\s|<\w+>)*"
_REFERENCE = re.compile(r"\[\s*\d+\s*\]")
_EMPTY_LINE = re.compile(r"\n[ \t\r]*\n")
SETS = frozenset({"UNION", "EXCEPT", "INTERSECT"})


def without_thoughts(text: str) -> str:
    """What a model says after it has thought."""
    text = text.strip()
    thoughts = _THOUGHTS.match(text)
    return text[thoughts.end() :].strip() if thoughts else text


def unfenced(text: str) -> str:
    """The first fenced block, or the whole text where there is none; without backticks around all of it."""
    return bodies(text)[0]


def bodies(text: str) -> tuple[str, ...]:
    """What `unfenced` takes; beside the only fence of a text also what stands on its other side."""
    text = without_thoughts(text)[:LONGEST]
    return _beside_lone_fence(text) or (_first_block(text),)


def _beside_lone_fence(text: str) -> tuple[str, ...]:
    """A fence with text before it that is the only one closes an answer whose opening fence is not there (the
    prompt may end with it), unless it follows prose: then it opens one whose end is not there.
    """
    found = _LONE_FENCE.search(text)
    if found is None or found.start() == 0:
        return ()
    before, behind = text[: found.start()].strip(), text[found.end() :].strip()
    if _FENCE.search(before) or _FENCE.search(behind):
        return ()
    last = before.rpartition("\n")[2]
    opens = last.endswith(":") or (_SENTENCE_LINE.match(last) and not _SENTENCE_LINE.match(behind))
    return (behind, before) if behind and opens else (before, behind)


def _first_block(text: str) -> str:
    block = _BLOCK.search(text)
    if block is not None:
        return block["code"].strip() if block["end"] else _closed(block["code"], block["fence"])
    found = _INLINE.search(text) or _CODE_SPAN.fullmatch(text)
    return (found[1] if found else text).strip()


def is_fenced(text: str) -> bool:
    """Whether the text is one fenced block and nothing else."""
    block = _BLOCK.match(text.strip())
    return block is not None and block.end() == len(text.strip())


def _closed(code: str, fence: str) -> str:
    """Of a block whose closing fence is not a line, if it has one: the code before it."""
    code = code.strip()
    return (code.removesuffix(fence) if code.endswith(fence) else code.partition(fence)[0]).strip()


def amid_prose(text: str) -> Iterator[str]:
    """The text without the sentences before it; then only what stands before its first line of prose, its
    second and so on. Which of them is the answer only a parser knows.
    """
    start = 0
    while found := _SENTENCE_LINE.match(text, start):
        start = found.end()
    yield text[start:].strip()
    for found in islice(_SENTENCE_LINE.finditer(text, start), MOST_STARTS):
        yield text[start : found.start()].strip()


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
    def opening_after_marks(self) -> re.Pattern[str]:
        return re.compile(rf"(?:^|\n|:){_MARKS}{self._beginning}", re.IGNORECASE | re.DOTALL)

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
        # A closing tag, a fence, or a line of prose.
        end = rf"</\w+>|\n[ \t]*(?:{_FENCE.pattern}|{_SENTENCE})"
        return re.compile(
            rf"(?P<skip>{comments}{strings})|(?P<empty>{_EMPTY_LINE.pattern})|(?P<end>{end})|\w+|.", re.DOTALL
        )

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
            if found["end"] is not None:
                sign = ";"
            yield Piece("" if found["empty"] is not None else sign, found.start(), found.end(), depth)
            depth += sign == "("


@dataclass(frozen=True)
class Piece:
    """A word or a sign of a statement; an empty text is an empty line, a semicolon whatever ends it."""

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
    """One statement of a query language: from its first word to what ends it: a semicolon, a closing tag, a
    line of prose or an empty line.

    Empty where no first word stands at the start of a line or after a colon, marks of Markdown aside: prose
    is not an answer. Prose may begin with such a word too ("With this table:"): where `is_prose` says so, a
    later statement counts.
    """
    whole = without_thoughts(text)[:LONGEST]
    first = unfenced(whole)
    # A fence may be part of a string, and `>` an operator. What stands before a fence ends there anyway.
    places = (whole if whole.startswith(first) else first, whole, unfenced(_QUOTE_MARK.sub("", whole)))
    for opening in (language.opening, language.opening_after_marks):
        for body in places:
            found = opening.search(body)
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
    text = body[start:]
    for mark in ("**", "`"):
        if body.endswith(mark, 0, start):
            text = text.partition(mark)[0]
    cut = _until_end(text, language)
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
    """The text itself where it is JSON; else the first balanced {...} or [...] that is, amid prose. With
    another one beside it, both of them, which is not JSON: it is not guessed which is meant.
    """
    found = bodies(text)
    for whole in (without_thoughts(text)[:LONGEST], *found):
        if _is_json(whole):
            return whole
    body = next((it for it in found if "{" in it or "[" in it), found[0])
    starts = [found.start() for found in islice(re.finditer(r"[{\[]", body), MOST_STARTS)]
    if not starts:
        return body
    # Brackets may be prose: "Here is [the] result: {}".
    values = [(start, end) for start, end in _outer(body, starts) if _is_json(body[start:end])]
    # So may one number in brackets.
    values = [(start, end) for start, end in values if not _REFERENCE.fullmatch(body[start:end])] or values
    if not values:
        return body[starts[0] : _closing(body, starts[0])]
    start, end = values[0]
    return body[start : _end_of_other(body, values) or end]


def has_several(answer: str) -> bool:
    """Whether `json_text` found several values, so that there is no single answer."""
    return not _is_json(answer) and _is_json(answer[: _closing(answer, 0)])


def _end_of_other(body: str, values: Sequence[tuple[int, int]]) -> int | None:
    """Of the first value that differs from the one before and stands beside it: in the same line, or in the
    next with no word between. Base models continue with other texts and values, which do not count.
    """
    for (start, end), (other, other_end) in pairwise(values):
        between = body[end:other]
        if _EMPTY_LINE.search(between) or ("\n" in between and re.search(r"\w", between)):
            return None
        if _sorted(body[start:end]) != _sorted(body[other:other_end]):
            return other_end
    return None


def _sorted(value: str) -> str:
    return json.dumps(json.loads(value), sort_keys=True)


def _outer(body: str, starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first of them and those outside what begins before them, each with its end: a part of broken JSON
    is not an answer.
    """
    end = 0
    for start in starts:
        if start >= end:
            end = _closing(body, start)
            yield start, end


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
