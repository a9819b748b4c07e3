"""Kinds of things that code is about, from `kinds/`: each split has its own kinds, names and sets of properties.

One line per kind: `Name: property type, ...`, with `Name/plural` where the plural is irregular. A type is one of
TypeScript's, words between `|` for a union of literals, or `{...}` for an object inside; `name?` is optional.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import plural

FOLDER = Path(__file__).resolve().parent / "kinds"
FIELD = re.compile(r"(\w+)(\??) (\{[^}]*\}|[^,]+)(?:, |$)")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Words that describe a thing: `paid invoices`, not `vaccine invoices`.
_ADJECTIVES = """
paid open ready public private dark stable active online remote dry tame vegan organic electric
draft read unread live explicit international anonymous multiplayer autonomous waterproof indoor
outdoor evergreen healthy flaky stale habitable navigable tradable billable accessible available
capital broken complete primary valid retired operational intact antique robotic airborne outdoors
"""
ADJECTIVES = frozenset(_ADJECTIVES.split())


class UnfitError(Exception):
    """This kind has nothing that the composition needs."""


@dataclass(frozen=True)
class Prop:
    name: str
    type: str
    optional: bool = False
    readonly: bool = False
    words: tuple[str, ...] = ()
    inner: tuple[Prop, ...] = ()

    @property
    def spaced(self) -> str:
        return spaced(self.name)

    @property
    def line(self) -> str:
        return f"{'readonly ' * self.readonly}{self.name}{'?' * self.optional}: {self.type}"

    @property
    def adjective(self) -> bool:
        last = self.spaced.rsplit(" ", 1)[-1]
        return self.type == "boolean" and (last in ADJECTIVES or last.endswith(("ed", "ing")))


@dataclass(frozen=True)
class Kind:
    name: str
    plural: str
    props: tuple[Prop, ...]

    @property
    def one(self) -> str:
        return self.name[0].lower() + self.name[1:]

    @property
    def noun(self) -> str:
        return spaced(self.name)

    @property
    def nouns(self) -> str:
        return spaced(self.plural)

    def of(self, *types: str) -> list[Prop]:
        """Properties that are always there, of these types; `choice` is a union of literals."""
        return [prop for prop in self.props if not prop.optional and (type_kind(prop) in types)]

    def pick(self, draw: Draw, *types: str) -> Prop:
        found = self.of(*types)
        if not found:
            raise UnfitError(f"{self.name} has no {' or '.join(types)}")
        return draw.one(found)

    def amount(self, draw: Draw) -> Prop:
        """A number that can be added up."""
        found = [prop for prop in self.of("number") if prop.name not in ("id", "year")]
        if not found:
            raise UnfitError(f"{self.name} has no number to add up")
        return draw.one(found)

    def simple(self) -> list[Prop]:
        return [prop for prop in self.props if not prop.inner]

    def some(self, draw: Draw, low: int, high: int, optional: bool = False) -> list[Prop]:
        """Properties in their usual order; without the question mark unless `optional`."""
        chosen = set(draw.some([prop.name for prop in self.simple()], draw.between(low, high)))
        found = [prop for prop in self.simple() if prop.name in chosen]
        return found if optional else [replace(prop, optional=False) for prop in found]

    def declared(self, names: set[str]) -> str:
        """The interface with these properties, in their usual order."""
        return declaration(self.name, [prop for prop in self.props if prop.name in names])


def type_kind(prop: Prop) -> str:
    return "choice" if prop.words else "object" if prop.inner else prop.type


def spaced(name: str) -> str:
    return CAMEL.sub(" ", name).lower()


def members(props: list[Prop]) -> str:
    return "{\n" + "".join(f"  {prop.line};\n" for prop in props) + "}"


def declaration(name: str, props: list[Prop]) -> str:
    return f"interface {name} {members(props)}"


def literals(words: list[str] | tuple[str, ...]) -> str:
    return " | ".join(f'"{word}"' for word in words)


@cache
def kinds(split: str) -> tuple[Kind, ...]:
    text = (FOLDER / f"{split}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(_kind(line) for line in lines)


def _kind(line: str) -> Kind:
    head, body = line.split(": ", 1)
    name, _, many = head.partition("/")
    many = many or plural(name[0].lower() + name[1:])
    return Kind(name, many, tuple(_prop(*found) for found in FIELD.findall(body)))


def _prop(name: str, mark: str, said: str) -> Prop:
    if said.startswith("{"):
        inner = tuple(_prop(part.split(" ")[0], "", part.split(" ")[1]) for part in said[1:-1].split("; "))
        kind = "{ " + "; ".join(prop.line for prop in inner) + " }"
        return Prop(name, kind, bool(mark), inner=inner)
    if "|" in said:
        words = tuple(said.split("|"))
        return Prop(name, literals(words), bool(mark), words=words)
    return Prop(name, said, bool(mark))
