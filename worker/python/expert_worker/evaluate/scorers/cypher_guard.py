"""What Cypher may say here: questions only. Judged by its words, before the engine sees any of it.

The engine reads and writes files by itself (LOAD FROM, COPY, EXPORT, IMPORT, INSTALL, ATTACH), and a query
can switch off its own time limit (CALL). Where this reader of Cypher and the engine might disagree on what a
string is (escapes, comments, quoted names), the answer is refused rather than understood.
"""

from __future__ import annotations

import re

STARTS = ("MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN")
FORBIDDEN = frozenset(
    """
    ADD ALTER ANALYZE ATTACH BEGIN CALL CHECKPOINT COMMENT COMMIT
    COPY CREATE DATABASE DELETE DETACH DROP EXPLAIN EXPORT EXTENSION
    FORCE FOREACH FROM GLOB GRAPH HEADERS IMPORT INSERT INSTALL
    LOAD MACRO MERGE PROFILE PROJECT REMOVE RENAME ROLLBACK SEQUENCE
    SET TABLE TO TRANSACTION TYPE UNINSTALL UPDATE USE
    """.split()  # noqa: SIM905
)
MAX_LENGTH = 4_000
UNCLOSED = "a string without an end"
_PIECE = re.compile(r"'[^']*'|\"[^\"]*\"|[^\W\d]\w*|//|/\*|\*/|--(?![>\[(-])|.", re.DOTALL)


def refusal(statement: str) -> str | None:
    """Why the statement may not reach the engine; None where it may."""
    if len(statement) > MAX_LENGTH:
        return f"{len(statement)} characters are too long for a query"
    if not re.sub(r"[\n\t]", " ", statement).isprintable():
        return "control characters are not allowed in a query"
    for sign in ("\\", "`", ";", "$"):
        if sign in statement:
            return f"{sign} is not allowed in a query"
    return _refused_piece([found.group() for found in _PIECE.finditer(statement)])


def _refused_piece(pieces: list[str]) -> str | None:
    if not pieces or pieces[0].upper() not in STARTS:
        return f"a question starts with one of {', '.join(STARTS)}"
    for place, piece in enumerate(pieces):
        if piece in {"'", '"'}:
            return UNCLOSED
        if piece in {"//", "/*", "*/"}:
            return "comments are not allowed in a query"
        if piece.upper() in FORBIDDEN and not (_is_property(pieces, place) or _is_label(pieces, place)):
            return f"{piece.upper()} is not allowed in a query"
    return None


def _is_property(pieces: list[str], place: int) -> bool:
    """`p.type`: a name, a dot and the word, with nothing between them."""
    return (
        place >= 2 and pieces[place - 1] == "." and re.fullmatch(r"[^\W\d]\w*", pieces[place - 2]) is not None
    )


def _is_label(pieces: list[str], place: int) -> bool:
    """`(p:Project)`, `[:TO]`, `[:FROM|TO]`: what no statement can begin with."""
    following = next((piece for piece in pieces[place + 1 :] if piece != " "), "")
    return (
        place >= 2
        and pieces[place - 1] in (":", "|")
        and re.fullmatch(r"[(\[]|[^\W\d]\w*", pieces[place - 2]) is not None
        and following in (")", "]", "{", "|", "*")
    )
