"""A whole small training: a saved tiny base, rows in memory, a plan, and the stage run on them."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tiny_families
import torch
from learnt import assert_gradients, assert_moved
from plans import example_plan
from tiny import CONFIGS, EVERY_LINEAR
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from expert_worker.events import Events
from expert_worker.events.models import Event
from expert_worker.train import stage
from expert_worker.train.dataset import InMemory

PAD, EOS, UNKNOWN = 0, 95, 96


def save_base(folder: Path, kind: str = "qwen3") -> Path:
    """A random base whose every word is a token: `w7` is token 7.

    Only padding has the zero embedding of `padding_idx`, so that any row gives a gradient.
    """
    if not folder.exists():
        torch.manual_seed(3)
        config = deepcopy(CONFIGS[kind]) if kind in CONFIGS else tiny_families.config(kind)
        config.eos_token_id = EOS
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        named = {"<pad>": PAD, "</s>": EOS, "<unk>": UNKNOWN}
        words = Tokenizer(
            models.WordLevel({**named, **{f"w{i}": i for i in range(1, EOS)}}, unk_token="<unk>")
        )
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        PreTrainedTokenizerFast(
            tokenizer_object=words, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
        ).save_pretrained(folder)
    return folder


def rows(count: int = 10, seed: int = 5) -> InMemory:
    """Rows of one to three documents that repeat a pattern, so that there is something to learn."""
    torch.manual_seed(seed)
    packed = []
    for _ in range(count):
        documents = []
        for _ in range(int(torch.randint(1, 4, ()))):
            start, size = int(torch.randint(1, 60, ())), int(torch.randint(5, 14, ()))
            ids = [start + i for i in range(size)]
            documents.append((ids, [-100] * (size // 2) + ids[size // 2 :]))
        packed.append(documents)
    return InMemory(packed)


@dataclass
class Ran:
    result: dict[str, Any]
    events: list[Event] = field(default_factory=list)
    output: Path = Path()

    @property
    def losses(self) -> list[float]:
        return [e.body.loss for e in self.events if e.body.type == "progress"]

    @property
    def rates(self) -> list[float]:
        return [e.body.lr for e in self.events if e.body.type == "progress"]

    @property
    def applied(self) -> dict[str, Any]:
        return {e.body.key: e.body.value for e in self.events if e.body.type == "applied"}

    def of(self, kind: str) -> list[Any]:
        return [e.body for e in self.events if e.body.type == kind]

    def final(self, name: str) -> bytes:
        return (self.output / "final" / name).read_bytes()


DEFAULTS = {
    "recipe.adapter.target_modules": EVERY_LINEAR,
    "recipe.adapter.rank": 4,
    "recipe.optimizer.learning_rate": 0.01,
    "machine.logging.trackers": [],
}


def put_data(monkeypatch, train=None, validation=None, key="c" * 64) -> None:
    """In place of the token cache."""
    cache = SimpleNamespace(
        key=key,
        train=train or rows(),
        validation=validation,
        existed=False,
        ledger=lambda *_: {"read": 10, "used": 10},
        description=SimpleNamespace(slow_encoder=None, duplicates=None, splits={}),
    )
    fake = SimpleNamespace(
        ensure_cache=lambda plan, events, root: cache, template_text=lambda plan, tokenizer: "template"
    )
    monkeypatch.setitem(sys.modules, "expert_worker.pretokenize", fake)


def train(
    folder: Path,
    changes: dict[str, Any] | None = None,
    *,
    output: str = "out",
    listen=None,
    must_learn: bool = True,
) -> Ran:
    """`listen(events, event)` is called on every event, for tests that interfere.

    A run without gradients, or that leaves B at zero, is an error: anything compared with it would agree.
    """
    folder.mkdir(exist_ok=True)
    save_base(folder / "base")
    plan = example_plan(folder, {**DEFAULTS, "machine.paths.output": str(folder / output), **(changes or {})})
    events, memory = Events.in_memory()
    if listen is not None:
        events.attach(SimpleNamespace(write=lambda event, line: listen(events, event), close=lambda: None))
    ran = Ran({}, memory.events, folder / output)
    ran.result = json.loads(json.dumps(stage.run(plan, events)))
    if must_learn and (steps := ran.of("progress")):
        assert_gradients([step.grad_norm for step in steps])
        if plan.recipe.adapter.kind in {"lora", "rslora", "dora"}:
            assert_moved(ran.output)
    return ran
