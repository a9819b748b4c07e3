"""Asks a finished run's adapter the same questions here and in plain transformers + peft, token for token.

    python scripts/compare_with_peft.py RUN [--prompts 20]

RUN is the output folder of `expert-cli train`. Exit code 1 where an answer differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))

from expert_worker.errors import ExpertError
from expert_worker.imports import quick_imports
from expert_worker.process.leave import leave
from expert_worker.terminal import missing_package, report_failure, write_stdout

if TYPE_CHECKING:
    from expert_worker.evaluate.plain_peft import Compared


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="the output folder of a finished training")
    parser.add_argument("--prompts", type=int, default=20, help="questions to ask (default 20)")
    given = parser.parse_args()
    if given.prompts < 1:
        parser.error(f"--prompts {given.prompts} is less than 1")
    try:
        found = compared(given.run, given.prompts)
    except ExpertError as error:
        return report_failure(error)
    for one in found:
        if not one.same:
            show(one)
    print(f"{sum(one.same for one in found)} of {len(found)} answers are the same, token for token")
    return 0 if all(one.same for one in found) else 1


def compared(run: Path, prompts: int) -> list[Compared]:
    try:
        # Before torch and transformers, which take seconds.
        from expert_worker.evaluate.finished import refuse_unfinished

        refuse_unfinished(run)
        with quick_imports():
            from expert_worker.evaluate.plain_peft import compare
    except ModuleNotFoundError as error:
        raise missing_package(error) from error
    return compare(run, prompts)


def show(one: Compared) -> None:
    write_stdout(f"differs: {one.question}\n  here  {one.here}\n  there {one.there}")


if __name__ == "__main__":
    leave(main())
