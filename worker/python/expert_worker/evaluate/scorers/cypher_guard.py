"""What Cypher may say here: questions only. Judged by its words, before the engine sees any of it.

The engine reads and writes files by itself (LOAD FROM, COPY, EXPORT, IMPORT, INSTALL, ATTACH), and a query
can change the engine's settings (CALL). Those words are a label or a property at most; the others, which the
read-only transaction stops as well, may be any name where no clause can begin. Where this reader of Cypher
and the engine might disagree on what a string is (escapes, comments, quoted names), the answer is refused
rather than understood.
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
# What a read-only transaction does not stop.
NEVER_A_VARIABLE = frozenset(
    {"ATTACH", "CALL", "COPY", "EXPORT", "GLOB", "IMPORT", "INSTALL", "LOAD", "UNINSTALL"}
)
# After these an expression or a pattern must follow, never a clause.
_BEFORE_A_NAME = frozenset(
    """
    ( [ { , : | = < > + - / %
    AND AS BY CASE CONTAINS DISTINCT ELSE IN NOT OR RETURN THEN UNWIND WHEN WHERE WITH XOR
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
        if piece.upper() in FORBIDDEN and not _is_name(pieces, place):
            return f"{piece.upper()} is not allowed in a query"
    return None


def _is_name(pieces: list[str], place: int) -> bool:
    return _is_property(pieces, place) or _is_label(pieces, place) or _is_variable(pieces, place)


def _is_variable(pieces: list[str], place: int) -> bool:
    """`(project:Project)`, `AS type`, `{type: 1}`, `count(comment)`.

    After a keyword that is a name itself (`AS with`, `p.in`) a clause may begin.
    """
    before = (piece for piece in reversed(pieces[:place]) if not piece.isspace())
    last, last_but_one = next(before, ""), next(before, "")
    is_name = last.isalpha() and last_but_one.upper() in {"AS", ".", ":", "|"}
    return pieces[place].upper() not in NEVER_A_VARIABLE and last.upper() in _BEFORE_A_NAME and not is_name


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
