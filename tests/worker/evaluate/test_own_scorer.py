"""`scorer: {"python": "score.py:score"}`: what the function may return, and how its mistakes are reported."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from plans import example_plan

from expert_worker.errors import BadInput
from expert_worker.evaluate.confinement import Limits
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scored_rows import check_on_references
from expert_worker.evaluate.scorers import ChosenScorer, chosen_scorer
from expert_worker.evaluate.verdict import Verdict
from expert_worker.events import Events

ROW = {"completion": "four", "weight": 0.25}


def own(source: str, function: str = "score") -> ChosenScorer:
    return ChosenScorer("python", {"kind": "python", "file": "score.py", "function": function}, source)


def verdicts(source: str, *answers: str, **given: Any) -> list[Verdict]:
    return judge_all(own(source), [ROW] * len(answers), answers, **given)


def test_what_a_function_may_return() -> None:
    source = """
import numpy as np

def score(answer, expected, row):
    return {
        "true": answer == "true" and expected == "four",
        "half": 0.5,
        "row": row["weight"],
        "note": (0.75, "nearly"),
        "no note": (1, None),
        "null": {"score": 0.5, "note": None},
        "object": {"score": 0, "note": "no"},
        "bare": {"score": 1},
        "numpy": np.float32(0.25),
        "numpy bool": np.bool_(True),
    }[answer.lower()]
"""
    found = verdicts(
        source, " TRUE\n", "half", "row", "note", "no note", "null", "object", "bare", "numpy", "numpy bool"
    )
    assert [(verdict.score, verdict.reason) for verdict in found] == [
        (0.0, "scored 0"),
        (0.5, "scored 0.5"),
        (0.25, "scored 0.25"),
        (0.75, "nearly"),
        (1.0, ""),
        (0.5, "scored 0.5"),
        (0.0, "no"),
        (1.0, ""),
        (0.25, "scored 0.25"),
        (1.0, ""),
    ]
    assert not any(verdict.failed for verdict in found)
    assert verdicts("def score(answer, expected): return answer == expected", "four", "five") == [
        Verdict(1.0),
        Verdict(0.0, "scored 0"),
    ]


def test_a_sum_that_misses_1_or_0_by_rounding_is_1_or_0() -> None:
    found = verdicts(
        "def score(answer, expected): return eval(answer)",
        ".2 + .7 + .1",
        "1 + 2e-16",
        "1 - .7 - .3",
        "-1e-17",
        "1 + 1e-6",
    )
    assert [verdict.score for verdict in found] == [1, 1, 0, 0, 0]
    assert [verdict.correct for verdict in found] == [True, True, False, False, False]
    assert [verdict.failed for verdict in found] == [False] * 4 + [True]


def test_a_failing_function_names_its_line_and_counts_as_0() -> None:
    source = """
def helper(answer):
    return 1 / len(answer)

def score(answer, expected):
    if answer == "exit":
        raise SystemExit(3)
    if answer == "end":
        import os
        os._exit(3)
    if answer in ("nan", "inf", "2", "-0.1"):
        return float(answer)
    if answer == "none":
        return None
    return helper(answer)
"""
    found = verdicts(source, "", "x", "exit", "end", "nan", "inf", "2", "-0.1", "none", "y")
    assert [verdict.score for verdict in found] == [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert [verdict.failed for verdict in found] == [verdict.score == 0 for verdict in found]
    reasons = [verdict.reason for verdict in found]
    assert reasons[0] == "score.py:3: ZeroDivisionError: division by zero"
    assert reasons[2] == "score.py:7: SystemExit: 3"
    assert "crash" in reasons[3]
    assert reasons[4].startswith("score.py:5: score returned nan; it must return true or false, a number")
    assert reasons[8].startswith("score.py:5: score returned None")


SAID = r"""b'{"score": SCORE, "reason": "", "failed": false, "result_key": null, "unparsed": false}\n'"""


@pytest.mark.parametrize(
    "written",
    [
        r"b'nonsense\n'",
        r"b'{}\n'",
        r"b'[' * 500_000 + b'\n'",
        "b'x' * (3 << 20)",
        r"b'\n' * (3 << 20)",
        SAID.replace("SCORE", "NaN"),
        SAID.replace("SCORE", "2"),
        SAID.replace("SCORE", "0.3"),
        SAID.replace("{", '{"token": "0123456789abcdef", ').replace("SCORE", "1.0"),
    ],
)
def test_what_a_function_writes_in_place_of_a_verdict_fails_that_answer_alone(written: str) -> None:
    source = f"""
import os

def score(answer, expected):
    if answer == "write":
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, {written})
            except OSError:
                pass
    return 1
"""
    before, broken, after = verdicts(source, "right", "write", "right")
    assert before.correct and after.correct
    assert broken.failed and broken.reason == "the engine wrote something else than a verdict"


def test_a_line_after_a_verdict_moves_no_other_verdict() -> None:
    source = f"""
import os
import threading
import time

