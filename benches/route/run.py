"""The router on the shipped experts: seconds to learn, milliseconds per prompt, and where prompts go.

    python benches/route/run.py

Rows of `people.jsonl` are written by people; no router learns from them. Times are CPU seconds of one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expert_worker.routing.features import prompt_of
from expert_worker.routing.router import Examples, Router, everyday_prompts

EXPERTS = sorted((Path(__file__).parents[2] / "experts").iterdir())


def prompts(expert: Path, split: str) -> list[str]:
    lines = (expert / "datasets" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [prompt_of(json.loads(line)["messages"]) for line in lines]


def routed(router: Router, asked: Sequence[str], wanted: str | None) -> float:
    return sum(router.route(prompt).expert == wanted for prompt in asked) / len(asked)


def milliseconds(router: Router, asked: Sequence[str]) -> list[float]:
    found = []
    for prompt in asked:
        started = time.thread_time()
        router.route(prompt)
        found.append(1000 * (time.thread_time() - started))
    return sorted(found)


def main() -> None:
    shelf = [Examples(expert.name, prompts(expert, "train")) for expert in EXPERTS]
    started = time.thread_time()
    router = Router.learn(shelf)
    learnt = time.thread_time() - started
    tests = {expert.name: prompts(expert, "test") for expert in EXPERTS}
    people = {expert.name: prompts(expert, "people") for expert in EXPERTS}
    times = milliseconds(router, [prompt for asked in tests.values() for prompt in asked])
    longest = milliseconds(router, ["".join(tests[EXPERTS[0].name])] * 50)
    median, slow = times[len(times) // 2], times[len(times) * 99 // 100]
    document: dict[str, Any] = {
        "learn_seconds": learnt,
        "median_ms": median,
        "p99_ms": slow,
        "longest_prompt_median_ms": longest[len(longest) // 2],
        "test_rows": {name: routed(router, asked, name) for name, asked in tests.items()},
        "people": {name: routed(router, asked, name) for name, asked in people.items()},
        "everyday_to_none": routed(router, everyday_prompts("test"), None),
    }
    speed = f"learnt in {learnt:.1f} s; {median:.2f} ms per prompt (99%: {slow:.2f} ms)"
    document["rows"] = [{"what": speed}]
    print(json.dumps(document))


if __name__ == "__main__":
    main()
