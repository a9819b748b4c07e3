"""Loss on the validation rows, by supervised token."""

import math

from expert_worker.events import Events
from expert_worker.train.data import Rows, flat
from expert_worker.train.engine import Engine
from expert_worker.train.fast.batch import supervised


def validate(engine: Engine, rows: Rows, micro_batch: int, events: Events) -> dict[str, float]:
    total, count = 0.0, 0
    for start in range(0, len(rows), micro_batch):
        batch = flat(rows, range(start, min(start + micro_batch, len(rows))))
        total += float(engine.loss(batch))
        count += supervised(batch.labels, batch.positions)
        events.advance("evaluate", min(start + micro_batch, len(rows)), len(rows))
    loss = total / max(1, count)
    return {"eval_loss": loss, "eval_perplexity": math.exp(min(loss, 700.0))}
