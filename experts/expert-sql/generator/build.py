"""Draws questions, proves their answers on data, and deals them to the splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.split import split_of
from expert_worker.evaluate.authoring.sql.intents import TURNS, Composition
from expert_worker.evaluate.authoring.sql.proof import Databases, proven
from expert_worker.evaluate.authoring.sql.question import Question
from expert_worker.evaluate.authoring.sql.scene import Placed, Scene, stage
from expert_worker.evaluate.authoring.sql.skeleton import skeleton
from expert_worker.evaluate.authoring.sql.words import UnsayableError
from expert_worker.evaluate.authoring.turns import in_turn

from .statements import statements
from .worlds import worlds

__all__ = ["by_name", "rows", "skeleton"]

SYSTEM = "Answer with one SQLite query."
# Answers up to this level have skeletons that every user needs, so they are held apart by their worlds only.
SHARED_LEVEL = 2
TRIES = 400
# Characters of a row, so that it fits into 512 tokens.
LONGEST = 1200
# How many of the training rows have several questions on the same tables, and how many rows show a table too many.
CONVERSATIONS = 0.75
DISTRACTED = 0.2
TRAINED = ("messages", "tags", "level")


def by_name(row: dict[str, Any]) -> bool:
    """Whether a row's answers may share their skeletons with rows of other splits."""
    return int(row["level"]) <= SHARED_LEVEL


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split: conversations to train on, single questions to be asked."""

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, draw, split)

    return in_turn(TURNS, attempts, f"sql/{seed}/{split}", count, _asked)


def _asked(row: dict[str, Any]) -> str:
    """The first question itself: with another unused column in the table it is still the same question."""
    return str(row["messages"][1]["content"]).splitlines()[-1].casefold()


def _attempts(composition: Composition, draw: Draw, split: str) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        scene = stage(draw.one(worlds(split)), draw, split != "train")
        question = _question(composition, scene, split)
        if question is None:
            continue
        row = _row(scene, [question], f"{draw.below(10**9):09d}")
        data = Databases(row["schema"], row["ddl"], row["seed"])
        if _length(row) > LONGEST or not proven(data, question):
            continue
        if split != "train":
            yield row
            continue
        if draw.chance(CONVERSATIONS):
            further = _further(scene, question, draw.between(2, 4))
            questions = [question, *(one for one in further if proven(data, one))]
            while _length(row := _row(scene, questions, row["seed"], row["ddl"])) > LONGEST:
                questions.pop()
        yield {key: row[key] for key in TRAINED}


def _length(row: dict[str, Any]) -> int:
    return sum(len(message["content"]) for message in row["messages"])


def _question(composition: Composition, scene: Scene, split: str) -> Question | None:
    try:
        question = composition(scene)
    except UnsayableError:
        return None
    if question is None or (question.level > SHARED_LEVEL and split_of(skeleton(question.sql)) != split):
        return None
    return question


def _further(scene: Scene, first: Question, count: int) -> list[Question]:
    """Other questions about the tables that the first one shows, each of another kind."""
    names = {table.name for table in first.tables}
    near = replace(scene, tables=tuple(table for table in scene.tables if table.name in names))
    found: dict[str, Question] = {}
    for composition in scene.draw.some(TURNS, 4 * count):
        question = _question(composition, near, "train")
        if question and question.intent not in (first.intent, *found):
            found[question.intent] = question
        if len(found) == count:
            break
    return list(found.values())


def _row(scene: Scene, questions: list[Question], seed: str, ddl: str = "") -> dict[str, Any]:
    """The first question below the statements, the others after its answer."""
    tables = _shown(scene, questions[0].tables) if not ddl else questions[0].tables
    ddl = ddl or statements(scene, tables)
    turns: list[dict[str, str]] = []
    for question in questions:
        text = as_typed(question.text, scene.draw, question.keep)
        asked = text if turns else f"{ddl}\n{text}"
        turns += conversation(SYSTEM, asked, question.sql)[1 if turns else 0 :]
    return {
        "messages": turns,
        "tags": list(dict.fromkeys(tag for question in questions for tag in question.tags)),
        "level": max(question.level for question in questions),
        "schema": [_described(scene, table) for table in tables],
        "ddl": ddl,
        "seed": seed,
    }


def _shown(scene: Scene, needed: tuple[Placed, ...]) -> tuple[Placed, ...]:
    """The question's tables in the world's order, now and then with one that it does not need."""
    names = {table.name for table in needed}
    others = [table for table in scene.tables if table.name not in names]
    if others and scene.draw.chance(DISTRACTED):
        names.add(scene.draw.one(others).name)
    return tuple(table for table in scene.tables if table.name in names)


def _described(scene: Scene, table: Placed) -> dict[str, Any]:
    columns: list[list[Any]] = [[table.key, "key"]]
    if table.ref:
        parent = next(parent for parent, child in scene.pairs() if child.name == table.name)
        columns.append([table.ref, "ref", parent.name])
    return {"table": table.name, "rows": table.rows, "columns": [*columns, *table.specs]}
