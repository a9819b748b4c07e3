"""Draws questions, proves their answers on graphs, and deals them to the splits. Needs the engine: `pip install ladybug`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.split import renamed, split_of
from expert_worker.evaluate.authoring.turns import in_turn
from expert_worker.evaluate.scorers.cypher import GRAPHS

from ..proof import proven
from . import linked, plain
from .graphs import World, worlds
from .scene import Question, Scene

Composition = Callable[[Scene], Question | None]
SIMPLE: list[Composition] = [plain.listing, plain.ordered, plain.counting, plain.aggregate, plain.distinct]
MIDDLE: list[Composition] = [plain.group_count, plain.choice, linked.hop, linked.across, linked.pair]
HARD: list[Composition] = [
    plain.union,
    plain.above_average,
    linked.link_property,
    linked.count_links,
    linked.measure_links,
    linked.optional,
    linked.absent,
    linked.compared,
    linked.far,
    linked.reach,
    linked.busy,
    linked.most_linked,
]
# People ask simple questions more often than hard ones, and so does this set.
TURNS = SIMPLE * 3 + MIDDLE * 2 + HARD
SYSTEM = "Answer with one Cypher query."
KEYWORDS = frozenset(
    [
        "match",
        "where",
        "return",
        "order",
        "by",
        "desc",
        "limit",
        "distinct",
        "count",
        "avg",
        "sum",
        "min",
        "max",
        "with",
        "as",
        "and",
        "or",
        "not",
        "in",
        "starts",
        "ends",
        "contains",
        "date",
        "union",
        "optional",
        "exists",
        "case",
        "when",
        "then",
        "else",
        "end",
        "n",
        "link",
        "mean",
    ]
)
TOKEN = re.compile(r"'[^']*'|\d+|[A-Za-z_]\w*|[^\s\w]")
TRIES = 400
# Few graphs, so that a judge can keep them; each seed stands for three.
SEEDS = 3
TRAINED = ("messages", "tags", "level")


def skeleton(cypher: str) -> str:
    """The query with literals blanked and names renamed by order: two answers that share it differ in names only."""
    tokens = TOKEN.findall(cypher)
    names = renamed([token for token in tokens if token[0].isalpha() and token.lower() not in KEYWORDS])
    return " ".join(names.get(token) or _blanked(token) for token in tokens)


def _blanked(token: str) -> str:
    if token[0] == "'":
        return "'?'"
    return "0" if token[0].isdigit() else token.upper()


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""
    scenes = worlds(split)

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, scenes, draw, split)

    return in_turn(TURNS, attempts, f"cypher/{seed}/{split}", count)


def _attempts(
    composition: Composition, stages: list[World], draw: Draw, split: str
) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        world = draw.one(stages)
        question = composition(Scene(world, draw))
        if question is None or split_of(skeleton(question.cypher)) != split:
            continue
        used = set(TOKEN.findall(question.cypher))
        schema = world.schema({name for name in world.names if name in used or draw.chance(0.1)})
        row = {
            "messages": conversation(SYSTEM, f"{schema}\n{question.text}", question.cypher),
            "tags": list(dict.fromkeys(["literal", *question.tags])),
            "level": question.level,
            "graph": world.described(),
            "seed": str(draw.below(SEEDS)),
        }
        # Training rows are judged by nobody: one graph is enough to prove that they say something.
        if proven(row["graph"], row["seed"], question, 1 if split == "train" else GRAPHS):
            yield row if split != "train" else {key: row[key] for key in TRAINED}
