"""The scores of runs that differ in their seed: each, their mean, and all their answers by level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any


def scores_of(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Of one test set: the shares of base and adapter, and the adapter's answers by level."""
    return {
        "rows": evaluation["rows"],
        "base": evaluation["base"]["accuracy"],
        "adapter": evaluation["adapter"]["accuracy"],
        "loss": evaluation["adapter"]["loss"],
        "levels": {
            line["name"]: {"right": line["adapter"]["correct"], "rows": line["adapter"]["total"]}
            for line in evaluation["by_level"]
        },
    }


def of_seeds(runs: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of the seeds on each set, the lowest and the highest of them, and the runs."""
    names = list(dict.fromkeys(name for found in runs.values() for name in found["sets"]))
    return {
        "mean": {name: _mean([found["sets"][name] for found in runs.values()]) for name in names},
        "seeds": {str(seed): dict(found) for seed, found in runs.items()},
    }


def _mean(scores: list[Mapping[str, Any]]) -> dict[str, Any]:
    adapter = [found["adapter"] for found in scores]
    return {
        "base": fmean(found["base"] for found in scores),
        "adapter": fmean(adapter),
        "lowest": min(adapter),
        "highest": max(adapter),
        "levels": _levels(found["levels"] for found in scores),
    }


def _levels(each: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Right answers and rows of all seeds together."""
    total: dict[str, dict[str, int]] = {}
    for levels in each:
        for level, found in levels.items():
            line = total.setdefault(level, {"right": 0, "rows": 0})
            for key in line:
                line[key] += found[key]
    return total
