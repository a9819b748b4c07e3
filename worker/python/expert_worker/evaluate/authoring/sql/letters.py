"""Values as people type them: `italian` may be 'Italian' in the table, which a reader of the question cannot know.

So a value that is typed in small letters is compared with LIKE, which ignores case in SQLite and takes the value
letter by letter; one with a capital is compared with `=`.
"""

from __future__ import annotations

import re

COMPARED = re.compile(r"(?P<sign>=|<>|!=) '(?P<value>(?:[^']|'')*)'")
WILDCARD = re.compile(r"[%_]")


def compared_as_typed(sql: str, question: str) -> str:
    """The query with LIKE for the values that the question has in small letters."""

    def compared(found: re.Match[str]) -> str:
        typed = found["value"].lower()
        word = typed.replace("''", "'")
        if WILDCARD.search(word) or not re.search("[a-z]", word):
            return found[0]
        if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", question):
            return found[0]
        return f"{'LIKE' if found['sign'] == '=' else 'NOT LIKE'} '{typed}'"

    return COMPARED.sub(compared, sql)
