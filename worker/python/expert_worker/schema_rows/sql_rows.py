"""Questions about the tables of a schema, each answered by a query that was executed on generated content."""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import Messages, conversation
from expert_worker.evaluate.authoring.sql.intents import TURNS, Composition
from expert_worker.evaluate.authoring.sql.letters import typed
from expert_worker.evaluate.authoring.sql.proof import Databases, proven
from expert_worker.evaluate.authoring.sql.question import Question
from expert_worker.evaluate.authoring.sql.scene import Scene
from expert_worker.evaluate.authoring.sql.words import UnsayableError, many

from .columns import sql_name
from .scenes import Database
from .through import junctions, through
from .turns import AGAIN, FITS, LONGEST, TOO_LONG, TRIES, Row, new_rows

SYSTEM = "Answer with one SQLite query."
# Half of the rows show the tables, half ask the question alone: the expert learns the tables by heart.
SHOWN = 0.5
CONVERSATIONS = 0.75
DISTRACTED = 0.3
# How many of the questions go through a table that only links two others, where there is one.
THROUGH = 0.08
# How many of the questions are in small letters.
SMALL = 0.4
_SET_OPERATION = re.compile(r" (?:UNION|INTERSECT|EXCEPT) ")
_NAME = r"((?:\"[^\"]+\"|\w+)(?:\.(?:\"[^\"]+\"|\w+))?)"
_MISSING = re.compile(_NAME + " IS NULL")
_COMPUTED = re.compile(r"(?:AVG|SUM|MIN|MAX)\((?:DISTINCT )?" + _NAME + r"\)")
_RANKED = re.compile("ORDER BY " + _NAME)
_EVERY_COLUMN = re.compile(r"(SELECT |\.)\*")

# Table -> its columns that are shown beside its keys.
Kept = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class _Built:
    """A row with its first question. `data` is missing where it is too long."""

    row: Row
    data: Databases | None
    # Where the tables are shown in part: which ones, and what is shown of them so far.
    in_part: tuple[str, ...] = ()
    shown: str = ""


