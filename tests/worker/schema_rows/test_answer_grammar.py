"""Which schemas are offered as the grammar of answers."""

import json
from pathlib import Path

import pytest

from expert_worker.schema_rows.answer_grammar import fits
from expert_worker.schema_rows.document import read_document
from expert_worker.schema_rows.json_rows import JsonRows
from expert_worker.schema_rows.payload import read_schema

ORDER = Path(__file__).parent / "ddl" / "order.json"
SCHEMA = {
    "type": "object",
    "required": ["a"],
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "number"}}},
}
ANSWERS = ['{"a": "caf\u00e9", "b": [1.5, 2]}', '{"a": ""}']


@pytest.mark.parametrize(
    ("change", "answers", "expected"),
    [
        ({}, ANSWERS, True),
        ({}, ['{"b": [], "a": "x"}'], False),
        ({}, [*ANSWERS, '{"b": []}'], False),
        ({}, ['{"a": "x"'], False),
        ({"uniqueItems": True, "type": "array"}, ["[1]"], False),
        ({"description": "x" * (256 << 10)}, ANSWERS, False),
    ],
    ids=["fits", "another order", "a key is missing", "not whole", "not known", "too large"],
)
def test_a_grammar_that_every_answer_fits(
    change: dict[str, object], answers: list[str], expected: bool
) -> None:
    assert fits(json.dumps({**SCHEMA, **change}).encode(), answers) is expected


def test_answers_of_generated_rows_fit() -> None:
    order = json.loads(ORDER.read_text())
    text = json.dumps(order).replace(', "uniqueItems": true', "")
    document = read_document(text.encode(), "order.json")
    answers = [row["messages"][-1]["content"] for row in JsonRows(read_schema(document), 1).rows("train", 60)]
    assert len(answers) == 60 and fits(document.copy, answers)
    assert not fits(ORDER.read_bytes(), answers)
