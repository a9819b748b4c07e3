"""Queries without their names and values, to hold those of one form in one split."""

from __future__ import annotations

import re

from expert_worker.evaluate.authoring.split import renamed

_KEYWORDS_TEXT = """
select from where group by having order limit join left on as and or not in is null like between
distinct case when then else end exists union intersect except with over partition asc desc count sum
avg min max coalesce strftime julianday rank row_number lag
"""
KEYWORDS = frozenset(_KEYWORDS_TEXT.split())
TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|\d+(?:\.\d+)?|[A-Za-z_]\w*|[^\s\w]""")

WHOLE = re.compile(r"(?P<no>NOT )?LIKE (?P<value>'(?:[^'%_]|'')*')")


def skeleton(sql: str) -> str:
    """The statement with literals blanked and identifiers renamed by order: two answers that share it differ in names only.
    A value compared with LIKE, without its wildcards, is one compared with `=`."""
    tokens = TOKEN.findall(WHOLE.sub(lambda found: f"{'<>' if found['no'] else '='} {found['value']}", sql))
    names = renamed([token for token in tokens if _is_name(token)])
    return " ".join(names.get(token) or _blanked(token) for token in tokens)


def _is_name(token: str) -> bool:
    return token[0] == '"' or ((token[0].isalpha() or token[0] == "_") and token.lower() not in KEYWORDS)


def _blanked(token: str) -> str:
    if token[0] == "'":
        return "'?'"
    return "0" if token[0].isdigit() else token.upper()
