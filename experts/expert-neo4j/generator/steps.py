"""A relationship seen from the end that is asked for, and how people say it: `who works for X`, `the members of X`."""

from __future__ import annotations

from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .conditions import Condition
from .graphs import Edge, Node, Part, World
from .lexicon import Verb
from .parts import many, one, relative


@dataclass(frozen=True)
class Step:
    edge: Edge
    # Whether the end that is asked for is the relationship's start.
    forward: bool
    asked: Part
    other: Part

    @property
    def pattern(self) -> str:
        """As the schema has it, start first."""
        start, end = (self.asked, self.other) if self.forward else (self.other, self.asked)
        arrow = "-" if self.edge.text.mutual else "->"
        return f"{start.pattern}-[:{self.edge.type}]{arrow}{end.pattern}"

    @property
    def named(self) -> str:
        """With a variable for the relationship."""
        return self.pattern.replace("-[:", "-[r:")

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """From the asked end to the other one."""
        return self.edge.text.forward if self.forward else self.edge.text.backward

    @property
    def verbs_back(self) -> tuple[Verb, ...]:
        return self.edge.text.backward if self.forward else self.edge.text.forward

    @property
    def roles(self) -> tuple[str, ...]:
        return self.edge.text.start_role if self.forward else self.edge.text.end_role

    @property
    def nodes(self) -> tuple[Node, Node]:
        return self.edge.start, self.edge.end


def step(world: World, draw: Draw, loops: bool = True, mutual: bool = False) -> Step | None:
    """Any relationship from either end; nothing where no words lead from the one end to the other."""
    edges = [edge for edge in world.edges if (loops or not edge.loop) and (mutual or not edge.text.mutual)]
    if not edges:
        return None
    edge = draw.one(edges)
    found = seen(edge, edge.text.mutual or draw.chance(0.55))
    return found if found.verbs or found.verbs_back else None


def seen(edge: Edge, forward: bool) -> Step:
    start, end = Part(edge.start, "a"), Part(edge.end, "b")
    return Step(edge, forward, *((start, end) if forward else (end, start)))


def clauses(found: Step, other: str, single: bool, draw: Draw) -> list[str]:
    """What stands behind the asked noun, plural: `who work for X`, `directed by X`, `X directed`."""
    texts: list[str] = []
    who = relative(found.asked.node, draw)
    for verb in found.verbs:
        if verb.passive:
            texts += [f"{verb.rest} {other}", f"{verb.rest} {other}", f"{who} {verb.plural} {other}"]
        else:
            texts += [f"{who} {verb.plural} {other}"] * 2
    for verb in found.verbs_back:
        finite = verb.singular if single else verb.plural
        if not verb.passive:
            texts += [f"{other} {finite}", f"that {other} {finite}"]
        elif not texts:
            texts.append(f"that {other} {finite}")
    return texts


def clause(found: Step, other: str, single: bool, draw: Draw) -> str:
    return draw.one(clauses(found, other, single, draw))


def questions(found: Step, asked: str, other: str, single: bool) -> list[str]:
    """`which players play for X?`, `who plays for X?`, `which books did X write?`"""
    texts: list[str] = []
    person = found.asked.node.person
    for verb in found.verbs:
        texts += [f"which {asked} {verb.plural} {other}?", f"what {asked} {verb.plural} {other}?"]
        if person:
            texts += [f"who {verb.singular} {other}?"] * 3
    for verb in found.verbs_back:
        if verb.passive:
            texts.append(
                f"which {asked} {verb.be if single else verb.plural.split(' ')[0]} {other} {verb.rest}?"
            )
        else:
            help_ = verb.auxiliary(single)
            texts += [
                f"which {asked} {help_} {other} {verb.base}?",
                f"what {asked} {help_} {other} {verb.base}?",
            ]
            if person:
                texts += [f"who {help_} {other} {verb.base}?"] * 2
    return texts


def counted(found: Step, asked: str, other: str, single: bool, draw: Draw) -> list[str]:
    """`how many players play for X?`"""
    texts: list[str] = []
    for verb in found.verbs:
        texts += [f"how many {asked} {verb.plural} {other}?"] * 2
    for verb in found.verbs_back:
        if not verb.passive:
            texts += [f"how many {asked} {verb.auxiliary(single)} {other} {verb.base}?"] * 2
    texts += [
        f"number of {asked} {clause(found, other, single, draw)}",
        f"count the {asked} {clause(found, other, single, draw)}",
    ]
    return texts


def narrowed_by(found: Step, part: Condition, x: str, draw: Draw) -> tuple[list[str], list[str]]:
    """Those who are linked to x and more than that: as a noun, and as questions that begin with `{which}`."""
    asked, who = many(found.asked.node, draw), "who" if found.asked.node.person else "that"
    nouns = [f"{before} {asked} {clause(found, x, True, draw)}" for before in part.pre]
    wholes = [f"{{which}} {before} {asked} {verb.plural} {x}?" for before in part.pre for verb in found.verbs]
    for pred in part.pred:
        for verb in found.verbs:
            nouns += [
                f"{asked} {who} {verb.plural} {x} and {pred}",
                f"{asked} {who} {pred} and {verb.plural} {x}",
            ]
            wholes += [
                f"{{which}} {asked} {verb.plural} {x} and {pred}?",
                f"{{which}} of the {asked} {who} {verb.plural} {x} {pred}?",
            ]
        for verb in found.verbs_back:
            if not verb.passive:
                nouns.append(f"{asked} {x} {verb.singular} {who} {pred}")
                wholes.append(f"{{which}} of the {asked} {x} {verb.singular} {pred}?")
    for post in part.post:
        nouns += [f"{asked} {post} {who} {verb.plural} {x}" for verb in found.verbs]
        wholes += [f"{{which}} {asked} {post} {verb.plural} {x}?" for verb in found.verbs]
        wholes += [
            f"{{which}} {asked} {post} {verb.auxiliary(True)} {x} {verb.base}?"
            for verb in found.verbs_back
            if not verb.passive
        ]
    return nouns, wholes


def called_by_name(found: Step, name: str, world: World, draw: Draw) -> str:
    """`X`, or `the team X`: always with its noun where the words do not say which kind of node it is."""
    kinds = {node.text.nouns for node in world.nodes if node.person == found.other.node.person}
    if len(kinds) > 1 and not found.verbs and draw.chance(0.5):
        return f"the {one(found.other.node, draw)} {name}"
    return name if draw.chance(0.75) else f"the {one(found.other.node, draw)} {name}"


def ties(whole: World, found: Step) -> bool:
    """Whether `the members of X`, `teams without players` can only mean this relationship."""
    return not found.edge.loop and whole.only(found.edge.start, found.edge.end)
