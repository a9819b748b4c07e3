"""Passes of several experts fused, and one after another, as the probe of a shelf measures them.

`fused.py PLAN CASE-JSON` prints tokens per second by the number of experts in a pass; "1" is one after
another."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from shapes import FUSED_SIZES, Case

from expert_worker.plan import load_plan
from expert_worker.process.leave import leave
from expert_worker.stop import Stop
from expert_worker.train.fuse_probe import Wanted, measure

SECONDS = 4.0


def main() -> None:
    plan, case = load_plan(Path(sys.argv[1])), Case(**json.loads(sys.argv[2]))
    wanted = Wanted(
        plan=plan, documents=case.rows, tokens=case.length, sizes=list(FUSED_SIZES), seconds=SECONDS
    )
    print(json.dumps(measure(wanted, Stop())))


if __name__ == "__main__":
    main()
    leave(0)
