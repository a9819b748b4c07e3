"""The scoring child: `python -m expert_worker.evaluate.judge`.

The first line that it reads is the scorer. It writes how it is confined, or why the scorer cannot be used;
then one question per line comes in and one verdict per line goes out.
Only this process handles model output, and it may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from expert_worker.evaluate.confinement import Limits, apply_limits, confine
from expert_worker.evaluate.scorers import ChosenScorer
from expert_worker.evaluate.verdict import Row, Scorer, ScorerError, Verdict, failed, is_score, wrong
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

    try:
        scorer = ChosenScorer(**json.loads(sys.stdin.buffer.readline())).make()
    except ScorerError as error:
        say({"refused": str(error)})
        return
    apply_limits(Limits())
    say({"confinement": confinement.document()})
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        say(asdict(judged(scorer, asked["row"], asked["text"])))


def judged(scorer: Scorer, row: Row, text: str) -> Verdict:
    """No answer may end the child: an unexpected error of a scorer counts as a wrong answer with its
    reason.
    """
    try:
        return _checked(scorer.judge(row, scorer.extract(text)))
    except MemoryError:
        return wrong("the answer needs too much memory")
    except RecursionError:
        return wrong("the answer is nested too deeply")
    except Exception as error:
        return wrong(f"{type(error).__name__}: {error}")


def _checked(verdict: Verdict) -> Verdict:
    """A package's scorer may say anything."""
    if not is_score(verdict.score):
        return failed(f"the scorer returned {verdict.score!r}; a score is from 0 to 1")
    return Verdict(float(verdict.score), verdict.reason, verdict.failed)


if __name__ == "__main__":
    main()
