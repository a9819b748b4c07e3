"""Trained experts behind `expert-cli serve`: `python -m benches.serving agree|soak RUN...`

`agree` asks each expert's test questions through plain transformers and peft with nothing but `final/`,
through the server one after the other, and through the server by many clients that mix the experts. The
answers of the last two must be equal. Where transformers answers otherwise, both answers are shown with the
gap between its two tokens; only a near tie, which 16-bit products may turn, passes.

`soak` keeps clients busy for minutes with questions, streams, cancelled requests, garbage and prompts that
are too long, and counts wrong answers, errors of the server and the memory of its processes.

Both print one JSON document and exit with 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from agree import agree  # noqa: E402
from history import versions  # noqa: E402
from questions import questions_of  # noqa: E402
from soak import soak  # noqa: E402

from expert_worker.errors import ExpertError  # noqa: E402
from expert_worker.terminal import report_failure  # noqa: E402

PACKAGES = ("torch", "transformers", "peft", "xllamacpp", "aiohttp")


def main() -> int:
    given = arguments()
    try:
        questions = [question for run in given.runs for question in questions_of(run, given.rows)]
    except ExpertError as error:
        return report_failure(error)
    if given.what == "agree":
        document = asyncio.run(agree(given.runs, questions, given.clients, given.requests, given.threads))
    else:
        document = asyncio.run(soak(given.runs, questions, given.clients, given.minutes, given.threads))
    document["versions"] = versions(PACKAGES)
    print(json.dumps(document, indent=2, ensure_ascii=False))
    return 0 if document["ok"] else 1


def arguments() -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m benches.serving",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("agree", "soak"))
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders that `train` wrote")
    parser.add_argument("--rows", type=int, default=40, help="test questions of each expert (40)")
    parser.add_argument("--clients", type=int, default=8, help="requests at a time (8)")
    parser.add_argument("--requests", type=int, default=200, help="mixed requests of `agree` (200)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of `soak` (10)")
    parser.add_argument("--threads", type=int, default=1, help="of llama.cpp and torch (1)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
