"""Draws questions, proves their answers on data, and deals them to the splits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import conversation, question_of
from expert_worker.evaluate.authoring.split import renamed, split_of
from expert_worker.evaluate.authoring.sql.proof import Databases, proven
from expert_worker.evaluate.authoring.turns import in_turn
from expert_worker.evaluate.scorers.sql_data import ddl

from . import grouped, joined, nested, plain
from .domains import worlds
from .scene import Question, Scene, stage

Composition = Callable[[Scene], Question | None]
SIMPLE: tuple[Composition, ...] = (
    plain.listing,
    plain.ordered,
    plain.counting,
    plain.aggregate,
    plain.distinct,
)
MIDDLE: tuple[Composition, ...] = (
    plain.choice,
    plain.fallback,
    grouped.group_count,
    grouped.group_aggregate,
    grouped.having,
    grouped.per_period,
    grouped.days_since,
    joined.join_list,
)
HARD: tuple[Composition, ...] = (
    grouped.share,
    joined.join_group,
    joined.left_count,
    joined.membership,
    joined.exists,
    joined.set_operation,
    nested.above_average,
    nested.extreme,
    nested.own_group,
    nested.totals,
    nested.best_of_each,
    nested.ranking,
    nested.running,
    nested.step,
)
# People ask simple questions more often than hard ones, and so does this set.
TURNS = SIMPLE * 4 + MIDDLE * 3 + HARD
SYSTEM = "Answer with one SQLite query."
KEYWORDS = {
    "select",
    "from",
    "where",
    "group",
    "by",
    "having",
    "order",
    "limit",
    "join",
    "left",
    "on",
    "as",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "like",
    "between",
    "distinct",
    "case",
    "when",
    "then",
    "else",
    "end",
    "exists",
    "union",
    "intersect",
    "except",
    "with",
    "over",
    "partition",
    "asc",
    "desc",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "coalesce",
    "strftime",
    "julianday",
    "rank",
    "row_number",
    "lag",
}
TOKEN = re.compile(r"'[^']*'|\d+(?:\.\d+)?|[A-Za-z_]\w*|[^\s\w]")
TRIES = 400
TRAINED = ("messages", "tags", "level")


def skeleton(sql: str) -> str:
    """The statement with literals blanked and identifiers renamed by order: two answers that share it differ in names only."""
    tokens = TOKEN.findall(sql)
    names = renamed([token for token in tokens if _is_name(token)])
    return " ".join(names.get(token) or _blanked(token) for token in tokens)


def _is_name(token: str) -> bool:
    return (token[0].isalpha() or token[0] == "_") and token.lower() not in KEYWORDS


def _blanked(token: str) -> str:
    if token[0] == "'":
        return "'?'"
    return "0" if token[0].isdigit() else token.upper()


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""
    scenes = worlds(split)

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, scenes, draw, split)

    return in_turn(TURNS, attempts, f"sql/{seed}/{split}", count, _asked)


def _asked(row: dict[str, Any]) -> str:
    """The question itself: the same one over a table with another column left out is not a new question."""
    return question_of(row).splitlines()[-1]


def _attempts(
    composition: Composition, stages: list[Any], draw: Draw, split: str
) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        scene = stage(draw.one(stages), draw)
        question = composition(scene)
        if question is None or split_of(skeleton(question.sql)) != split:
            continue
        row = _row(scene, question, f"{draw.below(10**9):09d}")
        if proven(Databases(row["schema"], ddl(row["schema"]), row["seed"]), question):
            yield row if split != "train" else {key: row[key] for key in TRAINED}


def _row(scene: Scene, question: Question, seed: str) -> dict[str, Any]:
    shown = (scene.parent.name, scene.child.name) if scene.draw.chance(0.15) else question.tables
    schema = scene.schema(shown)
    return {
        "messages": conversation(SYSTEM, f"{ddl(schema)}\n{question.text}", question.sql),
        "tags": list(dict.fromkeys(["literal", *question.tags, *_aliased(scene, question)])),
        "level": question.level,
        "schema": schema,
        "seed": seed,
    }


def _aliased(scene: Scene, question: Question) -> list[str]:
    """Marks the questions that speak of a column by another word than its name."""
    columns = (*scene.parent.columns, *scene.child.columns)
    return ["alias"] if any(c.phrase != c.name and c.phrase in question.text for c in columns) else []
