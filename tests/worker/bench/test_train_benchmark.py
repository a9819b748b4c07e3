"""The benchmarks of training run: their stand-in for the token cache fits what training reads of it."""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benches" / "train"))

from side import measured

TINY = {"length": 64, "rows": 1, "steps": 2}


def test_both_sides_train_the_same_tokens():
    ours, theirs = measured("our", TINY)[0], measured("trl", TINY)[0]
    assert ours["tokens"] == theirs["tokens"] > 0
    for side in (ours, theirs):
        assert side["cpu"] > 0 and side["peak"] > 0
    assert len(ours["losses"]) == TINY["steps"] + 1 and all(map(math.isfinite, ours["losses"]))
