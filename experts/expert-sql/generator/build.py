"""Draws questions, proves their answers on data, and deals them to the splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import (
    Fits,
    answered,
    conversation,
    within_characters,
    within_tokens,
)
from expert_worker.evaluate.authoring.split import split_of
from expert_worker.evaluate.authoring.sql.by_hand import by_hand, level_of
from expert_worker.evaluate.authoring.sql.intents import SIMPLE, TURNS, Composition
from expert_worker.evaluate.authoring.sql.letters import typed
from expert_worker.evaluate.authoring.sql.proof import Databases, proven
from expert_worker.evaluate.authoring.sql.question import Question
from expert_worker.evaluate.authoring.sql.scene import Placed, Scene, stage
from expert_worker.evaluate.authoring.sql.skeleton import skeleton
from expert_worker.evaluate.authoring.sql.tables import Table
from expert_worker.evaluate.authoring.sql.words import UnsayableError
from expert_worker.evaluate.authoring.turns import in_turn
from expert_worker.evaluate.authoring.written import among

from .literal.rows import rows as literal_rows
from .statements import statements
from .worlds import worlds

__all__ = ["by_name", "rows", "simple_rows", "skeleton"]

SYSTEM = "Answer with one SQLite query."
# Answers up to this level have skeletons that every user needs, so they are held apart by their worlds only.
SHARED_LEVEL = 2
TRIES = 400
# Characters of a row, and tokens of one to train on: a longer one would lose the end of its last answer.
CHARACTERS, TOKENS = 1320, 512
# How many of the training rows have several questions on the same tables.
CONVERSATIONS = 0.8
# How many of the questions are in small letters.
SMALL = 0.6
# How many of the rows with several tables show some that refer to one another.
LINKED = 0.8
# How many of the training rows are written by hand.
WRITTEN = Fraction(2, 3)
# How many name columns, keys and types literally; WRITTEN is the share of the others.
LITERAL = Fraction(3, 7)
TRAINED = ("messages", "tags", "level")


@dataclass(frozen=True)
class Mix:
    """What is asked, and how many tables a row shows. Most questions are about one of them, whatever else there is."""

    turns: tuple[Composition, ...]
    tables: Mapping[int, int]


EVERYDAY = Mix(TURNS, {1: 20, 2: 38, 3: 30, 4: 12})
# What a small model learns in a minute or two.
ONE_TABLE = Mix(SIMPLE, {1: 1})


def by_name(row: dict[str, Any]) -> bool:
    """Whether a row's answers may share their skeletons with rows of other splits."""
    return int(row["level"]) <= SHARED_LEVEL


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split: conversations to train on, single questions to be asked."""
    generated = _generated(EVERYDAY, split, f"sql/{seed}/{split}", count)
    if split != "train":
        return generated
    everyday = among(generated, by_hand(SYSTEM, _fits(split), f"sql/{seed}", _is_trained), WRITTEN, count)
    literal = answered(literal_rows("train", count, seed), _is_trained)
    return among(everyday, literal, LITERAL, count)


def simple_rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """The same with simple questions about one table, none of them written by hand."""
    return _generated(ONE_TABLE, split, f"sql/simple/{seed}/{split}", count)


def _generated(mix: Mix, split: str, name: str, count: int) -> Iterator[dict[str, Any]]:
    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, draw, split, mix)

    return in_turn(mix.turns, attempts, name, count, _asked)


def _is_trained(answer: str) -> bool:
    """Hard answers belong to one split."""
    return level_of(answer) <= SHARED_LEVEL or split_of(skeleton(answer)) == "train"


def _asked(row: dict[str, Any]) -> str:
    """The first question itself: with another unused column in the table it is still the same question."""
    return str(row["messages"][1]["content"]).splitlines()[-1].casefold()


@cache
def _fits(split: str) -> Fits:
    short = within_characters(CHARACTERS)
    if split != "train":
        return short
    within = within_tokens(TOKENS)
    return lambda messages: short(messages) and within(messages)


def _attempts(composition: Composition, draw: Draw, split: str, mix: Mix) -> Iterator[dict[str, Any]]:
    fits = _fits(split)
    for _ in range(TRIES):
        scene = _scene(split, draw, mix.tables)
        question = _question(composition, scene, split)
        if question is None:
            continue
        row = _row(scene, [question], f"{draw.below(10**9):09d}")
        data = Databases(row["schema"], row["ddl"], row["seed"])
        if not fits(row["messages"]) or not proven(data, question):
            continue
        if split != "train":
            yield row
            continue
        if draw.chance(CONVERSATIONS):
            further = _further(mix.turns, scene, question, draw.between(3, 6))
            questions = [question, *(one for one in further if proven(data, one))]
            while not fits((row := _row(scene, questions, row["seed"], row["ddl"]))["messages"]):
                questions.pop()
        yield {key: row[key] for key in TRAINED}


def _scene(split: str, draw: Draw, tables_shown: Mapping[int, int]) -> Scene:
    """Whole worlds, until there are as many tables as wanted. What people ask about one of them must not mean
    another."""
    wanted = draw.weighted(tuple(tables_shown), tuple(tables_shown.values()))
    tables: list[Table] = []
    order = draw.shuffled(worlds(split))
    if wanted > 1 and draw.chance(LINKED):
        order.sort(key=lambda world: len(world) == 1)
    for world in order:
        fits = world if wanted > 1 else (draw.one(world),)
        if len(tables) + len(fits) <= wanted and not _names(tables) & _names(fits):
            tables += fits
        if len(tables) == wanted:
            break
    return stage(tuple(tables), draw, split != "train")


def _names(tables: Iterable[Table]) -> set[str]:
    return {name for table in tables for name in (*table.names, *table.nouns)}


def _question(composition: Composition, scene: Scene, split: str) -> Question | None:
    try:
        question = composition(scene)
    except UnsayableError:
        return None
    if question is None or (question.level > SHARED_LEVEL and split_of(skeleton(question.sql)) != split):
        return None
    return question


def _further(turns: tuple[Composition, ...], scene: Scene, first: Question, count: int) -> list[Question]:
    """Other questions about the tables of the scene, each of another kind."""
    found: dict[str, Question] = {}
    for composition in scene.draw.some(turns, 4 * count):
        question = _question(composition, scene, "train")
        if question and question.intent not in (first.intent, *found):
            found[question.intent] = question
        if len(found) == count:
            break
    return list(found.values())


def _row(scene: Scene, questions: list[Question], seed: str, ddl: str = "") -> dict[str, Any]:
    """The first question below the statements, the others after its answer."""
    ddl = ddl or statements(scene, scene.tables)
    turns: list[dict[str, str]] = []
    for question in questions:
        text, answer = typed(question, scene.draw, small=SMALL)
        asked = text if turns else f"{ddl}\n{text}"
        turns += conversation(SYSTEM, asked, answer)[1 if turns else 0 :]
    return {
        "messages": turns,
        "tags": list(dict.fromkeys(tag for question in questions for tag in question.tags)),
        "level": max(question.level for question in questions),
        "schema": [_described(scene, table) for table in scene.tables],
        "ddl": ddl,
        "seed": seed,
    }


def _described(scene: Scene, table: Placed) -> dict[str, Any]:
    columns: list[list[Any]] = [[table.key, "key"]]
    if table.ref:
        # A parent that is not shown has no rows either, only numbers that refer to them.
        names = (parent.name for parent, child in scene.pairs() if child.name == table.name)
        columns.append([table.ref, "ref", next(names, table.table.parent), table.loose])
    if table.second:
        second = [table.second, "ref", table.second_of]
        columns.insert(1 if table.second_first else len(columns), second)
    return {"table": table.name, "rows": table.rows, "columns": [*columns, *table.specs]}
