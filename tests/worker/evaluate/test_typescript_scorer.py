"""TypeScript is right when it says the same, in whatever style."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scored_rows import check_on_references
from expert_worker.evaluate.scorers import ChosenScorer
from expert_worker.evaluate.scorers.typescript import TypescriptScorer
from expert_worker.events import Events

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
    ("gold", "answer"),
    [
        ("xs.map(x => ({ id: x.id, name: x.name }))", "xs.map(x => { id: x.id, name: x.name })"),
        ("const f = (a: A) => ({ b: a })", "const f = (a: A) => { b: a }"),
        ("const f = (a: A) => ({ ...a, b: 1 } as B)", "const f = (a: A) => { ...a, b: 1 } as B"),
        ("({ a: 1, b: 2 })", "{ a: 1, b: 2 }"),
        ("({ a: 1, b: 2 }).a", "{ a: 1, b: 2 }.a"),
    ],
)
def test_an_object_needs_parentheses_where_a_block_could_begin(gold: str, answer: str) -> None:
    assert verdict(gold, gold) == (True, "")
    assert verdict(gold, answer) == (False, "the code does not parse")


@pytest.mark.parametrize(
    "code",
    [
        "const f = () => {}",
        "const f = (a: A) => { return { b: a } }",
        "export default { a: 1 };",
        "{ const a = { b: 1 }; f({ a }, () => [{ a }]); }",
    ],
)
def test_other_objects_and_blocks_are_read(code: str) -> None:
    assert verdict(code, code) == (True, "")


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


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("interface A { b: string; c?: number }", "interface A { c?: number; b: string }"),
        (
            "type A = { b: string; c: { d: number; e: Date } };",
            "type A = { c: { e: Date; d: number }; b: string }",
        ),
        ('type A = "x" | "y" | null;', 'type A = null | "y" | "x"'),
        ('type A = "x" | "y" | "z";', 'type A =\n  | ("z" | "y")\n  | "x";'),
        ('type A = Pick<B, "x" | "y">;', "type A = Pick<B, 'y' | 'x'>;"),
        ("type A = B & { c: string };", "type A = { c: string } & B;"),
        ("interface A { b: string }", "export interface A { b: string }"),
        ("function f(): void {}", "export function f(): void {}"),
        ("const a = 1;", "export const a = 1;"),
        ("let a: string[];", "let a: Array<string>;"),
        ("let a: (string | null)[];", "let a: Array<null | string>;"),
        ("let a: string[][];", "let a: Array<string[]>;"),
        ("let a: readonly string[];", "let a: ReadonlyArray<string>;"),
        ("let a: readonly string[];", "let a: Readonly<string[]>;"),
        ("type F = (a: string) => void;", "type F = (b: string) => void;"),
        ("interface A { f(a: string): void }", "interface A { f(b: string): void }"),
        ("interface A { f: (a: string) => void }", "interface A { f: (b: string) => void }"),
        ("type P = (a: unknown) => a is string;", "type P = (b: unknown) => b is string;"),
        ("type A = { [K in keyof B]?: B[K] };", "type A = { [P in keyof B]?: B[P] };"),
        ("interface A { [key: string]: number }", "interface A { [name: string]: number }"),
        ("interface A<T> { b: T; c: T[] }", "interface A<Item> { b: Item; c: Item[] }"),
        ("function f<T>(a: T): T { return a; }", "function f<U>(a: U): U { return a; }"),
        ("type A<T> = T extends (infer U)[] ? U : T;", "type A<X> = X extends Array<infer I> ? I : X;"),
        ("const a = { b: 1 };", 'const a = { "b": 1 };'),
        ("interface A { b: string }", 'interface A { "b": string }'),
        ('const a = "it\'s";', "const a = 'it\\'s';"),
        ('const a = "b";', "const a = `b`;"),
        ("const a = 1000;", "const a = 1_000;"),
        (
            "function f(a: A) { if (a) return 1; return 2; }",
            "function f(a: A) { if (a) { return 1; } return 2; }",
        ),
        (
            "function f(a: A[]) { for (const b of a) g(b); }",
            "function f(list: A[]) { for (const item of list) { g(item); } }",
        ),
        (
            "function f(a: A) { const [b, c] = a; return b; }",
            "function f(x: A) { const [y, z] = x; return y; }",
        ),
        (
            "function f(a: A) { const { b } = a; return b; }",
            "function f(a: A) { const { b: c } = a; return c; }",
        ),
        (
            "function f() { try { g(); } catch (e) { h(e); } }",
            "function f() { try { g(); } catch (err) { h(err); } }",
        ),
        (
            "function f(name: string) { return { name }; }",
            "function f(text: string) { return { name: text }; }",
        ),
        ("interface A { b: string }", "interface A { b: string };"),
        ("const a = [1, 2];", "const a = [1, 2,];"),
        (
            "function f(a: A) { for (let i = 0; ; i++) g(a, i); }",
            "function f(b: A) { for (let j = 0; ; j++) { g(b, j); } }",
        ),
        (
            "class A { constructor(public name: string, b: B) { g(b); } }",
            "class A { constructor(public name: string, c: B) { g(c); } }",
        ),
        (
            "const f = (a: A): boolean => a.b && a.c;",
            "const f = (a: A): boolean => a.c && a.b;",
        ),
    ],
)
def test_order_export_array_types_and_unseen_names_do_not_matter(gold: str, answer: str) -> None:
    assert verdict(gold, answer) == (True, "")
    assert verdict(answer, gold) == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("interface A { b: string; c: number }", "interface A { b: number; c: string }"),
        ("interface A { b: string; c: number }", "interface A { b: string }"),
        (
            "interface A { f(a: string): void; f(a: number): string }",
            "interface A { f(a: number): string; f(a: string): void }",
        ),
        ("interface A { b: string }", "type A = { b: string };"),
        ('type A = "x" | "y";', 'type A = "x" | "z";'),
        ('type A = "x" | "y";', 'type A = "x" & "y";'),
        ("type A = B & C;", "type A = B | C;"),
        ("type A = (B | C) & D;", "type A = B | (C & D);"),
        ("type A = ((a: B) => C) & ((a: D) => E);", "type A = ((a: D) => E) & ((a: B) => C);"),
        ("function f(): void {}", "export default function f(): void {}"),
        ("let a: string[];", "let a: Array<number>;"),
        ("let a: string[];", "let a: readonly string[];"),
        ("let a: string[];", "let a: Set<string>;"),
        ("let a: (string | null)[];", "let a: string[] | null;"),
        ("type F = (a: string, b: number) => void;", "type F = (a: number, b: string) => void;"),
        ("type F = (a: string) => void;", "type F = (a?: string) => void;"),
        ("type A = { [K in keyof B]: B[K] };", "type A = { [K in keyof B]?: B[K] };"),
        ("type A = { [K in keyof B]: B[K] };", "type A = { [K in keyof B]: K };"),
        ("interface A { [key: string]: number }", "interface A { [key: number]: number }"),
        ("interface A<T, U> { b: T; c: U }", "interface A<T, U> { b: U; c: T }"),
        ("interface A<T> { b: T }", "interface A<T> { b: B }"),
        ("type A<T> = T extends (infer U)[] ? U : never;", "type A<T> = T extends (infer U)[] ? T : never;"),
        ("function f(f: number) { return f; }", "function g(g: number) { return g; }"),
        ("function f(name: string) { return { name }; }", "function f(title: string) { return { title }; }"),
        (
            "function f(a: A) { const { b } = a; return b; }",
            "function f(a: A) { const { c } = a; return c; }",
        ),
        (
            "function f(a: A) { if (a) { return 1; } return 2; }",
            "function f(a: A) { if (a) { return 1; return 2; } }",
        ),
        (
            "function f(a: A[]) { for (const b of a) g(b); }",
            "function f(a: A[]) { for (const b of a) g(a); }",
        ),
        ("const a = { b: 1 };", 'const a = { "b-c": 1 };'),
        ("const a = b`c`;", 'const a = b("c");'),
        ("const a = `${b}`;", 'const a = "${b}";'),
        ("const a = 'b\\n';", "const a = 'bn';"),
        ("interface A { b: 'x' }", "interface A { b: x }"),
        ("export { a };", "export { b };"),
        ("class A { b = 1 }", "class A { b = 2 }"),
        ("const f = ([, b]: number[]) => b;", "const f = ([b]: number[]) => b;"),
        ("const a = [1, , 2];", "const a = [1, 2];"),
        ("const a = [1, ,];", "const a = [1,];"),
        (
            "class A { constructor(public name: string) {} }",
            "class A { constructor(public title: string) {} }",
        ),
        ("class A { constructor(readonly b: B) {} }", "class A { constructor(readonly c: B) {} }"),
        (
            "const f = (a: A) => class { constructor(private a: A) {} };",
            "const f = (b: A) => class { constructor(private b: A) {} };",
        ),
        ("for (; go(); ) {}", "for (go(); ; ) {}"),
        ("for (; ; go()) {}", "for (; go(); ) {}"),
    ],
)
def test_what_those_names_and_orders_say_matters(gold: str, answer: str) -> None:
    assert verdict(gold, answer) == (False, "the code parses, but says something else")


IN_ANY_ORDER = [
    ("return x > 1 && x < 5;", "return x < 5 && x > 1;"),
    ("return x === 'b' || x === 'c';", "return x === 'c' || x === 'b';"),
    ("return x !== null && x !== undefined;", "return x !== undefined && x !== null;"),
    (
        "return typeof x.b === 'string' && typeof x.c === 'number';",
        "return typeof x.c === 'number' && typeof x.b === 'string';",
    ),
    ("return x.getDay() === 0 || x.getDay() === 6;", "return x.getDay() === 6 || x.getDay() === 0;"),
    ("return (x % 4 === 0 && x > 1) || x === 8;", "return x === 8 || (x > 1 && x % 4 === 0);"),
    ("return x.b > 3 && !x.c;", "return !x.c && x.b > 3;"),
    ("if (x.b && x.c > 3) g();", "if (x.c > 3 && x.b) g();"),
    ("return x.some((y) => y.b && y.c);", "return x.some((y) => y.c && y.b);"),
    ("return x.b.c > 1 && x.b.d > 1;", "return x.b.d > 1 && x.b.c > 1;"),
]
IN_ONE_ORDER = [
    ("return x.name || 'b';", "return 'b' || x.name;"),
    ("return x.name && x.age;", "return x.age && x.name;"),
    ("return x !== null && x.length > 0;", "return x.length > 0 && x !== null;"),
    ("return x === null || x.length > 0;", "return x.length > 0 || x === null;"),
    ("if (x && x.b) g();", "if (x.b && x) g();"),
    ("if (!x || x.b) g();", "if (x.b || !x) g();"),
    (
        "return typeof x === 'object' && x !== null && 'b' in x;",
        "return 'b' in x && typeof x === 'object' && x !== null;",
    ),
    ("return x instanceof B && x.c > 0;", "return x.c > 0 && x instanceof B;"),
    ("return x?.b !== undefined && x.c > 0;", "return x.c > 0 && x?.b !== undefined;"),
    ("return x.b !== undefined && x.b.c > 1;", "return x.b.c > 1 && x.b !== undefined;"),
    ("return x.ok === true && x.value.c > 1;", "return x.value.c > 1 && x.ok === true;"),
    ("return x.length > 0 && x[0].b > 1;", "return x[0].b > 1 && x.length > 0;"),
    ("return x.b !== undefined && x.b() > 1;", "return x.b() > 1 && x.b !== undefined;"),
    ("return x !== null && g(x) > 1;", "return g(x) > 1 && x !== null;"),
    ("if (go() && stop()) g();", "if (stop() && go()) g();"),
    ("return x++ > 1 && x < 5;", "return x < 5 && x++ > 1;"),
]


@pytest.mark.parametrize(("gold", "answer"), IN_ANY_ORDER)
def test_the_order_of_independent_tests_says_nothing(gold: str, answer: str) -> None:
    gold, answer = (f"function f(x: A) {{ {body} }}" for body in (gold, answer))
    assert verdict(gold, answer) == verdict(answer, gold) == (True, "")


@pytest.mark.parametrize(("gold", "answer"), IN_ONE_ORDER)
def test_a_part_that_protects_a_later_one_or_is_the_value_has_its_place(gold: str, answer: str) -> None:
    gold, answer = (f"function f(x: A) {{ {body} }}" for body in (gold, answer))
    assert verdict(gold, gold) == verdict(answer, answer) == (True, "")
    assert not verdict(gold, answer)[0] and not verdict(answer, gold)[0]


@pytest.mark.parametrize(
    ("gold", "same"),
    [
        ("const x = (a?.b).c", "const x = ((a?.b)).c"),
        ("const x = (a?.b)!.c.d", "const x = ((a?.b)!.c).d"),
        ("const x = f((a?.b))", "const x = f(a?.b)"),
        ("const x = (a?.b)!", "const x = a?.b!"),
        ("const x = (a?.b)?.c", "const x = a?.b?.c"),
        ("const x = (f(a?.b)).c", "const x = f(a?.b).c"),
        ("const x = (a.b).c", "const x = a.b.c"),
        ("type A = new () => B | null", "type A = new () => (null | B)"),
        ("type A = new () => B & C | D", "type A = new () => (D | (C & B))"),
        ("type A = new () => new () => B | C", "type A = new () => (new () => (C | B))"),
        ("type A = new () => B extends C ? D : E", "type A = new () => (B extends C ? D : E)"),
        (
            "type A<T> = T extends new () => infer R ? R : 0",
            "type A<T> = T extends (new () => infer S) ? S : 0",
        ),
        ("type A = null | (new () => B)", "type A = (new () => B) | null"),
    ],
)
def test_parentheses_that_say_nothing_do_not_matter(gold: str, same: str) -> None:
    assert verdict(gold, same) == verdict(same, gold) == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("const x = (a?.b).c", "const x = a?.b.c"),
        ("const x = (a?.b)()", "const x = a?.b()"),
        ("const x = (a?.b)[0]", "const x = a?.b[0]"),
        ("const x = (a?.b)!.c", "const x = a?.b!.c"),
        ("const x = (a?.b.d()).c", "const x = a?.b.d().c"),
        ("type A = (new () => B) | null", "type A = new () => B | null"),
        ("type A = (new () => B) & C", "type A = new () => B & C"),
        ("type A = (abstract new () => B) | C", "type A = abstract new () => B | C"),
        ("type A = (new () => B) extends C ? D : E", "type A = new () => B extends C ? D : E"),
    ],
)
def test_parentheses_that_end_a_chain_or_a_type_matter(gold: str, answer: str) -> None:
    assert not verdict(gold, answer)[0] and not verdict(answer, gold)[0]


@pytest.mark.parametrize(
    "answer",
    [
        "`type A = B`",
        "Here is the type:\n\ntype A = B;",
        "type A = B;\n\nThis defines A.",
        "Sure! Here it is:\ntype A = B;\nThis defines A as B:\n\n- `A` is the name",
        "<think>type A = C</think>\ntype A = B",
        "~~~ts\ntype A = B\n~~~",
    ],
)
def test_what_chat_models_put_around_code_is_removed(answer: str) -> None:
    assert verdict("type A = B", answer) == (True, "")


@pytest.mark.parametrize(
    "answer", ["type A = B;\ntype C = {", "type A = B;\n\n/**\n * Returns it.\n */\nf( {\n\nSo it is."]
)
def test_broken_code_is_not_prose(answer: str) -> None:
    assert verdict("type A = B", answer) == (False, "the code does not parse")


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


SCRIPTS = pytest.mark.skipif(os.name == "nt", reason="a script stands in for tsc")


def compiler(folder: Path, *lines: str) -> Path:
    path = folder / "tsc"
    path.write_text("\n".join(["#!/bin/sh", "for last; do :; done", *lines, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@SCRIPTS
def test_right_trees_are_type_checked_where_there_is_a_compiler(tmp_path: Path) -> None:
    compiler(
        tmp_path,
        '/bin/grep -q "function" "$last" || exit 0',
        '/bin/grep -q "interface User" "$last" || { echo "error TS2304: no User"; exit 2; }',
    )
    assert verdict(GOLD, GOLD, context="interface User { name: string }") == (True, "")
    assert verdict(GOLD, GOLD, context="") == (False, "tsc: error TS2304: no User")
    assert not list(tmp_path.glob("*.ts"))


@SCRIPTS
def test_a_compiler_that_ends_is_not_the_answers_fault(tmp_path: Path) -> None:
    compiler(tmp_path, '/bin/grep -q "function" "$last" || exit 0', "echo 'no memory' >&2; exit 134")
    said = judged(TypescriptScorer(), {"completion": GOLD}, GOLD)
    assert said.failed and said.reason == "tsc: no memory"


@SCRIPTS
def test_a_compiler_that_does_not_work_is_not_used_and_a_warning_says_so(tmp_path: Path) -> None:
    compiler(tmp_path, "echo 'no module' >&2; exit 1")
    assert verdict(GOLD, GOLD) == (True, "")
    events, memory = Events.in_memory("evaluate")
    check_on_references(ChosenScorer("typescript"), [{"completion": GOLD}], events)
    (warning,) = [event.body for event in memory.events if event.body.code == "weak-references"]
    assert warning.message == (
        "1 of 1 reference answers are judged without tsc, which does not work here (tsc: no module): "
        "scored row 1"
    )


@SCRIPTS
def test_the_sandbox_runs_a_compiler_that_is_in_a_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "home" / "node_modules" / "typescript"
    (package / "bin").mkdir(parents=True)
    (package / "said").write_text("error TS2304: no User")
    script = compiler(
        package / "bin",
        '/bin/grep -q "function" "$last" || exit 0',
        f'/bin/cat "{package / "said"}"; exit 2',
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tsc").symlink_to(script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (said,) = judge_all("typescript", [{"completion": GOLD}], [GOLD])
    assert not said.failed and said.reason == "tsc: error TS2304: no User"
