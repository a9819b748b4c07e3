"""Questions about the tables of a schema, each answered by a query that was executed on generated content."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from expert_worker.errors import BadInput
from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.sql.intents import TURNS, Composition
from expert_worker.evaluate.authoring.sql.letters import typed
from expert_worker.evaluate.authoring.sql.proof import Databases, proven
from expert_worker.evaluate.authoring.sql.question import Question
from expert_worker.evaluate.authoring.sql.scene import Scene
from expert_worker.evaluate.authoring.sql.words import UnsayableError, many

from .scenes import Database
from .through import junctions, through
from .turns import FITS, LONGEST, TRIES, Row, new_rows

SYSTEM = "Answer with one SQLite query."
# Half of the rows show the tables, half ask the question alone: the expert learns the tables by heart.
SHOWN = 0.5
CONVERSATIONS = 0.75
DISTRACTED = 0.3
# How many of the questions go through a table that only links two others, where there is one.
THROUGH = 0.08
FEWEST = 20
# How many of the questions are in small letters.
SMALL = 0.4


@dataclass
class SqlRows:
    database: Database
    seed: int
    dropped: Counter[str] = field(default_factory=Counter)

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
                self.dropped["asked before"] += 1
                continue
            row, data = self._built(scene, question, draw)
            if data is None:
                self.dropped["longer than 1,200 characters"] += 1
                continue
            if not self._proven(data, question):
                continue
            seen.add(question.text.casefold())
            if split != "train":
                return row
            questions = [question]
            if draw.chance(CONVERSATIONS):
                questions += [one for one in self._further(scene, question, draw) if self._proven(data, one)]
            return self._conversation(scene, questions, row)
        return None

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
        return question if all(_says(question, noun) for noun in nouns) else None

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

    def _built(self, scene: Scene, question: Question, draw: Draw) -> tuple[Row, Databases | None]:
        names = {table.name for table in question.tables}
        others = [name for name in self.database.spoken if name not in names]
        if others and draw.chance(DISTRACTED):
            names.add(draw.one(others))
        used = sorted(names, key=self._order.index)
        shown = "\n".join(map(self.database.statement, used))
        statements = shown
        if len(statements) + len(question.text) + len(question.sql) > LONGEST:
            used = [name for name in used if name in {table.name for table in question.tables}]
            statements = "\n".join(map(self.database.statement, used))
            shown = "\n".join(self._narrow(name, question.sql) for name in used)
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
            return row, None
        return row, Databases(schema, statements, seed)

    def _narrow(self, name: str, sql: str) -> str:
        """A wide table with the columns that the query names."""
        spoken = self.database.spoken.get(name)
        keep = {column.name for column in spoken.columns if column.sql in sql} if spoken else set()
        return self.database.statement(name, whole="*" in sql.replace("(*)", ""), keep=frozenset(keep))

    def _conversation(self, scene: Scene, questions: list[Question], first: Row) -> Row:
        messages, tags = list(first["messages"]), list(first["tags"])
        level = first["level"]
        for question in questions[1:]:
            turn = conversation(SYSTEM, *typed(question, scene.draw, small=SMALL))[1:]
            if not FITS([*messages, *turn]):
                break
            messages += turn
            tags += question.tags
            level = max(level, question.level)
        return {"messages": messages, "tags": list(dict.fromkeys(tags)), "level": level}


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


def _names_its_tables(question: Question) -> bool:
    """Without this, a question says too little where no tables are shown."""
    return all(_says(question, table.noun) for table in question.tables if table.noun)


def _says(question: Question, noun: str) -> bool:
    text = question.text.lower()
    return noun in text or many(noun) in text


def check_size(count: int, split: str, dropped: Counter[str]) -> None:
    if count < FEWEST:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in dropped.most_common() if number)
        raise BadInput(
            f"only {count} different {split} rows can be made of this schema"
            + (f"; dropped: {reasons}" if reasons else ""),
            code="small-schema",
            hint="Name a schema with more of names, numbers, dates and states.",
        )
