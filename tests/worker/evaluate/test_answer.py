"""The answer is found among fences, labels and prose, by the same rule for every model."""

import pytest

from expert_worker.evaluate.answer import json_text, statement, unfenced


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("SELECT 1", "SELECT 1"),
        ("select 1 ;", "select 1"),
        ("```sql\nSELECT 1;\n```\nThis selects one.", "SELECT 1"),
        ("The query is: SELECT 1\n\nIt selects one.", "SELECT 1"),
        (
            "Sure!\nWITH a AS (SELECT ';' AS x) SELECT x FROM a; SELECT 2",
            "WITH a AS (SELECT ';' AS x) SELECT x FROM a",
        ),
        ("You can select rows with a query.", ""),
        ("", ""),
        ("```\nSELECT 1", "SELECT 1"),
    ],
)
def test_a_statement_is_cut_out(text: str, answer: str) -> None:
    assert statement(text, "SELECT", "WITH") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('Here: {"a": "}"} done', '{"a": "}"}'),
        ("```json\n[1, {}]\n```", "[1, {}]"),
        ('{"a": "\\"}"} trailing', '{"a": "\\"}"}'),
        ('{"a": [1', '{"a": [1'),
        ("nothing here", "nothing here"),
        ("12", "12"),
    ],
)
def test_json_is_cut_out(text: str, answer: str) -> None:
    assert json_text(text) == answer


def test_a_megabyte_is_looked_at_only_in_part() -> None:
    assert len(unfenced("x" * 1_000_000)) == 100_000
