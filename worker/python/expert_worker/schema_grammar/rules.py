"""A grammar in the notation of GBNF, with keywords, and as llguidance reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Of a rule's body: literals, sets of characters, numbers of repetitions, keywords and names.
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{[0-9,]+\}|[A-Za-z][A-Za-z0-9_-]*')
_RULE = re.compile(r"^([a-z][a-z0-9@-]*)\s*::=\s*(.*)$")


@dataclass(frozen=True)
class Rules:
    """`bodies` are in GBNF, where a word in capitals stands for this keyword in capitals or small letters.
    llguidance reads a terminal by its lexer, the longest that fits, and so no part of what may follow a
    terminal can be a part of it as well."""

    bodies: Mapping[str, str]
    terminals: frozenset[str]

    def lark(self, ends: Sequence[int] = ()) -> str:
        """With `ends`, one of these tokens follows the answer; without, what the reader has as its end."""

        def part(text: str) -> str:
            if text[0] == "[":
                return "/" + text.replace("/", r"\/") + "/"
            if text[0].isupper():
                return _either(text)
            return self._name(text) if text[0].islower() else text

        rules = [
            f"{self._name(name)}: {_PARTS.sub(lambda found: part(found[0]), body)}\n"
            for name, body in self.bodies.items()
        ]
        end = f" ({' | '.join(f'<[{end}]>' for end in ends)})" if ends else ""
        return f"%llguidance {{}}\nstart: {self._name('root')}{end}\n" + "".join(rules)

    def _name(self, name: str) -> str:
        plain = name.replace("-", "_")
        return plain.upper() if name in self.terminals else plain


def _either(keyword: str) -> str:
    return f'("{keyword}" | "{keyword.lower()}")'


def any_of(words: Iterable[str]) -> str:
    return " | ".join(literal(word) for word in words)


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@cache
def template(name: str) -> tuple[Mapping[str, str], Callable[[str], dict[str, str]]]:
    """The rules of a file of this folder, and those below its line `[scope]` for the name of a scope."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    common, _, scoped = text.partition("[scope]\n")
    rules = _read(scoped)

    def scope(of: str) -> dict[str, str]:
        return {rule.replace("@", of): body.replace("@", of) for rule, body in rules.items()}

    return _read(common), scope


def _read(text: str) -> dict[str, str]:
    """A rule starts in the first column; its further lines are indented."""
    rules: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if found := _RULE.match(line):
            name, rules[found[1]] = found[1], found[2].strip()
        elif line.startswith(" "):
            rules[name] += f" {line.strip()}"
    return rules
