"""The scoring child: `python -m expert_worker.evaluate.judge SCORER`.

It first writes how it is confined; then one question per line comes in and one verdict per line goes out.
Only this process handles model output, and it may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import BinaryIO

from expert_worker.evaluate.confinement import Limits, apply_limits, confine
from expert_worker.evaluate.scorers import find_scorer
from expert_worker.evaluate.verdict import Row, Scorer, Verdict, wrong
from expert_worker.process import bind_to_parent


def main(name: str) -> None:
    # Before any thread exists, and before a package that offers a scorer is imported.
    confinement = confine(Path.cwd())
    bind_to_parent(reads_stdin=True)
    out = _private_stdout()
    scorer = find_scorer(name)
    apply_limits(Limits())
    out.write(json.dumps({"confinement": confinement.document()}).encode() + b"\n")
    out.flush()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        verdict = judged(scorer, asked["row"], asked["text"])
        out.write(json.dumps({"correct": verdict.correct, "reason": verdict.reason}).encode() + b"\n")
        out.flush()


def judged(scorer: Scorer, row: Row, text: str) -> Verdict:
    """No answer may end the child: an unexpected error of a scorer counts as a wrong answer with its
    reason.
    """
    try:
        return scorer.judge(row, scorer.extract(text))
    except MemoryError:
        return wrong("the answer needs too much memory")
    except RecursionError:
        return wrong("the answer is nested too deeply")
    except Exception as error:
        return wrong(f"{type(error).__name__}: {error}")


def _private_stdout() -> BinaryIO:
    """Keeps the pipe for verdicts and sends whatever an engine prints to stderr."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return out


if __name__ == "__main__":
    main(sys.argv[1])
