"""Asks a finished run's adapter the same questions here and in plain transformers + peft, token for token.

    python scripts/compare_with_peft.py RUN [--prompts 20]

RUN is the output folder of `expert-cli train`. Exit code 1 where an answer differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.imports import quick_imports
from expert_worker.terminal import report_failure, write_stdout

with quick_imports():
    from expert_worker.evaluate.plain_peft import Compared, compare


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="the output folder of a finished training")
    parser.add_argument("--prompts", type=int, default=20, help="questions to ask (default 20)")
    given = parser.parse_args()
    try:
        found = compare(given.run, given.prompts)
    except ExpertError as error:
        return report_failure(error)
    for one in found:
        if not one.same:
            show(one)
    print(f"{sum(one.same for one in found)} of {len(found)} answers are the same, token for token")
    return 0 if all(one.same for one in found) else 1


def show(one: Compared) -> None:
    write_stdout(f"differs: {one.question}\n  here  {one.here}\n  there {one.there}")


if __name__ == "__main__":
    sys.exit(main())
