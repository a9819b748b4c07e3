"""Tokens are drawn as often as transformers' settings say, and each row's draws are its own."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from expert_worker.evaluate.draw import Draw, likely
from expert_worker.plan import Decoding


def settings(temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0, min_p: float = 0.0) -> Decoding:
    return Decoding(
        temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p, stop_sequences=(), max_new_tokens=8
    )


def drawn(decoding: Decoding, seeds: list[int], scores: torch.Tensor) -> list[int]:
    left = Draw(decoding, seeds)(torch.zeros(len(seeds), 1), scores)
    assert (left.isfinite().sum(1) == 1).all()
    return left.argmax(1).tolist()


@pytest.mark.parametrize("top_k", [0, 1, 7, 500])
@pytest.mark.parametrize("top_p", [1.0, 0.8, 0.05, 0.0])
@pytest.mark.parametrize("min_p", [0.0, 0.2])
@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_shares_are_those_of_transformers(top_k: int, top_p: float, min_p: float, temperature: float) -> None:
    torch.manual_seed(1)
    scores = torch.randn(4, 60) * 2
    scores[0, 10:] = float("-inf")
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    warpers += [MinPLogitsWarper(min_p)] if min_p else []
    wanted = warpers(torch.zeros(4, 1, dtype=torch.long), scores.clone()).softmax(1)
    tokens, shares = likely(scores / temperature, settings(temperature, top_p, top_k, min_p))
    found = shares if tokens is None else torch.zeros(4, 60).scatter(1, tokens, shares)
    assert torch.allclose(found / found.sum(1, keepdim=True), wanted, atol=1e-6)


def test_tokens_come_as_often_as_their_shares_say() -> None:
    shares = torch.tensor([0.5, 0.0, 0.3, 0.2])
    for decoding in (settings(), settings(top_k=3)):
        found = torch.tensor(drawn(decoding, list(range(4000)), shares.log().expand(4000, -1)))
        often = torch.bincount(found, minlength=4) / 4000
        assert (often - shares).abs().max() < 0.03 and often[1] == 0


def test_a_row_draws_the_same_in_any_batch() -> None:
    torch.manual_seed(2)
    scores = torch.randn(5, 300)
    together = drawn(settings(), [3, 1, 4, 1, 5], scores)
    assert [
        drawn(settings(), [seed], scores[[row]])[0] for row, seed in enumerate([3, 1, 4, 1, 5])
    ] == together
    assert drawn(settings(), [3, 9, 4, 2, 5], scores)[::2] == together[::2]


def test_draws_of_a_row_follow_each_other() -> None:
    draw, scores = Draw(settings(), [7]), torch.zeros(1, 1000)
    found = [int(draw(torch.zeros(1, 1), scores).argmax()) for _ in range(5)]
    assert len(set(found)) == 5
    again = Draw(settings(), [7])
    assert [int(again(torch.zeros(1, 1), scores).argmax()) for _ in range(5)] == found
