"""Draws questions, proves their answers on data, and deals them to the splits."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import as_typed
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.split import renamed, split_of
from expert_worker.evaluate.authoring.turns import in_turn
from expert_worker.evaluate.scorers.sql import DATABASES, is_ordered, same
from expert_worker.evaluate.scorers.sql_data import build

from . import grouped, joined, nested, plain
from .question import Question
from .scene import Placed, Scene, stage
from .statements import statements
from .words import UnsayableError
from .worlds import worlds

Composition = Callable[[Scene], Question | None]
# How often each is asked among a hundred: people ask simple questions more often than hard ones.
SHARES: tuple[tuple[Composition, int], ...] = (
    (plain.listing, 14),
    (plain.whole, 2),
    (plain.columns, 8),
    (plain.counting, 10),
    (plain.aggregate, 9),
    (plain.ends, 2),
    (plain.top, 10),
    (plain.ordered, 5),
    (plain.distinct, 4),
    (plain.lookup, 5),
    (grouped.group_count, 8),
    (grouped.group_value, 6),
    (grouped.group_top, 5),
    (grouped.having, 3),
    (grouped.per_period, 2),
    (joined.join_list, 4),
    (joined.children_of, 6),
    (joined.parent_of, 1),
    (joined.children_where, 4),
    (plain.choice, 1),
    (plain.fallback, 1),
    (plain.days_since, 1),
    (plain.product, 1),
    (nested.extreme, 1),
    (joined.join_group, 3),
    (joined.join_top, 2),
    (joined.join_having, 1),
    (joined.membership, 3),
    (joined.left_count, 1),
    (joined.two_joins, 1),
    (joined.set_operation, 1),
    (nested.above_average, 2),
    (grouped.share, 1),
    (nested.ranking, 1),
    (nested.own_group, 1),
    (nested.totals, 1),
    (nested.best_of_each, 1),
    (nested.over_time, 1),
)
TURNS = Draw("turns").shuffled([composition for composition, share in SHARES for _ in range(share)])
SYSTEM = "Answer with one SQLite query."
# Answers up to this level have skeletons that every user needs, so they are held apart by their worlds only.
SHARED_LEVEL = 2
_KEYWORDS_TEXT = """
select from where group by having order limit join left on as and or not in is null like between
distinct case when then else end exists union intersect except with over partition asc desc count sum
avg min max coalesce strftime julianday rank row_number lag
"""
KEYWORDS = frozenset(_KEYWORDS_TEXT.split())
TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|\d+(?:\.\d+)?|[A-Za-z_]\w*|[^\s\w]""")
TRIES = 400
# Characters of a row, so that it fits into 512 tokens.
LONGEST = 1200
# How many of the training rows have several questions on the same tables, and how many rows show a table too many.
CONVERSATIONS = 0.75
DISTRACTED = 0.2
TRAINED = ("messages", "tags", "level")


def skeleton(sql: str) -> str:
    """The statement with literals blanked and identifiers renamed by order: two answers that share it differ in names only."""
    tokens = TOKEN.findall(sql)
    names = renamed([token for token in tokens if _is_name(token)])
    return " ".join(names.get(token) or _blanked(token) for token in tokens)


def _is_name(token: str) -> bool:
    return token[0] == '"' or ((token[0].isalpha() or token[0] == "_") and token.lower() not in KEYWORDS)


def _blanked(token: str) -> str:
    if token[0] == "'":
        return "'?'"
    return "0" if token[0].isdigit() else token.upper()


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


class Databases:
    """A row's databases, each with its rows in one order and in the opposite one."""

    def __init__(self, schema: list[dict[str, Any]], ddl: str, seed: str) -> None:
        self.tables = [str(table["table"]) for table in schema]
        self._schema, self._ddl, self._seed = schema, ddl, seed
        self._pairs: list[tuple[sqlite3.Connection, sqlite3.Connection]] = []

    def __iter__(self) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
        for place in range(DATABASES):
            if place == len(self._pairs):
                seed = f"{self._seed}/{place}"
                forth = build(self._schema, seed, statements=self._ddl)
                back = build(self._schema, seed, statements=self._ddl, reverse=True)
                self._pairs.append((forth, back))
            yield self._pairs[place]


def proven(data: Databases, question: Question) -> bool:
    """Whether the answer says something on every database, depends on no hidden order, and is not a careless one's."""
    in_order = is_ordered(question.sql)
    told_apart = [False] * len(question.weaker)
    for forth, back in data:
        result = _result(forth, question.sql)
        if not _is_informative(result) or not same(result, _result(back, question.sql), in_order):
            return False
        if any(same(result, _result(forth, f'SELECT * FROM "{table}"'), False) for table in data.tables):
            return False
        for place, weaker in enumerate(question.weaker):
            told_apart[place] |= not same(result, _result(forth, weaker), in_order)
    return all(told_apart)


def _result(connection: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def _is_informative(result: list[tuple[Any, ...]]) -> bool:
    return any(value not in (None, 0) for line in result for value in line)
