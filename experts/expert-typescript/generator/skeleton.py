"""An answer without its names and literals."""

from __future__ import annotations

import re

from expert_worker.evaluate.authoring.split import renamed

# Names that mean something to TypeScript or to its library; a skeleton keeps them.
_WORDS = """
interface type extends readonly enum class constructor this private public function const let return
async await if else for of in typeof instanceof keyof infer is as any unknown never void number
string boolean object null undefined true false new Date Promise Record Pick Omit Partial Required
Readonly ReturnType Parameters Array Object Math Map Set Number String Boolean Error Function RegExp
T A B K U V R filter map reduce find findIndex some every slice split sort join flat flatMap
includes startsWith endsWith length concat push reverse max min round floor abs pow PI random keys
values entries fromEntries has get set trim replace test repeat padStart toUpperCase toLowerCase
charAt toFixed lastIndexOf localeCompare getTime getDay getDate setDate getFullYear toISOString
toDateString now from fetch then json text ok console log all isArray setTimeout
"""
KEYWORDS = frozenset(_WORDS.split())
TOKEN = re.compile(r"\"[^\"]*\"|`[^`]*`|\d+|[A-Za-z_]\w*|[^\s\w]")
INSIDE = re.compile(r"\$\{[^}]*\}")


def skeleton(code: str, keywords: frozenset[str] = KEYWORDS) -> str:
    """The code with literals blanked and names renamed by order: two answers that share it differ in names only."""
    tokens = TOKEN.findall(code)
    names = renamed([token for token in tokens if token[0].isalpha() and token not in keywords])
    return " ".join(names.get(token) or _blanked(token) for token in tokens)


def _blanked(token: str) -> str:
    if token[0] == '"':
        return '"?"'
    if token[0] == "`":
        holes = len(INSIDE.findall(token))
        return f"`{holes} {int(token[1:2] != '$')} {int(token[-2:-1] != '}')}`"
    return "0" if token[0].isdigit() else token
