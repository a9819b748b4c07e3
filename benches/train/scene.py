"""The one scene that every trainer of this benchmark sees: a tiny Qwen3 and packed prompt/completion rows."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3Config

VOCABULARY = 8192


@dataclass(frozen=True)
class Scene:
    """`rows` rows of `length` tokens a step, for `steps` steps after the first."""

    length: int
    rows: int
    steps: int
    rank: int = 16
    dora: bool = False
    dropout: float = 0.0
    supervised: float = 0.3
    mean_document: int = 120


def config() -> Qwen3Config:
    return Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=0,
        pad_token_id=0,
        bos_token_id=None,
    )


def documents(scene: Scene) -> list[tuple[list[int], list[int]]]:
    """(prompt ids, completion ids) enough for every step, log-normal in length like real instruction rows."""
    draw = random.Random(7)
    wanted = int(scene.length * scene.rows * (scene.steps + 1) * 1.05)
    pairs: list[tuple[list[int], list[int]]] = []
    while wanted > 0:
        length = max(16, min(scene.length, int(draw.lognormvariate(0, 0.5) * scene.mean_document)))
        answer = max(4, int(length * scene.supervised))
        ids = [draw.randrange(1, VOCABULARY) for _ in range(length)]
        pairs.append((ids[:-answer], ids[-answer:]))
        wanted -= length
    return pairs


def tokenizer() -> PreTrainedTokenizerFast:
    words = {"<eos>": 0} | {f"w{i}": i for i in range(1, VOCABULARY)}
    inner = Tokenizer(models.WordLevel(words, unk_token="<eos>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<eos>", pad_token="<eos>", unk_token="<eos>"
    )
