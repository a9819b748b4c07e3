"""What every trainer of this benchmark sees: a base and packed prompt/completion rows.

A tiny Qwen3 in fp32 with made-up rows, or the embedded base, or one of a larger shape with random weights, in
bf16 with expert-sql's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from rows import Pair
from tokenizers import Tokenizer, models
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    set_seed,
)

VOCABULARY = 8192
_SQL = Path(__file__).parents[2] / "experts" / "expert-sql" / "datasets" / "train.jsonl"

# As the configurations of these models have them.
SHAPES: dict[str, PreTrainedConfig] = {
    "SmolLM2-360M": LlamaConfig(
        vocab_size=49_152,
        hidden_size=960,
        intermediate_size=2560,
        num_hidden_layers=32,
        num_attention_heads=15,
        num_key_value_heads=5,
        tie_word_embeddings=True,
    ),
    "Qwen2.5-0.5B": Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
    "Qwen3-0.6B": Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
    ),
}


@dataclass(frozen=True)
class Scene:
    """`rows` rows of `length` tokens per step, for `steps` steps after the first."""

    length: int
    rows: int
    steps: int
    rank: int = 16
    dora: bool = False
    dropout: float = 0.0
    supervised: float = 0.3
    mean_document: int = 120
    embedded: bool = False
    shape: str | None = None
    number_format: str | None = None

    @property
    def dtype(self) -> str:
        return self.number_format or ("bf16" if self.embedded else "fp32")


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


def base(scene: Scene, folder: Path) -> Path:
    """The folder of the base and its tokenizer; the tiny one is made in `folder`."""
    if scene.embedded:
        from expert_worker.base.embedded import embedded
        from expert_worker.events import Events

        found = embedded(Path.home() / ".cache" / "expert-cli", Events())
        if scene.shape is None:
            return found
        return _random(SHAPES[scene.shape], torch.bfloat16, AutoTokenizer.from_pretrained(found), folder)
    return _random(config(), torch.float32, tokenizer(), folder)


def _random(shape: PreTrainedConfig, dtype: torch.dtype, coder: Any, folder: Path) -> Path:
    set_seed(7)
    AutoModelForCausalLM.from_config(shape, dtype=dtype).save_pretrained(folder)
    coder.save_pretrained(folder)
    return folder


def documents(scene: Scene, folder: Path) -> list[Pair]:
    """(prompt ids, completion ids) enough for every step."""
    wanted = int(scene.length * scene.rows * (scene.steps + 1) * 1.05)
    pairs: list[Pair] = []
    for prompt, answer in _sql(folder) if scene.embedded else _made_up(scene):
        pairs.append((prompt, answer))
        wanted -= len(prompt) + len(answer)
        if wanted <= 0:
            break
    return pairs


def _made_up(scene: Scene) -> Iterator[Pair]:
    """Log-normal in length, like real instruction rows."""
    draw = random.Random(7)
    while True:
        length = max(16, min(scene.length, int(draw.lognormvariate(0, 0.5) * scene.mean_document)))
        answer = max(4, int(length * scene.supervised))
        ids = [draw.randrange(1, VOCABULARY) for _ in range(length)]
        yield ids[:-answer], ids[-answer:]


def _sql(folder: Path) -> Iterator[Pair]:
    """expert-sql's rows in the embedded base's own chat template."""
    coder: Any = AutoTokenizer.from_pretrained(folder)
    for line in cycle(_SQL.read_text().splitlines()):
        messages = json.loads(line)["messages"]
        asked, whole = (
            coder.apply_chat_template(part, tokenize=False, add_generation_prompt=more)
            for part, more in ((messages[:-1], True), (messages, False))
        )
        prompt, both = coder(asked)["input_ids"], coder(whole)["input_ids"]
        yield prompt, both[len(prompt) :]


def tokenizer() -> PreTrainedTokenizerFast:
    words = {"<eos>": 0} | {f"w{i}": i for i in range(1, VOCABULARY)}
    inner = Tokenizer(models.WordLevel(words, unk_token="<eos>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<eos>", pad_token="<eos>", unk_token="<eos>"
    )
