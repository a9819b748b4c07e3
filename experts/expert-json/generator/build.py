"""Draws tasks, checks that none is trivial, and deals them to the splits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import answered, conversation, within_characters
from expert_worker.evaluate.authoring.split import split_of
from expert_worker.evaluate.authoring.turns import in_turn
from expert_worker.evaluate.authoring.written import among, written_rows

from . import compose, convert, extract, lists, receipts, repair, reshape, schema
from .literal.rows import rows as literal_rows
from .shape import shape
from .task import Composition, Task, compact
from .worlds import World, worlds

SYSTEM = "Answer with JSON only."
# How often each composition has its turn.
SHARES: dict[Composition, int] = {
    extract.sentence: 12,
    extract.labelled: 7,
    extract.unlabelled: 4,
    extract.every: 3,
    extract.normalized: 4,
    extract.absent: 3,
    extract.lists: 2,
    extract.template: 4,
    extract.typed: 5,
    extract.phrased: 2,
    extract.renamed: 2,
    extract.many: 3,
    extract.nested: 2,
    extract.letters: 2,
    receipts.priced: 2,
    receipts.summed: 1,
    receipts.counted: 2,
    compose.one: 8,
    compose.config: 3,
    compose.body: 3,
    compose.nested: 3,
    compose.with_list: 2,
    compose.records: 2,
    compose.array: 3,
    compose.numbers: 1,
    convert.table: 6,
    convert.yaml: 4,
    convert.xml: 2,
    convert.pairs: 4,
    convert.lines: 3,
    repair.one_fault: 12,
    repair.two_faults: 2,
    repair.wrapped: 2,
    reshape.pick: 3,
    reshape.drop: 3,
    reshape.rename: 4,
    reshape.update: 3,
    reshape.add: 2,
    reshape.flatten: 2,
    reshape.nest: 2,
    reshape.unnest: 1,
    reshape.unwrap: 2,
    reshape.deep: 3,
    reshape.nulls: 2,
    reshape.recase: 2,
    reshape.numeric: 2,
    reshape.stringify: 1,
    reshape.pairs: 2,
    reshape.swap: 1,
    reshape.keys_or_values: 1,
    reshape.merge: 1,
    lists.pluck: 4,
    lists.filter_word: 3,
    lists.filter_flag: 2,
    lists.filter_number: 2,
    lists.ordered: 2,
    lists.ends: 1,
    lists.index: 2,
    lists.group: 1,
    lists.count: 3,
    lists.count_by: 1,
    lists.aggregate: 2,
    lists.extreme: 2,
    lists.unique: 2,
    lists.each: 2,
    lists.columns: 1,
    schema.schema: 6,
    schema.inferred: 2,
    schema.instance: 1,
}
TURNS: list[Composition] = Draw("json/turns").shuffled(
    [it for it, share in SHARES.items() for _ in range(share)]
)
TRIES = 400
LONGEST_ANSWER = 330
LONGEST_QUESTION = 620
# Answers with fewer values than this have too few shapes to divide: they are learnt and tested in every split.
DIVIDED = 4
# How many of the training rows are written by hand.
WRITTEN = Fraction(1, 2)
# How many name columns, keys and types literally; WRITTEN is the share of the others.
LITERAL = Fraction(1, 5)
TRAINED = ("messages", "tags", "level")
FOLDER = Path(__file__).parent / "written"


def skeleton(answer: str) -> str | None:
    """The answer's shape: names by order of appearance, values by type, lists by length. None for a short answer,
    which is not divided among the splits."""
    value = json.loads(answer)
    return shape(value) if _values(value) >= DIVIDED else None


def _values(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(_values(part) for part in (value.values() if isinstance(value, dict) else value))
    return 1


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, worlds(split), draw, split)

    generated = in_turn(TURNS, attempts, f"json/{seed}/{split}", count)
    if split != "train":
        return generated
    fits = within_characters(LONGEST_QUESTION + LONGEST_ANSWER)
    written = written_rows(FOLDER, SYSTEM, fits, f"json/{seed}", wanted=_is_trained, level=lambda _: 1)
    everyday = among(generated, written, WRITTEN, count)
    literal = answered(literal_rows("train", count, seed), _is_trained)
    return among(everyday, literal, LITERAL, count)


def _is_trained(answer: str) -> bool:
    """Answers of one shape belong to one split."""
    form = skeleton(answer)
    return len(answer) <= LONGEST_ANSWER and (form is None or split_of(form) == "train")


def _attempts(
    composition: Composition, found: tuple[World, ...], draw: Draw, split: str
) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        task = composition(draw.one(found), draw)
        if task is None or _trivial(task) or len(task.question) > LONGEST_QUESTION:
            continue
        answer = compact(task.answer)
        form = skeleton(answer)
        if len(answer) > LONGEST_ANSWER or (form is not None and split_of(form) != split):
            continue
        row = {
            "messages": conversation(SYSTEM, task.question, answer),
            "tags": list(task.tags),
            "level": task.level,
            "instances": task.instances,
        }
        yield row if split != "train" else {key: row[key] for key in TRAINED}


def _trivial(task: Task) -> bool:
    """Empty, or already there in the question."""
    return task.answer in ({}, [], None) or compact(task.answer) in task.question
