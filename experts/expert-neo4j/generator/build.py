"""Draws questions, proves their answers on graphs, and deals them to the splits. Needs the engine (`pip install ladybug`)
and the embedded base's tokenizer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed
from expert_worker.evaluate.authoring.rows import answered, conversation, questions_of, within_tokens
from expert_worker.evaluate.authoring.split import renamed, split_of
from expert_worker.evaluate.authoring.turns import in_turn
from expert_worker.evaluate.authoring.written import among, written_rows
from expert_worker.evaluate.scorers.cypher import GRAPHS

from . import groups, linked, measures, paths, plain
from .graphs import World, shown, world
from .lexicon import worlds
from .literal.rows import rows as literal_rows
from .parts import Question, Scene
from .proof import proven
from .schema import written

Composition = Callable[[Scene], Question | None]
# How often each comes, of 100 rows: half are of level 1, a third of level 2.
SHARES: dict[Composition, int] = {
    plain.listing: 9,
    plain.columns_of: 5,
    plain.counting: 7,
    plain.value: 5,
    measures.top: 6,
    measures.ordered: 2,
    measures.aggregate: 4,
    measures.distinct: 2,
    linked.named: 9,
    linked.number_of: 4,
    measures.group: 5,
    linked.properties: 4,
    linked.filtered: 8,
    linked.narrowed: 4,
    linked.pairs: 5,
    linked.first_of: 3,
    linked.totals: 4,
    groups.per_node: 3,
    groups.most: 3,
    groups.having: 2,
    groups.absent: 3,
    groups.measure_per_node: 1,
    groups.link_property: 2,
    groups.with_zero: 1,
    paths.two_hops: 4,
    paths.same: 1,
    paths.reach: 1,
    paths.compared: 1,
    measures.above_average: 1,
}
Turn = tuple[Composition, ...]
# In training their questions stand alone in a row; the rest come three to five at a time.
ALONE = frozenset((groups.with_zero, paths.same, paths.reach, paths.compared, measures.above_average))
SIMPLE: Sequence[Composition] = (
    plain.listing,
    plain.columns_of,
    plain.counting,
    plain.value,
    measures.aggregate,
)
SYSTEM = "Answer with one Cypher query."
# Answers of these levels are divided among the splits by their skeleton too; simpler ones by their world alone.
DIVIDED_LEVELS = (4,)
# How many of the training rows are written by hand, and tokens of one, as the manifest has them for the embedded base.
WRITTEN, LONGEST = Fraction(1, 2), 512
# How many name columns, keys and types literally; WRITTEN is the share of the others.
LITERAL = Fraction(3, 10)
FOLDER = Path(__file__).parent / "written"
KEYWORDS = frozenset(
    """
    match where return order by desc limit distinct count avg sum min max with as and or not in starts ends contains date
    optional exists true false n r mean value
    """.split()  # noqa: SIM905
)
TOKEN = re.compile(r"'[^']*'|\d+|[A-Za-z_]\w*|[^\s\w]")
TRIES, TRIES_PER_GRAPH = 400, 12


def skeleton(cypher: str) -> str:
    """The query with literals blanked and names renamed by order: two answers that share it differ in names only."""
    tokens = TOKEN.findall(cypher)
    names = renamed([token for token in tokens if token[0].isalpha() and token.lower() not in KEYWORDS])
    return " ".join(names.get(token) or _blanked(token) for token in tokens)


def _blanked(token: str) -> str:
    if token[0] == "'":
        return "'?'"
    return "0" if token[0].isdigit() else token.upper()


def by_name(row: dict[str, Any]) -> bool:
    """Whether a row's answers are held apart from other splits' by their graph's names alone."""
    return row["level"] not in DIVIDED_LEVELS


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""
    numbered = list(enumerate(_turns(split)))
    order = Draw(f"worlds/{seed}/{split}").shuffled(range(len(worlds(split))))
    made = 0

    def attempts(turn: tuple[int, Turn], draw: Draw) -> Iterator[dict[str, Any]]:
        """Training walks through its worlds, each time with other names; the other splits have one graph per world."""
        nonlocal made
        for attempt in range(TRIES):
            if split == "train":
                place = made + attempt
                stage = world(worlds(split)[order[place % len(order)]], place // len(order), split)
            else:
                stage = _world(split, draw.one(order))
            row = _row(turn[1], stage, draw, split)
            if row:
                made += 1
                yield row

    generated = in_turn(numbered, attempts, f"cypher/{seed}/{split}", count, questions_of)
    if split != "train":
        return generated
    fits = within_tokens(LONGEST)
    by_hand = written_rows(FOLDER, SYSTEM, fits, f"cypher/{seed}", wanted=_is_trained, level=_level)
    everyday = among(generated, by_hand, WRITTEN, count)
    literal = answered(literal_rows("train", count, seed), _is_trained)
    return among(everyday, literal, LITERAL, count)


def _is_trained(answer: str) -> bool:
    """Hard answers belong to one split."""
    return _level(answer) not in DIVIDED_LEVELS or split_of(skeleton(answer)) == "train"


def _level(answer: str) -> int:
    """How many of these an answer has: relationships, a second MATCH, parts."""
    return min(4, 1 + len(re.findall(r"\]-|-\[|\bWITH\b|MATCH", answer)) // 2)


def _turns(split: str) -> list[Turn]:
    """What each row asks: one question, or in training mostly three to five about one graph."""
    draw = Draw(f"order/{split}")
    shuffled = draw.shuffled([composition for composition, share in SHARES.items() for _ in range(share)])
    if split != "train":
        return [(composition,) for composition in shuffled]
    turns: list[Turn] = [(composition,) for composition in shuffled if composition in ALONE]
    others = [composition for composition in shuffled if composition not in ALONE]
    while others:
        size = draw.weighted((1, 3, 4, 5), (2, 4, 5, 4))
        turns.append(tuple(others[:size]))
        others = others[size:]
    return draw.shuffled(turns)


@cache
def _world(split: str, place: int) -> World:
    return world(worlds(split)[place], 0, split)


def _row(turn: Turn, stage: World, draw: Draw, split: str) -> dict[str, Any] | None:
    """The questions of a turn about one graph; nothing where one of them finds no words or no answer there."""
    graph, seed = stage.described(), f"{split}/{stage.name}"
    questions: list[Question] = []
    for composition in turn:
        found = _question(composition, stage, draw, split, graph, seed, alone=len(turn) == 1)
        if found is None and len(turn) > 1:
            # A graph that has no such question is asked something simple in its place.
            found = _question(draw.one(SIMPLE), stage, draw, split, graph, seed, alone=False)
        if found is None:
            return None
        questions.append(found)
    nodes = {node.label for question in questions for node in question.nodes}
    types = {name for question in questions for name in question.types}
    nodes |= {node.label for node in stage.nodes if draw.chance(0.5)}
    ends = {edge.type for edge in stage.edges if {edge.start.label, edge.end.label} <= nodes}
    types |= {edge.type for edge in stage.edges if edge.type in ends and draw.chance(0.7)}
    typed = [as_typed(question.text, draw, question.keep) for question in questions]
    typed[0] = f"{written(shown(stage, nodes, types))}\n{typed[0]}"
    messages = conversation(SYSTEM, typed[0], questions[0].cypher)
    for text, question in zip(typed[1:], questions[1:], strict=True):
        messages += conversation(SYSTEM, text, question.cypher)[1:]
    row = {
        "messages": messages,
        "tags": list(dict.fromkeys(tag for question in questions for tag in question.tags)),
        "level": max(question.level for question in questions),
    }
    return row if split == "train" else {**row, "graph": graph, "seed": seed}


def _question(
    composition: Composition,
    stage: World,
    draw: Draw,
    split: str,
    graph: dict[str, Any],
    seed: str,
    alone: bool,
) -> Question | None:
    """A question that is proven on the split's graphs."""
    for _ in range(TRIES_PER_GRAPH):
        question = composition(Scene(stage, draw))
        if question is None:
            continue
        if question.level in DIVIDED_LEVELS and (not alone or split_of(skeleton(question.cypher)) != split):
            continue
        # Training rows are judged by nobody: one graph is enough to prove that they say something.
        if proven(graph, seed, question, 1 if split == "train" else GRAPHS, question.untied):
            return question
    return None
