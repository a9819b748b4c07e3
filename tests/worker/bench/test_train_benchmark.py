"""The benchmarks of training run: their stand-in for the token cache fits what training reads of it."""

import importlib.util
import math
from pathlib import Path

# By its path: other modules in its folder have the names of tests' modules.
SPEC = importlib.util.spec_from_file_location(
    "train_side", Path(__file__).parents[3] / "benches" / "train" / "side.py"
)
SIDE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SIDE)

TINY = {"length": 64, "rows": 1, "steps": 2}


def test_both_sides_train_the_same_tokens():
    ours, theirs = SIDE.measured("our", TINY)[0], SIDE.measured("trl", TINY)[0]
    assert ours["tokens"] == theirs["tokens"] > 0
    for side in (ours, theirs):
        assert side["cpu"] > 0 and side["peak"] > 0
    assert len(ours["losses"]) == TINY["steps"] + 1 and all(map(math.isfinite, ours["losses"]))
