"""The words and signs of a Cypher query, with the brackets around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|'[^']*'?|\"[^\"]*\"?|`[^`]*`?"
    r"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[^\W\d]\w*|\S",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d]\w*")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())
CLAUSES = frozenset({"MATCH", "OPTIONAL", "WHERE", "WITH", "RETURN", "UNWIND", "UNION"})
# Words of the language that stand where a variable could.
KEYWORDS = CLAUSES | frozenset(
    """
    ALL AND AS ASC ASCENDING BY CASE CONTAINS DESC DESCENDING DISTINCT ELSE END ENDS EXISTS FALSE IN IS LIMIT
    NOT NULL OR ORDER SKIP STARTS THEN TRUE WHEN XOR
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Token:
    text: str
    start: int
    end: int
    # How many brackets of any kind are open around it; a bracket itself is outside.
    depth: int

    @property
    def upper(self) -> str:
        return self.text.upper()

    @property
    def is_word(self) -> bool:
        return _WORD.fullmatch(self.text) is not None


@dataclass(frozen=True)
class Edit:
    """A new text for a part of a query; of two at one place the lower rank comes first."""

    start: int
    end: int
    text: str
    rank: int = 0


class Query:
    """A query as tokens. White space and comments are left out; a string or a quoted name is one token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        # The place of the bracket that closes each one, and of the one that is open around each token.
        self.closing: dict[int, int] = {}
        self.around: list[int | None] = []
        opened: list[int] = []
        for found in _TOKEN.finditer(text):
            if found["comment"] is not None:
                continue
            place, sign = len(self.tokens), found[0]
            if sign in _CLOSING and opened and _OPENING[self.tokens[opened[-1]].text] == sign:
                self.closing[opened.pop()] = place
            self.tokens.append(Token(sign, found.start(), found.end(), len(opened)))
            self.around.append(opened[-1] if opened else None)
            if sign in _OPENING:
                opened.append(place)

    def __len__(self) -> int:
        return len(self.tokens)

    def sign(self, place: int | None) -> str:
        """Empty beside the query."""
        return self.tokens[place].text if place is not None and 0 <= place < len(self.tokens) else ""

    def text_of(self, start: int, end: int) -> str:
        """From one token to the one before another."""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    def word(self, place: int) -> str:
        """In capitals."""
        return self.sign(place).upper()

    def is_word(self, place: int) -> bool:
        return 0 <= place < len(self.tokens) and self.tokens[place].is_word

    def is_clause(self, place: int) -> bool:
        """Whether a clause begins with this word: not `p.with`, `(:Match)`, `AS union` or `STARTS WITH`."""
        return (
            self.word(place) in CLAUSES
            and self.word(place - 1) not in {".", ":", "|", "AS", "STARTS", "ENDS"}
            and not (self.sign(self.around[place]) == "{" and self.sign(place + 1) == ":")
        )

    def clause_end(self, place: int, depth: int) -> int:
        """The place of the next clause at that depth, of the bracket that closes it, or behind the query."""
        for other in range(place, len(self.tokens)):
            token = self.tokens[other]
            if token.depth < depth or (token.depth == depth and self.is_clause(other)):
                return other
        return len(self.tokens)

    def edited(self, edits: Sequence[Edit]) -> str:
        parts, end = [], 0
        for edit in sorted(edits, key=lambda it: (it.start, it.rank)):
            parts += [self.text[end : edit.start], edit.text]
            end = edit.end
        return "".join([*parts, self.text[end:]])


def unused_names(query: Query, name: str, count: int) -> list[str]:
    """`name` with numbers that no word of the query has, in any case."""
    used = {token.text.casefold() for token in query.tokens}
    numbered = (f"{name}_{number}" for number in range(1, len(used) + count + 1))
    return [it for it in numbered if it.casefold() not in used][:count]
