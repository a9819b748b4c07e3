"""Values as people type them: `italian` may be 'Italian' in the table, which a reader of the question cannot know.

So a value that is typed in small letters is compared with LIKE, which ignores case in SQLite and takes the value
letter by letter; one with a capital is compared with `=`.
"""

from __future__ import annotations

import re

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed

from .question import Question

# How many of the questions in small letters have the values in them in small letters, too.
SMALL_NAMES = 0.3
COMPARED = re.compile(r"(?P<sign>=|<>|!=) '(?P<value>(?:[^']|'')*)'")
WILDCARD = re.compile(r"[%_]")


def typed(question: Question, draw: Draw, *, small: float) -> tuple[str, str]:
    """A question as somebody types it, so many of them in small letters, and its answer."""
    text = as_typed(question.text, draw, question.keep, small=small, small_names=SMALL_NAMES)
    return text, compared_as_typed(question.sql, text)


def compared_as_typed(sql: str, question: str) -> str:
    """The query with LIKE for the values that the question has in small letters."""

    def compared(found: re.Match[str]) -> str:
        value = found["value"].lower()
        word = value.replace("''", "'")
        if WILDCARD.search(word) or not re.search("[a-z]", word):
            return found[0]
        if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", question):
            return found[0]
        return f"{'LIKE' if found['sign'] == '=' else 'NOT LIKE'} '{value}'"

    return COMPARED.sub(compared, sql)
