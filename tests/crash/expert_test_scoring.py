"""The real training stage on pairs of words to learn by heart, which it is asked for at each evaluation."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from expert_worker.evaluate import scores
from expert_worker.evaluate.judge import judged
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train import stage
from expert_worker.train.dataset import InMemory

WORDS = range(2, 58, 2)


def write_rows(file: Path) -> None:
    rows = [{"prompt": f"w{n}", "completion": f"w{n + 1}"} for n in WORDS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(plan: Plan, events: Events) -> Any:
    pairs = [([n, n + 1], [-100, n + 1]) for n in WORDS]
    packed = InMemory([pairs[place::4] for place in range(4)])
    cache = SimpleNamespace(
        key="c" * 64,
        train=packed,
        validation=packed,
        existed=False,
        ledger=lambda *_: {"read": len(pairs)},
        description=SimpleNamespace(slow_encoder=None, duplicates=None, splits={}),
    )
    sys.modules["expert_worker.pretokenize"] = SimpleNamespace(  # type: ignore[assignment]
        ensure_cache=lambda plan, events, root: cache,
        template_text=lambda plan, tokenizer: "{{ messages[-1].content }}",
    )
    # A process for each evaluation's verdicts costs more than all else here.
    scores.judge_all = _judge_here
    return stage.run(plan, events)


def _judge_here(scorer: Any, rows: Any, texts: Any, *, each: Any, **_: Any) -> Any:
    made, verdicts = scorer.make(), []
    for row, text in zip(rows, texts, strict=True):
        verdicts.append(judged(made, row, text))
        each()
    return verdicts
