"""The faults that mutation testing makes, and the score that CONTRIBUTING shows."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import record
import rust
from areas import AREAS, Python
from faults import faults


def changed(line: str) -> set[str]:
    source = f"def f(a, b):\n    {line}"
    found = faults(source)
    assert all(fault.within == "f" for fault in found)
    return {ast.unparse(fault.module.body[0].body[0]) for fault in found}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a = a < b", {"a = a <= b"}),
        ("a = a and b", {"a = a or b"}),
        ("a = not b", {"a = b"}),
        ("a = a + 2", {"a = a - 2", "a = a + 3"}),
        ("a += b", {"a -= b"}),
        ("a = True", {"a = False"}),
        ("return a", {"return None"}),
        ("b(a)", {"pass"}),
        ("raise ValueError('a' * 3)", {"pass"}),
        ("b = a['key']", {"b = a['key?']"}),
        ("b = {'key': a}", {"b = {'key?': a}"}),
        ("b = a if b else 0", {"b = a if not b else 0", "b = a if b else 1"}),
        ("'a text' + f'{a}'", set()),
        ("b = a / 'folder'", set()),
    ],
)
def test_what_is_changed(line: str, expected: set[str]) -> None:
    assert changed(line) == expected


def test_each_mutant_changes_one_place_and_is_named() -> None:
    found = faults("a = 1 + 1\nb = 1 + 1")
    assert len(found) == len({fault.name for fault in found}) == 6
    assert len({ast.unparse(fault.module) for fault in found}) == 6


def test_a_rust_function_becomes_a_choice_of_its_faults() -> None:
    text = "fn one() {}\nfn two(a: &[(u8, u8)]) -> bool {\n    a.len() > 1 // {\n}\n"
    start, sign = text.index("fn two"), text.index("> 1")
    function, body = (start, text.index("}\n", start) + 1), text.index("a.len()")
    faults = [
        rust.Fault(7, "f.rs", "sign", (sign, sign + 1), function, "<"),
        rust.Fault(9, "f.rs", "value", (body, body + len("a.len() > 1 // {")), function, "true"),
    ]
    made, arms = rust.instrumented(text, faults)
    assert made.startswith("fn one() {}\nfn two(a: &[(u8, u8)]) -> bool {\nmatch __fault() {\n")
    assert "number if !matches!(number, 7 | 9) => {\n    a.len() > 1" in made
    assert "7 => {\n    a.len() < 1" in made and "9 => {\n    true\n}" in made
    lines = made.splitlines()
    at = next(number for number, line in enumerate(lines, 1) if "a.len() < 1" in line)
    assert rust._at(arms, at) == [7]
    assert rust._at(arms, at - 3) == [7, 9], "an error in the code as it is takes all of them away"
    assert rust._at(arms, 1) == []


@pytest.mark.parametrize("area", [area for area in AREAS.values() if isinstance(area, Python)], ids=str)
def test_every_area_has_its_module_and_tests(area: Python) -> None:
    assert faults((record.ROOT / area.source).read_text())
    assert all((record.ROOT / test).is_file() for test in area.tests)


def test_an_interval_is_narrower_with_more_tries() -> None:
    assert record.interval(0, 0) == [0.0, 1.0]
    few, many = record.interval(9, 10), record.interval(900, 1000)
    assert few[0] < many[0] < 0.9 < many[1] < few[1]
    assert record.interval(10, 10)[1] == 1.0


def test_contributing_shows_the_newest_score() -> None:
    newest = record.newest()
    if newest is None:
        pytest.skip("no result is kept")
    text = (record.ROOT / "CONTRIBUTING.md").read_text()
    assert record.table(json.loads(newest.read_text())) in text


def test_every_reason_belongs_to_an_area() -> None:
    assert record.EXPLAINED.keys() <= AREAS.keys()
    assert all(reason for reasons in record.EXPLAINED.values() for reason in reasons.values())