def late():
    time.sleep(0.05)
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, {SAID.replace("SCORE", "0.3")})
        except OSError:
            pass

def score(answer, expected):
    if answer == "write":
        threading.Thread(target=late).start()
    else:
        time.sleep(0.2)
    return {{"right": 1, "half": 0.5}}.get(answer, 0)
"""
    found = verdicts(source, "write", "half", "right", "wrong")
    assert [verdict.score for verdict in found] == [0, 0.5, 1, 0]
    assert not any(verdict.failed for verdict in found)


def test_a_note_with_half_a_character_can_be_written() -> None:
    (verdict,) = verdicts("def score(answer, expected): return 0, 'half \\ud800'", "x")
    assert verdict.reason.encode() == b"half ?"


def test_a_slow_answer_is_given_up() -> None:
    source = """
import time

def score(answer, expected):
    while answer == "slow":
        pass
    time.sleep(60 * (answer == "asleep"))
    return 1
"""
    slow, right = verdicts(source, "slow", "quick", limits=Limits(answer_seconds=0.5))
    assert slow.failed and "longer than 0.5 s of processor time" in slow.reason
    assert right.correct
    asleep, right = verdicts(source, "asleep", "quick", limits=Limits(verdict_seconds=3))
    assert asleep.failed and "no verdict came within 3 s" in asleep.reason
    assert right.correct


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def score(answer, expected)\n    return 1", "score.py:1: SyntaxError"),
        ("x = 1", "score.py has no function score"),
        ("score = 3", "score.py has no function score"),
        ("\ndef score(answer): return 1", "score.py:2: score(answer) does not take (answer, expected, row)"),
        (
            "import neighbour",
            "score.py:1: ModuleNotFoundError: No module named 'neighbour'; the file may import",
        ),
        ("raise SystemExit", "score.py:1: SystemExit"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(source: str, words: str) -> None:
    with pytest.raises(BadInput, match="The scorer cannot be used") as refused:
        verdicts(source, "four")
    assert words in refused.value.message


def test_it_has_no_network_and_sees_no_files_of_the_user(tmp_path: Path) -> None:
    from expert_worker.evaluate.confinement import Confinement

    held: list[Confinement] = []
    secret = tmp_path / "secret"
    secret.write_text("hush")
    source = f"""
import socket
from pathlib import Path

def score(answer, expected):
    try:
        if answer == "file":
            Path({str(secret)!r}).read_text()
        elif answer == "own folder":
            Path("note").write_text("mine")
        else:
            socket.socket()
    except OSError as error:
        return 0, type(error).__name__
    return 1
"""
    found = verdicts(source, "file", "socket", "own folder", confined=held.append)
    closed = ["PermissionError" if is_closed else "" for is_closed in (held[0].files, held[0].network, None)]
    assert [verdict.reason for verdict in found] == closed


def put(folder: Path, source: str) -> Any:
    path = folder / "score.py"
    path.write_bytes(source.encode())
    settings = {"kind": "python", "file": "score.py", "function": "score"}
    changes = {
        "recipe.evaluation.scorer": "python",
        "recipe.evaluation.scorer_settings": settings,
        "machine.paths.scorer": str(path),
    }
    return example_plan(folder, changes)


def scorer_of(plan: Any) -> Any:
    return chosen_scorer(plan.recipe.evaluation, plan.recipe.data, plan.machine.paths)


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    source = "\ufeffdef score(answer, expected):\r\n    return 1\r\n"
    chosen = scorer_of(put(tmp_path, source))
    assert chosen.sha256 == hashlib.sha256(source.encode()).hexdigest()
    assert chosen.title == "score.py:score"
    assert judge_all(chosen, [ROW], ["x"]) == [Verdict(1.0)]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    plan = put(tmp_path, "")
    (tmp_path / "score.py").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="cannot be read"):
        scorer_of(plan)
    (tmp_path / "score.py").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(BadInput, match="larger than 1 MiB"):
        scorer_of(plan)
    (tmp_path / "score.py").unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        scorer_of(plan)


def test_it_is_tried_on_reference_answers_before_a_model_is_loaded() -> None:
    events, memory = Events.in_memory("evaluate")
    check_on_references(own("def score(answer, expected): return answer == expected"), [ROW], events)
    check_on_references(ChosenScorer("json"), [{"completion": "4"}], events)
    assert not memory.events
    with pytest.raises(BadInput, match=r"fails on a reference answer: score.py:1: KeyError: 'gold'"):
        check_on_references(own("def score(a, e, row): return row['gold'] == a"), [ROW], events)
    check_on_references(own("def score(answer, expected): return 0"), [ROW] * 20, events)
    assert memory.events[-1].body.code == "references-score-zero"
    assert "gives 0 to 8 of the 8 reference answers" in memory.events[-1].body.message
    one = [ROW] * 7 + [{**ROW, "completion": "other"}]
    check_on_references(own("def score(answer, expected): return answer != 'other'"), one, events)
    assert "gives 0 to 1 of the 8 reference answers" in memory.events[-1].body.message
