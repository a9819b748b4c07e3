"""The scoring child: `python -m expert_worker.evaluate.judge`.

The first line that it reads is the scorer. It writes how it is confined, or why the scorer cannot be used;
then one question per line comes in and one verdict per line goes out, with the token of its question.
Only this process handles model output, and it may be killed at any moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from expert_worker.evaluate.confinement import Limits, apply_limits, confine
from expert_worker.evaluate.scorers import ChosenScorer
from expert_worker.evaluate.signals import ask_parent
from expert_worker.evaluate.verdict import (
    BadRow,
    ExecutingScorer,
    ReferenceScorer,
    Row,
    Scorer,
    ScorerError,
    Verdict,
    failed,
    is_score,
    score_of,
    wrong,
)
from expert_worker.process import bind_to_parent
from expert_worker.process.stdout import claim_stdout


def main() -> None:
    # Before any thread exists, and before a package that offers a scorer is imported.
    confinement = confine(Path.cwd())
    bind_to_parent(reads_stdin=True)
    # What an engine prints must not mix with the verdicts.
    out = os.fdopen(claim_stdout(), "wb")

    def say(document: Mapping[str, Any]) -> None:
        out.write(json.dumps(document).encode() + b"\n")
        out.flush()

    ask_parent(say)
    try:
        scorer = ChosenScorer(**json.loads(sys.stdin.buffer.readline())).make()
    except ScorerError as error:
        say({"refused": str(error)})
        return
    apply_limits(Limits())
    say({"confinement": confinement.document()})
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if asked["text"] is None:
            verdict = judged_reference(scorer, asked["row"])
        else:
            verdict = judged(scorer, asked["row"], asked["text"], with_result_key=asked["with_result_key"])
        say({"token": asked["token"], **asdict(verdict)})


def judged(scorer: Scorer, row: Row, text: str, *, with_result_key: bool = False) -> Verdict:
    """No answer may end the child: an unexpected error of a scorer counts as a wrong answer with its
    reason, or as a failure where the scorer cannot use the row.
    """
    try:
        answer = scorer.extract(text)
        verdict = _checked(scorer.judge(row, answer))
        return replace(verdict, result_key=_result_key(scorer, row, answer)) if with_result_key else verdict
    except BadRow as error:
        return failed(f"The row cannot be scored: {error}")
    except MemoryError:
        return wrong("the answer needs too much memory")
    except RecursionError:
        return wrong("the answer is nested too deeply")
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        usable = not judged_reference(scorer, row).failed
        return wrong(reason) if usable else failed(f"The row cannot be scored: {reason}")


def judged_reference(scorer: Scorer, row: Row) -> Verdict:
    """The row's reference, as if it were the answer; failed where the scorer cannot use the row."""
    try:
        if isinstance(scorer, ReferenceScorer):
            return _checked(scorer.judge_reference(row))
        return _checked(scorer.judge(row, scorer.extract(str(row["completion"]))))
    except BadRow as error:
        return failed(str(error))
    except Exception as error:
        return failed(f"{type(error).__name__}: {error}")


def _result_key(scorer: Scorer, row: Row, answer: str) -> str | None:
    """A digest, because a result may be long. What fails here leaves the verdict as it is."""
    if not isinstance(scorer, ExecutingScorer):
        return answer or None
    try:
        found = scorer.result_key(row, answer)
        return None if found is None else hashlib.sha256(repr(found).encode("utf-8", "replace")).hexdigest()
    except Exception:
        return None


def _checked(verdict: Verdict) -> Verdict:
    """A package's scorer may say anything."""
    if not is_score(verdict.score):
        return failed(f"the scorer returned {verdict.score!r}; a score is from 0 to 1")
    return replace(verdict, score=score_of(verdict.score))


if __name__ == "__main__":
    main()
