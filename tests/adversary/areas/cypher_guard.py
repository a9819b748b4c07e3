"""The guard before the Cypher engine: statements of its words thrown together, none of which may do anything.

What passes the guard goes to the engine, in its own folder with a canary beside it: no file may appear there
and the canary's text may not come back.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.answers import CANARY
from tests.adversary.areas.cypher import GRAPH, RIGHT
from tests.adversary.attempt import Area, Attempt, Tally

from expert_worker.evaluate.scorers.cypher_guard import FORBIDDEN, refusal

# (name, what must be refused)
BY_HAND = (
    *(f"MATCH (p) {word} x RETURN p" for word in sorted(FORBIDDEN)),
    "RETURN 1 lOaD FROM 'x'",
    "RETURN p .type.load FROM 'x'",
    "RETURN 1.LOAD FROM 'x'",
    "RETURN 'a' 'b' CALL f()",
    'RETURN "a\'b" CALL f()',
)
TOKENS = (
    *("MATCH", "RETURN", "WITH", "UNWIND", "OPTIONAL", "WHERE", "ORDER BY", "LIMIT", "AS", "EXISTS", "UNION"),
    *(
        "(p:Person)",
        "(n)",
        "-[:KNOWS]->",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        ",",
        ".",
        "..",
        "*",
        "+",
        "=",
        ":",
        "|",
    ),
    *(
        "p",
        "p.name",
        "x",
        "1",
        "1.",
        "0x",
        "'a'",
        "''",
        '"a"',
        "'",
        '"',
        "\\",
        "`",
        ";",
        "$",
        "--",
        "//",
        "/*",
        "*/",
    ),
    *(
        "'secret.txt'",
        "'out.csv'",
        "(file_format='csv')",
        "HEADERS",
        "\n",
        "\t",
        "\u00a0",
        "\u2028",
        "é",
        "ſ",
        "K",
    ),
    *sorted(FORBIDDEN),
    *(word.lower() for word in sorted(FORBIDDEN)),
)
FUZZED = 541_450
SAMPLE = 4_000


def attempts(quick: bool) -> Iterator[Attempt]:
    yield Attempt("by hand", by_hand)
    yield Attempt("fuzzed", partial(fuzzed, SAMPLE if quick else FUZZED))


def by_hand(folder: Path) -> Tally:
    return Tally(len(BY_HAND), [text for text in BY_HAND if refusal(text) is None])


def statement(draw: random.Random) -> str:
    start = draw.choice(("MATCH (p:Person)", "MATCH", "RETURN", "WITH 1 AS a", "UNWIND [1] AS x", ""))
    space = draw.choice((" ", " ", " ", "", "\n"))
    return space.join([start, *draw.choices(TOKENS, k=draw.randint(1, 9))])


def fuzzed(count: int, folder: Path) -> Tally:
    """The guard here; the engine in a separate process for all that passed."""
    draw = random.Random(20)
    passed = [text for text in (statement(draw) for _ in range(count)) if refusal(text) is None]
    (folder / "secret.txt").write_text(CANARY)
    (folder / "asked.json").write_text(json.dumps(passed))
    command = [
        sys.executable,
        "-m",
        "tests.adversary.areas.cypher_guard",
        str(folder / "asked.json"),
        str(folder / "said.json"),
    ]
    cwd = folder / "cwd"
    cwd.mkdir()
    (cwd / "secret.txt").write_text(CANARY)
    before = world.snapshot(cwd)
    environment = {**os.environ, "PYTHONPATH": str(cli.ROOT)}
    try:
        ended = subprocess.run(
            command, cwd=cwd, env=environment, timeout=900, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"no end in 900 s with {len(passed)} statements") from None
    assert ended.returncode == 0, f"exit {ended.returncode}: {ended.stderr[-300:]!r}"
    assert world.snapshot(cwd) == before, "files were written"
    said = json.loads((folder / "said.json").read_text())
    return Tally(count, [f"{text!r}: a file was read" for text in said["read"]])


def ask_engine(asked: Path, said: Path) -> None:
    from expert_worker.evaluate.scorers.cypher_data import Graph

    graph = Graph(GRAPH, "1/0")
    read = []
    for number, text in enumerate(json.loads(asked.read_text())):
        try:
            answer = repr(graph.ask(text, 100))
        except RuntimeError as error:
            answer = str(error)
            with suppress(RuntimeError):  # Some errors have ended the transaction already.
                graph._connection.execute("ROLLBACK")
        if CANARY in answer:
            read.append(text)
        if number % 1000 == 0:  # The engine still answers, so it was asked and not merely closed.
            assert len(graph.ask(RIGHT, 100)) == 14
    said.write_text(json.dumps({"read": read}))


AREA = Area("cypher_guard", "Cypher guard: by hand and fuzzed", attempts)


if __name__ == "__main__":
    ask_engine(Path(sys.argv[1]), Path(sys.argv[2]))
