"""Well-known small functions from `snippets.txt`, under several names and with several names of parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from expert_worker.evaluate.authoring.draw import Draw

from .functions import Function, asked
from .kinds import Kind
from .task import Composition, Task

FILE = Path(__file__).resolve().parent / "snippets.txt"
HEAD = re.compile(r"(\S+) (?:async:(\w+) )?(<.*?>)?\((.*)\): (.+) #(\w+) (\d)$")
TAGS = {
    "number": "number-function",
    "string": "string-function",
    "array": "array-function",
    "generic": "generic-function",
    "object": "object-function",
    "date": "date-function",
    "async": "async-function",
    "guard": "type-guard",
}


@dataclass(frozen=True)
class Snippet:
    names: tuple[str, ...]
    params: tuple[tuple[tuple[str, ...], str], ...]
    result: str
    tag: str
    level: int
    generics: str
    asynchronous: bool
    descriptions: tuple[str, ...]
    body: tuple[str, ...]
    others: tuple[str, ...]

    def made(self, draw: Draw) -> Function:
        name = draw.one(self.names)
        chosen = {names[0]: draw.one(names) for names, _ in self.params}
        renames = {**chosen, self.names[0]: name}

        def renamed(code: str) -> str:
            return re.sub(
                r"(?:(?<=\.\.\.)|(?<![.\w\"/]))[A-Za-z]\w*(?![\w\"])",
                lambda found: renames.get(found[0], found[0]),
                code,
            )

        described = re.sub(r"\{(\w+)\}", lambda slot: chosen[slot[1]], draw.one(self.descriptions))
        return Function(
            name,
            tuple((chosen[names[0]], kind) for names, kind in self.params),
            re.sub(r"^(\w+) is ", lambda found: f"{chosen[found[1]]} is ", self.result),
            tuple(map(renamed, self.body)),
            described,
            self.level,
            (TAGS[self.tag],),
            self.generics,
            self.asynchronous,
            tuple(map(renamed, self.others)),
            known=" ".join(self.body),
        )


@cache
def snippets() -> tuple[Snippet, ...]:
    text = "\n".join(
        line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )
    return tuple(_snippet(block.splitlines()) for block in text.strip().split("\n\n"))


def _snippet(lines: list[str]) -> Snippet:
    found = HEAD.fullmatch(lines[0])
    if found is None:
        raise ValueError(f"not the head of a function: {lines[0]}")
    names, mode, generics, params, result, tag, level = found.groups()
    return Snippet(
        tuple(names.split("|")),
        tuple(_param(part) for part in re.findall(r"[\w|]+: (?:[^,<(]|<[^>]*>|\([^)]*\))+", params)),
        result,
        tag,
        int(level),
        generics or "",
        mode == "async",
        tuple(line[2:] for line in lines if line.startswith("d ")),
        tuple(line[2:] for line in lines if line.startswith("> ")),
        tuple(line[5:] for line in lines if line.startswith("also ")),
    )


def _param(text: str) -> tuple[tuple[str, ...], str]:
    names, kind = text.split(": ", 1)
    return tuple(names.split("|")), kind


def snippet(tags: tuple[str, ...]) -> Composition:
    chosen = [one for one in snippets() if one.tag in tags]

    def composition(_: Kind, draw: Draw) -> Task:
        return asked(draw.one(chosen).made(draw), draw)

    return composition


SNIPPETS: list[tuple[Composition, int]] = [
    (snippet(("number",)), 9), (snippet(("string",)), 10), (snippet(("array",)), 9), (snippet(("generic",)), 4),
    (snippet(("object",)), 2), (snippet(("date",)), 3), (snippet(("async",)), 2), (snippet(("guard",)), 3),
]  # fmt: skip
