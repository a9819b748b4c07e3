"""Each built-in scorer takes every usable reference as right, and no row that it cannot use is an answer's
fault.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plans import example_plan

from expert_worker.errors import BadInput
from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scored_rows import check_on_references, scored_rows
from expert_worker.evaluate.scorers import BUILT_IN, ChosenScorer, find_scorer
from expert_worker.evaluate.scorers.exact import ExactScorer
from expert_worker.evaluate.verdict import Verdict
from expert_worker.events import Events

NAMES = ["name", "name", ["Argo", "Nova"]]
PETS = {"seed": "s", "schema": [{"table": "pets", "rows": 4, "columns": [["id", "key"], NAMES]}]}
GRAPH = {"seed": "s", "graph": {"nodes": [{"label": "Pet", "count": 4, "columns": [NAMES]}], "edges": []}}
USABLE: list[tuple[str, dict[str, Any]]] = [
    ("exact", {"completion": "```sql\nSELECT 1\n```"}),
    ("exact", {"completion": "Write ```sql here"}),
    ("json", {"completion": '{"md": "```js\\nx\\n```"}'}),
    ("json", {"completion": "true"}),
    ("json", {"completion": '```json\n{"a": 1}\n```'}),
    ("typescript", {"completion": "const s = `a` + '```';"}),
    ("typescript", {"completion": 'const s = "see ```";'}),
    ("typescript", {"completion": "```ts\nconst x = 1\n```"}),
    ("regex", {"completion": r"\d+"}),
    ("regex", {"completion": "", "pattern": "(a|b)"}),
    ("contains", {"completion": "", "contains": ["a"]}),
    ("contains", {"completion": "```py\nx\n```"}),
    ("contains", {"completion": "a", "contains": None}),
    ("regex", {"completion": r"\d+", "pattern": None}),
    ("sql", {**PETS, "completion": "WITH a AS (SELECT id FROM pets)\n\nSELECT COUNT(*) FROM a"}),
    ("sql", {**PETS, "completion": "/* c */ SELECT id FROM pets"}),
    ("sql", {**PETS, "completion": "(SELECT id FROM pets)"}),
    ("sql", {**PETS, "completion": "VALUES (1)"}),
    ("sql", {**PETS, "completion": "SELECT id -- don't count\nFROM pets; "}),
    ("sql", {**PETS, "completion": "```sql\nSELECT id FROM pets\n```"}),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet)\n\nRETURN p.name"}),
]
UNUSABLE: list[tuple[str, dict[str, Any], str]] = [
    ("sql", {"completion": "SELECT 1"}, "it has no field seed and no field schema"),
    ("sql", {**PETS, "completion": "SELEC name FROM pets"}, "there is no query in the reference answer"),
    ("sql", {**PETS, "completion": "SELECT nam FROM pets"}, "SQLite: no such column: nam"),
    ("sql", {**PETS, "schema": [{}], "completion": "SELECT 1"}, "its database cannot be built: KeyError"),
    ("cypher", {"completion": "MATCH (n) RETURN n", "seed": 1}, "it has no field graph"),
    ("cypher", {**GRAPH, "completion": "MATCH (c:Cat) RETURN c.x"}, "Table Cat does not exist"),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet) DELETE p"}, "DELETE is not allowed in a query"),
    ("json", {"completion": "{'a': 1}"}, "the reference answer is not JSON"),
    ("typescript", {"completion": "const x: = 3"}, "the reference answer is not TypeScript"),
    ("regex", {"completion": "(abc"}, "'(abc' is not a regular expression"),
    ("regex", {"completion": "a", "pattern": ""}, "its regular expression is empty"),
    ("contains", {"completion": "a", "contains": []}, "its list `contains` is empty"),
    ("contains", {"completion": "a", "contains": ["b", " "]}, "a text that answers should contain is empty"),
    ("contains", {"completion": ""}, "a text that answers should contain is empty"),
    ("rouge", {"completion": "!!!"}, "precision 0.00, recall 0.00"),
]


@pytest.mark.parametrize("scorer", sorted({name for name, _ in USABLE}))
def test_a_usable_reference_is_right_when_a_model_writes_it(scorer: str) -> None:
    rows = [row for name, row in USABLE if name == scorer]
    check_on_references(ChosenScorer(scorer), rows, None)
    written = [row for row in rows if scorer not in ("regex", "contains") or row["completion"][:1] == "`"]
    found = judge_all(scorer, written, [str(row["completion"]) for row in written])
    assert found == [Verdict(1.0)] * len(written)


@pytest.mark.parametrize(("scorer", "row", "reason"), UNUSABLE)
def test_a_row_that_cannot_be_used_is_refused(scorer: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(
        BadInput, match=f"1 of 1 reference answers cannot be right by the scorer {scorer}"
    ) as said:
        check_on_references(ChosenScorer(scorer), [row], None)
    assert "scored row 1: " in said.value.message and reason in said.value.message


SCHEMA = '{"type": "object"}'
KEYED = "CREATE TABLE pets (id INTEGER PRIMARY KEY, name TEXT)"
NOTHING = "return no rows, or one cell of 0 or null, on all three"
STORED = "depend on the order in which rows are stored"
ALIKE = "as schemas accept all `instances` of their row, or none"
WEAK: list[tuple[str, dict[str, Any], str]] = [
    ("sql", {**PETS, "completion": "SELECT id FROM pets WHERE name = 'Rex'"}, f"{NOTHING} databases"),
    ("sql", {**PETS, "completion": "SELECT COUNT(*) FROM pets WHERE name = 'Rex'"}, f"{NOTHING} databases"),
    ("sql", {**PETS, "completion": "SELECT MAX(id) FROM pets WHERE name = 'Rex'"}, f"{NOTHING} databases"),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet {name: 'Rex'}) RETURN p.name"}, f"{NOTHING} graphs"),
    ("sql", {**PETS, "completion": "SELECT name FROM pets LIMIT 2"}, STORED),
    ("sql", {**PETS, "ddl": KEYED, "completion": "SELECT name FROM pets LIMIT 2"}, STORED),
    ("sql", {**PETS, "completion": "SELECT group_concat(name) FROM pets"}, STORED),
    ("sql", {**PETS, "completion": "SELECT name, COUNT(*) FROM pets"}, STORED),
    ("sql", {**PETS, "completion": "SELECT id % 2, name FROM pets GROUP BY id % 2"}, STORED),
    ("sql", {**PETS, "completion": "SELECT id FROM (SELECT id FROM pets ORDER BY id > 0 LIMIT 1)"}, STORED),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet) RETURN p.name LIMIT 2"}, STORED),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet) WITH p SKIP 1 RETURN p.name"}, STORED),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet) RETURN collect(p.name)[1]"}, STORED),
    ("json", {"completion": SCHEMA, "instances": [{}, {"a": 1}]}, ALIKE),
    ("json", {"completion": SCHEMA, "instances": [1, None]}, ALIKE),
]
STRONG: list[tuple[str, dict[str, Any]]] = [
    ("sql", {**PETS, "completion": "SELECT COUNT(*) FROM pets"}),
    ("sql", {**PETS, "completion": "SELECT 0, 1"}),
    ("sql", {**PETS, "completion": "SELECT name FROM pets ORDER BY id > 0 LIMIT 2"}),
    ("sql", {**PETS, "completion": "SELECT id % 2, COUNT(*) FROM pets GROUP BY id % 2"}),
    ("sql", {**PETS, "completion": "SELECT name FROM pets WHERE id = (SELECT MAX(id) FROM pets)"}),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet) RETURN p.name ORDER BY p.name LIMIT 2"}),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet) RETURN p.name AS n ORDER BY p.name > 'a' LIMIT 2"}),
    ("cypher", {**GRAPH, "completion": "MATCH (p:Pet) RETURN collect(p.name)"}),
    ("json", {"completion": SCHEMA, "instances": [1, {}]}),
    ("json", {"completion": SCHEMA}),
]


@pytest.mark.parametrize(("scorer", "row", "reason"), WEAK)
def test_a_reference_that_many_wrong_answers_equal_is_warned_of(
    scorer: str, row: dict[str, Any], reason: str
) -> None:
    events, memory = Events.in_memory("evaluate")
    strong = [other for name, other in STRONG if name == scorer]
    check_on_references(ChosenScorer(scorer), [*strong, row], events, "", lambda: ["a.jsonl:7"] * 9)
    (warning,) = [event.body for event in memory.events if event.body.type == "warning"]
    assert warning.code == "weak-references"
    assert warning.message == f"1 of {len(strong) + 1} reference answers {reason}: a.jsonl:7"
    is_stored = reason == STORED
    assert (warning.hint or "").startswith("Right answers" if is_stored else "Wrong answers")


@pytest.mark.parametrize("scorer", ["sql", "cypher", "json", "typescript", "regex", "contains"])
def test_a_row_that_cannot_be_used_is_not_a_wrong_answer(scorer: str) -> None:
    rows = [row for name, row, reason in UNUSABLE if name == scorer and "not allowed" not in reason]
    answer = "MATCH (p:Pet) RETURN p" if scorer == "cypher" else "SELECT 1"
    for row in rows:
        said = judged(find_scorer(scorer), row, answer)
        assert said.failed and said.reason.startswith("The row cannot be scored: ")


def test_an_unexpected_error_is_the_rows_where_its_reference_raises_it_too() -> None:
    class Picky(ExactScorer):
        def judge(self, row: Any, answer: str) -> Verdict:
            return Verdict(1 / len(answer) * row["weight"])

    assert judged(Picky(), {"completion": "a", "weight": 1}, "").failed is False
    said = judged(Picky(), {"completion": "a"}, "a")
    assert said.failed and said.reason == "The row cannot be scored: KeyError: 'weight'"


def test_every_built_in_scorer_is_checked() -> None:
    assert {name for name, _ in USABLE} | {"rouge", "chrf", "classification"} == set(BUILT_IN)


def test_each_row_is_named_by_its_file_and_line(tmp_path: Path) -> None:
    path, other = tmp_path / "test.jsonl", tmp_path / "other.jsonl"
    lines = [json.dumps({"prompt": "?", "completion": text}) for text in ("1", "x", *(["y"] * 6))]
    path.write_text("\n\n".join(lines))
    other.write_text('{"prompt": "?", "completion": "two"}')
    names = {"data/test.jsonl": path, "other.jsonl": other}
    plan = example_plan(
        tmp_path,
        {
            "recipe.data.test": [
                {"name": name, "format": "jsonl", "weight": 1.0, "task": None} for name in names
            ],
            "recipe.evaluation.scorer": "json",
            "machine.paths.data": {name: str(place) for name, place in names.items()},
        },
    )
    events, memory = Events.in_memory("evaluate")
    with pytest.raises(BadInput, match="8 of 9 reference answers") as said:
        scored_rows(plan, events)
    found = said.value.message
    assert "data/test.jsonl:3: the" in found and "data/test.jsonl:11: the" in found and "and 3 more" in found
    assert not memory.events, "a quick check is not shown"
    path.write_text('{"prompt": "?", "completion": "1"}\n')
    with pytest.raises(BadInput, match=r"other\.jsonl:1: the reference answer is not JSON"):
        scored_rows(plan)
