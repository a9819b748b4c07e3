"""A question's nodes and how they are called: `active members from Spain`, `the bike KX-12`."""

from __future__ import annotations

from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .conditions import Condition, Found
from .graphs import Node, Part, World


@dataclass(frozen=True)
class Question:
    """`weaker` are queries that a careless reader would write; at least one graph must distinguish each from `cypher`.

    `untied` returns what the answer chooses by, one row more than it takes: no two may be equal.
    """

    text: str
    keep: tuple[str, ...]
    cypher: str
    level: int
    tags: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: tuple[str, ...] = ()
    weaker: tuple[str, ...] = ()
    untied: str = ""


@dataclass(frozen=True)
class Scene:
    """A graph and the chance that a question on it is made by."""

    world: World
    draw: Draw

    def node(self) -> Part:
        return Part(self.draw.one(self.world.nodes), "a")


def one(node: Node, draw: Draw) -> str:
    return draw.one(node.text.nouns)[0]


def many(node: Node, draw: Draw) -> str:
    return draw.one(node.text.nouns)[1]


def relative(node: Node, draw: Draw) -> str:
    return draw.one(("who", "who", "that")) if node.person else draw.one(("that", "that", "which"))


def described(noun: str, node: Node, found: Found | None, draw: Draw) -> str:
    """The noun, plural, with the conditions before and behind it."""
    if found is None:
        return noun
    before, behind = "", []  # type: str, list[str]
    for part in found.parts:
        if part.pre and not before and found.word == "and" and draw.chance(0.75):
            before = draw.one(part.pre) + " "
        else:
            behind.append(_behind(part, node, draw))
    return f"{before}{noun}{' ' if behind else ''}{_joined(behind, found.word, draw)}"


def _behind(part: Condition, node: Node, draw: Draw) -> str:
    choices = [*part.post, *(f"{relative(node, draw)} {text}" for text in part.pred)]
    if not choices:
        choices = [f"{relative(node, draw)} are {text}" for text in part.pre]
    return draw.one(choices)


def _joined(behind: list[str], word: str, draw: Draw) -> str:
    if len(behind) < 2:
        return "".join(behind)
    if word == "and" and behind[1].startswith(("with ", "in ", "from ")) and draw.chance(0.4):
        return " ".join(behind)
    return f"{behind[0]} {word} {behind[1]}"


def called(node: Node, found: Found | None, draw: Draw) -> str:
    return described(many(node, draw), node, found, draw)


def predicate(found: Found, draw: Draw) -> str | None:
    """What follows `which members ...`: `are older than 40`; nothing where a condition has no such form."""
    texts: list[str] = []
    for part in found.parts:
        with_ = [f"have {text.removeprefix('with ')}" for text in part.post if text.startswith("with ")]
        choices = [*part.pred, *part.pred, *with_, *(f"are {text}" for text in part.pre)]
        if not choices:
            return None
        texts.append(draw.one(choices))
    return f" {found.word} ".join(texts)


def where(*found: Found | None) -> str:
    """Conditions on different nodes, all of which must hold; an `or` among several keeps to its parentheses."""
    there = [some for some in found if some is not None]
    parts = [f"({some.cypher})" if some.word == "or" and len(there) > 1 else some.cypher for some in there]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def tags(*found: Found | None) -> tuple[str, ...]:
    return tuple(tag for some in found if some for tag in some.tags)


def keep(*found: Found | None) -> tuple[str, ...]:
    return tuple(value for some in found if some for value in some.keep)


def without(cypher: str, *found: Found | None) -> tuple[str, ...]:
    """The query with its conditions forgotten."""
    clause = where(*found)
    return (cypher.replace(clause, "", 1),) if clause else ()
