"""Our training stage on one case: `ours.py PLAN CASE-JSON SHAPE-JSON` prints what `bench` measures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from data import PackedRows, documents
from shapes import Case, Shape

import expert_worker.train  # noqa: F401  (before torch: it sets how OpenMP waits)
from expert_worker.bench.stage import measure
from expert_worker.events import Events
from expert_worker.plan import load_plan
from expert_worker.process.leave import leave
from expert_worker.train.dataset import Dataset


def main() -> None:
    plan = load_plan(Path(sys.argv[1]))
    case, shape = Case(**json.loads(sys.argv[2])), Shape(**json.loads(sys.argv[3]))
    rows = PackedRows(documents(case, shape), case.length)
    told = measure(plan, Events(), Dataset("0" * 64, rows, None, {}))
    print(json.dumps(told.as_json()))


if __name__ == "__main__":
    main()
    leave(0)
