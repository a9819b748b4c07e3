"""The loss of batches is that of rows one by one, over answers and the ends behind them."""

import pytest
import torch
from evaluate import tiny

from expert_worker.evaluate.loss import answer_loss
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.evaluate.scores import share, wilson

ROWS = [
    {"messages": [{"role": "user", "content": "q" * size}], "completion": "answer" * times}
    for size, times in [(3, 1), (40, 2), (7, 5)]
]


def test_loss_is_a_mean_over_supervised_tokens() -> None:
    model, maker = tiny.model(), PromptMaker(tiny.tokenizer())
    total, count = 0.0, 0
    for row in ROWS:
        prompt = list(maker.prompt(row).ids)
        answer = [*tiny.tokenizer()(row["completion"])["input_ids"], tiny.tokenizer().eos_token_id]
        logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        total += float(torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="sum"))
        count += len(answer)
    assert answer_loss(model, maker, ROWS) == pytest.approx(total / count, rel=1e-5)


def test_the_interval_holds_the_share_and_stays_inside() -> None:
    assert wilson(0, 20)[0] == 0.0
    assert wilson(20, 20)[1] == pytest.approx(1.0)
    low, high = wilson(50, 100)
    assert (low, high) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert share([]).accuracy == 0.0
