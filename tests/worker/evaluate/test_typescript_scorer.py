"""TypeScript is right when it says the same, in whatever style."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers.typescript import TypescriptScorer

GOLD = """function pick(users: User[]): string[] {
  return users.filter((user) => user.age > 3 && user.active).map((user) => user.name);
}"""


def verdict(gold: str, answer: str, **row: Any) -> tuple[bool, str]:
    said = judged(TypescriptScorer(), {"completion": gold, **row}, answer)
    return said.correct, said.reason


@pytest.fixture(autouse=True)
def without_tsc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "style",
    [
        "```typescript\nfunction pick(list: User[]): string[] {"
        " return list.filter(u => u.active && (u.age > 3)).map(x => x.name) }\n```",
        "function pick(users: User[]): string[] {\n  // The active ones.\n  return users\n"
        "    .filter((user) => { return user.age > 3 && user.active; })\n    .map((user) => (user.name));\n}",
    ],
)
def test_taste_does_not_matter(style: str) -> None:
    assert verdict(GOLD, style) == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("type A = 'x' | \"y\";", "type A = \"x\" | 'y'"),
        ("interface A { b: string; c?: number }", "interface A {\n  b: string,\n  c?: number,\n}"),
        ("function f(a: A) { const { b } = a; }", "function f(x: A) { const { b } = x }"),
    ],
)
def test_separators_quotes_and_local_names_do_not_matter(gold: str, answer: str) -> None:
    assert verdict(gold, answer) == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        (GOLD, GOLD.replace("&&", "||"), "says something else"),
        (GOLD, GOLD.replace("age > 3", "age >= 3"), "says something else"),
        (GOLD, GOLD.replace("user.name", "user.mail"), "says something else"),
        (GOLD, GOLD.replace("pick", "choose"), "says something else"),
        (GOLD, GOLD.replace(": string[]", ": any"), "says something else"),
        (GOLD, GOLD[:-2], "does not parse"),
        (GOLD, "", "no code"),
        ("interface A { b?: string }", "interface A { b: string }", "says something else"),
        ("interface A { readonly b: string }", "interface A { b: string }", "says something else"),
        ("const f = (a: A) => a.b;", "let f = (a: A) => a.b;", "says something else"),
        (
            "const f = (a: A, b: A) => a.x - b.x;",
            "const f = (a: A, b: A) => b.x - a.x;",
            "says something else",
        ),
        ("const f = (a: A) => (a.x + 1) * 2;", "const f = (a: A) => a.x + 1 * 2;", "says something else"),
        ("async function f() { await g(); }", "function f() { g(); }", "says something else"),
        ("const s = `a ${b}`;", "const s = `b ${a}`;", "says something else"),
    ],
)
def test_meaning_matters(gold: str, answer: str, reason: str) -> None:
    correct, said = verdict(gold, answer)
    assert not correct
    assert reason in said


def test_any_accepted_answer_is_right() -> None:
    other = "type A = Pick<Partial<B>, 'c'>;"
    assert verdict("type A = Partial<Pick<B, 'c'>>;", other, accepted=[other])[0]
    assert not verdict("type A = Partial<Pick<B, 'c'>>;", other)[0]


HOSTILE = {
    "deep": "(" * 7_000,
    "deep arrays": "const a = " + "[" * 3_900 + "]" * 3_900,
    "megabytes": "let a = 1;\n" * 200_000,
    "nul": "\x00\x01\x02",
    "lone surrogate": "const a = '\ud800';",
    "braces": "}{" * 3_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_code_is_only_wrong(kind: str) -> None:
    assert not verdict(GOLD, HOSTILE[kind])[0]


@pytest.mark.skipif(os.name == "nt", reason="a script stands in for tsc")
def test_right_trees_are_type_checked_where_there_is_a_compiler(tmp_path: Path) -> None:
    compiler = tmp_path / "tsc"
    search = '/bin/grep -q "interface User" "$last" || { echo "TS2304: no User"; exit 2; }'
    compiler.write_text("\n".join(["#!/bin/sh", "for last; do :; done", search, ""]))
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    assert verdict(GOLD, GOLD, context="interface User { name: string }") == (True, "")
    assert verdict(GOLD, GOLD, context="") == (False, "tsc: TS2304: no User")
    assert not list(tmp_path.glob("*.ts"))