@dataclass
class SqlRows:
    database: Database
    seed: int
    dropped: Counter[str] = field(default_factory=Counter)
    # Tables that are too wide for a row, at least beside another one.
    in_part: set[str] = field(default_factory=set)
    # Tables that a question is about.
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._junctions = junctions(self.database)
        self._order = [table.name for table in self.database.schema.tables]

    def rows(self, split: str, count: int) -> Iterator[Row]:
        """At most `count` rows: conversations to train on, single questions to be asked."""
        seen: set[str] = set()

        def made(turn: int) -> Row | None:
            draw = Draw(f"ddl/{self.seed}/{split}/{turn}")
            return self._row(TURNS[turn % len(TURNS)], draw, split, seen)

        return new_rows(count, seen, made)

    def _row(self, composition: Composition, draw: Draw, split: str, seen: set[str]) -> Row | None:
        linked = bool(self._junctions) and draw.chance(THROUGH)
        for _ in range(TRIES):
            found = self._question(composition, draw, split != "train", linked=linked)
            if found is None:
                continue
            question, scene = found
            if question.text.casefold() in seen:
                self.dropped[AGAIN] += 1
                continue
            built = self._built(scene, question, draw)
            data = built.data
            if data is None:
                self.dropped[TOO_LONG] += 1
                continue
            if not self._proven(data, question):
                continue
            seen.add(question.text.casefold())
            questions = [question]
            if split == "train" and draw.chance(CONVERSATIONS):
                questions += [one for one in self._further(scene, question, draw) if self._proven(data, one)]
            self.asked |= self._used(questions)
            row = self._conversation(scene, questions, built)
            return row if split == "train" else {**built.row, "messages": row["messages"]}
        return None

    def _used(self, questions: Sequence[Question]) -> set[str]:
        names = {table.name for question in questions for table in question.tables}
        others = self.database.spoken.keys() - names
        return names | {name for name in others if any(sql_name(name) in one.sql for one in questions)}

    def _question(
        self, composition: Composition, draw: Draw, held_out: bool, *, linked: bool
    ) -> tuple[Question, Scene] | None:
        if linked:
            return through(self.database, self._junctions, draw, held_out=held_out)
        scene = self.database.scene(draw, held_out=held_out)
        question = self._asked(composition, scene)
        return (question, scene) if question else None

    def _asked(self, composition: Composition, scene: Scene) -> Question | None:
        question = _asked(composition, scene)
        if question is None:
            return None
        # Home teams and away teams have other matches: without the word, a question asks about both.
        nouns = [table.noun for table in question.tables if table.noun in self.database.told_apart]
        said = all(_says(question, noun) for noun in nouns)
        return question if said and not contradicts_itself(question.sql) else None

    def _proven(self, data: Databases, question: Question) -> bool:
        try:
            found = proven(data, question)
        except (sqlite3.Error, sqlite3.Warning):
            self.dropped["refused by SQLite"] += 1
            return False
        if not found:
            self.dropped["empty or ambiguous on generated content"] += 1
        return found

    def _further(self, scene: Scene, first: Question, draw: Draw) -> list[Question]:
        """Other questions about the tables of the first one, each of another kind."""
        names = {table.name for table in first.tables}
        near = replace(scene, tables=tuple(table for table in scene.tables if table.name in names))
        count = draw.between(2, 4)
        found: dict[str, Question] = {}
        for composition in draw.some(TURNS, 4 * count):
            question = self._asked(composition, near)
            if question and question.intent not in (first.intent, *found) and _names_its_tables(question):
                found[question.intent] = question
            if len(found) == count:
                break
        return list(found.values())

    def _built(self, scene: Scene, question: Question, draw: Draw) -> _Built:
        names = {table.name for table in question.tables}
        others = [name for name in self.database.spoken if name not in names]
        if others and draw.chance(DISTRACTED):
            names.add(draw.one(others))
        used = sorted(names, key=self._order.index)
        statements = shown = "\n".join(map(self.database.statement, used))
        in_part: tuple[str, ...] = ()
        if len(statements) + len(question.text) + len(question.sql) > LONGEST:
            used = [name for name in used if name in {table.name for table in question.tables}]
            statements = "\n".join(map(self.database.statement, used))
            in_part = tuple(used)
            shown = self._statements(self._needed(in_part, [question.sql]))
        placed = {table.name: table for table in scene.tables}
        schema = [self.database.described(name, placed.get(name), draw) for name in used]
        seed = f"{draw.below(10**9):09d}"
        alone = _names_its_tables(question) and not draw.chance(SHOWN)
        text, answer = typed(question, draw, small=SMALL)
        messages = conversation(SYSTEM, text if alone else f"{shown}\n{text}", answer)
        row: Row = {
            "messages": messages,
            "tags": ["question-only" if alone else "tables-shown", *question.tags],
            "level": question.level,
            "schema": schema,
            "ddl": statements,
            "seed": seed,
        }
        if not FITS(messages):
            return _Built(row, None)
        return _Built(row, Databases(schema, statements, seed), () if alone else in_part, shown)

    def _needed(self, names: Sequence[str], queries: Sequence[str]) -> Kept:
        """The columns that the queries name."""
        text = "\n".join(queries)
        is_whole = _EVERY_COLUMN.search(text)
        return {
            name: frozenset(
                column
                for column, written in self.database.columns(name)
                if is_whole or re.search(rf"(?<!\w){re.escape(written)}(?!\w)", text)
            )
            for name in names
        }

    def _statements(self, kept: Kept) -> str:
        return "\n".join(self.database.statement(name, columns) for name, columns in kept.items())

    def _filled(self, kept: Kept, room: int, draw: Draw) -> Kept:
        """With others at random, as many as there is room for: people show more than a query needs."""
        others = draw.shuffled(
            [
                (name, column)
                for name, columns in kept.items()
                for column, _ in self.database.columns(name)
                if column not in columns
            ]
        )

        def wider(count: int) -> Kept:
            return {
                name: columns | {column for table, column in others[:count] if table == name}
                for name, columns in kept.items()
            }

        fitting = bisect_right(
            range(1, len(others) + 1), room, key=lambda it: len(self._statements(wider(it)))
        )
        found = wider(fitting)
        self.in_part |= {table for table, _ in others[fitting:]}
        return found

    def _conversation(self, scene: Scene, questions: list[Question], built: _Built) -> Row:
        messages, tags = list(built.row["messages"]), list(built.row["tags"])
        level, queries, shown = built.row["level"], [questions[0].sql], built.shown
        for question in questions[1:]:
            turn = conversation(SYSTEM, *typed(question, scene.draw, small=SMALL))[1:]
            longer, needed = [*messages, *turn], shown
            if built.in_part:
                needed = self._statements(self._needed(built.in_part, [*queries, question.sql]))
                longer = _showing(needed, longer, shown)
            if not FITS(longer):
                break
            messages, shown = longer, needed
            queries.append(question.sql)
            tags += question.tags
            level = max(level, question.level)
        if built.in_part:
            room = LONGEST - sum(len(it["content"]) for it in messages) + len(shown)
            kept = self._filled(self._needed(built.in_part, queries), room, scene.draw)
            messages = _showing(self._statements(kept), messages, shown)
        return {"messages": messages, "tags": list(dict.fromkeys(tags)), "level": level}


def _showing(tables: str, messages: Messages, before: str) -> Messages:
    """With these tables above the first question, instead of those before."""
    system, first, *others = messages
    question = first["content"].removeprefix(before)
    return [system, {**first, "content": tables + question}, *others]


def _asked(composition: Composition, scene: Scene) -> Question | None:
    try:
        question = composition(scene)
    except UnsayableError:
        return None
    if question is None or len(question.tables) > 1:
        return question
    # Of the staff, support reps are those that customers refer to: alone they are not what the table has.
    only = question.tables[0]
    return question if only.noun in only.table.nouns else None


def contradicts_itself(sql: str) -> bool:
    """Whether it computes or ranks by values that are to be missing, or sets a selection against itself."""
    sides = _SET_OPERATION.split(sql)
    if len(sides) == 2 and sides[0] == sides[1]:
        return True
    missing = {found[1] for found in _MISSING.finditer(sql)}
    computed = {found[1] for pattern in (_COMPUTED, _RANKED) for found in pattern.finditer(sql)}
    return bool(missing & computed)


def _names_its_tables(question: Question) -> bool:
    """Without this, a question says too little where no tables are shown."""
    return all(_says(question, table.noun) for table in question.tables if table.noun)


def _says(question: Question, noun: str) -> bool:
    text = question.text.lower()
    return noun in text or many(noun) in text
