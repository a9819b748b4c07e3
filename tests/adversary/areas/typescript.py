"""TypeScript answers made to break a parser or to be type-checked into running something."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.adversary.answers import tally
from tests.adversary.attempt import Area, Attempt, Tally

GOLD = """function pick(users: User[]): string[] {
  return users.filter((user) => user.age > 3 && user.active).map((user) => user.name);
}"""
HOSTILE = {
    "7,000 brackets": "(" * 7_000,
    "deep arrays": "const a = " + "[" * 3_900 + "]" * 3_900,
    "deep types": "type A = " + "Array<" * 3_000 + "x" + ">" * 3_000,
    "deep calls": "f(" * 3_000 + ")" * 3_000,
    "deep templates": "`${" * 3_000 + "}`" * 3_000,
    "deep conditions": "a ? " * 5_000 + "b" + " : c" * 5_000,
    "deep jsx": "<a>" * 3_000 + "</a>" * 3_000,
    "a sum of 20,000": "let a = " + "1 + " * 20_000 + "1",
    "megabytes": "let a = 1;\n" * 200_000,
    "one line of 4 MB": "let a = '" + "x" * 4_000_000 + "'",
    "NUL": "\x00\x01\x02",
    "a lone surrogate": "const a = '\ud800';",
    "braces": "}{" * 3_000,
    "a reference to a file": '/// <reference path="{folder}/secret.txt" />\n' + GOLD.replace("pick", "other"),
    "an import of a file": 'import x from "{folder}/secret.txt";\n' + GOLD,
    "require": 'require("child_process").execSync("touch {folder}/pwned");\n' + GOLD,
    "a compiler option": "// @ts-nocheck\n" + GOLD.replace("&&", "||"),
    "a shebang": "#!/bin/sh\ntouch {folder}/pwned\n" + GOLD,
    "an endless type": "type F<T> = T extends string ? F<F<T>> : F<[T]>; let a: F<'a'>;",
    "an open comment": "/* " + "*" * 100_000,
    "no code": "I would rather not.",
}


def attempts(quick: bool) -> Iterator[Attempt]:
    yield Attempt("TypeScript answers", partial(attempt, quick))


def attempt(quick: bool, folder: Path) -> Tally:
    hostile = dict(list(HOSTILE.items())[:: 5 if quick else 1])
    return tally("typescript", {"completion": GOLD}, GOLD, hostile, folder)


AREA = Area("typescript", "TypeScript answers", attempts)
