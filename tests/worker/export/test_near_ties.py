"""By how much a model prefers its own answer to another, whatever tokens the other is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from expert_worker.export import llama_cpp
from expert_worker.export.llama_cpp import Reference, preference

VOCABULARY = {"</s>": 0, "a": 1, "b": 2, "ab": 3, "c": 4, "d": 5, " ": 6}
QUESTION = torch.tensor([[5, 5]])
# It writes a and b as two tokens, which the tokenizer would join.
OWN = [1, 2, 4, 0]


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Reference:
    tokenizer = Tokenizer(models.BPE(VOCABULARY, [("a", "b")]))
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", clean_up_tokenization_spaces=False
    )
    fast.add_special_tokens({"eos_token": "</s>"})
    # The logits of each place of the answer, by token.
    places = [{1: 5.0, 3: 1.0}, {2: 5.0, 0: 4.5}, {4: 3.0, 5: 2.996, 0: 1.0}, {0: 4.0, 5: 3.0}]

    def model(input_ids: torch.Tensor) -> Any:
        logits = torch.full((1, input_ids.shape[1], len(VOCABULARY)), -9.0)
        for token, logit in places[input_ids.shape[1] - QUESTION.shape[1]].items():
            logits[0, -1, token] = logit
        return SimpleNamespace(logits=logits)

    model.device = torch.device("cpu")  # type: ignore[attr-defined]
    model.generation_config = SimpleNamespace(repetition_penalty=None)  # type: ignore[attr-defined]
    monkeypatch.setattr(llama_cpp, "write_tokens", lambda *_: torch.tensor([OWN]))
    monkeypatch.setattr(llama_cpp, "end_ids", lambda *_: [0])
    decoding: Any = SimpleNamespace(stop_sequences=[])
    return Reference(model, fast, decoding, "")


@pytest.mark.parametrize(
    "other, gap",
    [
        ("abd", 0.004),  # the same letters before it, of other tokens
        ("ab", 2.0),  # it ends where the reference continues
        ("a", 0.5),
        ("abcd", 1.0),  # it continues where the reference ends
        (" abd", 0.004),  # white space at the ends is not an answer's
        ("b", 14.0),  # a token without a chance
    ],
)
def test_the_gap_is_that_of_the_tokens_where_the_texts_part(
    reference: Reference, other: str, gap: float
) -> None:
    assert preference(reference, QUESTION, other.strip()) == pytest.approx(gap, abs=1e-5)


def test_the_gap_is_that_under_the_bases_repetition_penalty(reference: Reference) -> None:
    """The question is of two d, which transformers makes less likely."""
    reference.model.generation_config.repetition_penalty = 1.5
    assert preference(reference, QUESTION, "abd") == pytest.approx(3.0 - 2.996 / 1.5, abs=1e-5)
    assert preference(reference, QUESTION, "ab") == pytest.approx(2.0, abs=1e-5)
