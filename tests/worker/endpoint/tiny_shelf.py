"""A shelf of untrained experts on a tiny base, and a server for it in a process by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from export.test_gguf import MODULES, SIZES, tokenizer
from peft import LoraConfig, get_peft_model
from plans import example_plan
from run_record.finals import final_of
from transformers import AutoModelForCausalLM, LlamaConfig

from expert_worker.process.child import child_environment
from expert_worker.results import EvaluationResult, Score
from expert_worker.run_record.digests import base_digests
from expert_worker.run_record.expert import add_score, expert_record

NAMES = ("ash", "birch", "cedar")
STOP = "Q"
ANSWER_TOKENS = 12


def tiny_base(folder: Path) -> Path:
    """With weights that f16 holds exactly, so that llama.cpp and transformers compute from the same ones."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        LlamaConfig(vocab_size=len(tokenizer()), tie_word_embeddings=True, **SIZES)
    )
    for weight in model.parameters():
        weight.data = weight.data.half().float()
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def tiny_expert(
    base: Path, folder: Path, name: str, seed: int, changes: Mapping[str, Any] | None = None, **lora: Any
) -> Path:
    """Its `final/`; `changes` are of the plan."""
    torch.manual_seed(seed)
    config = LoraConfig(r=4, lora_alpha=16, target_modules=MODULES, task_type="CAUSAL_LM", **lora)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    for key, weight in model.named_parameters():
        if "lora_B" in key:
            weight.data.normal_(std=0.3)
    kind = "dora" if lora.get("use_dora") else "rslora" if lora.get("use_rslora") else "lora"
    plan = tiny_plan(base, folder, name, **{"recipe.adapter.kind": kind, **(changes or {})})
    folder.mkdir(parents=True, exist_ok=True)
    record = expert_record(plan.recipe, plan.recipe_digest, "MIT", data={}, base=base_digests(base))
    return final_of(model, tokenizer(), plan.recipe, folder, record=record)


def tiny_plan(base: Path, folder: Path, name: str, **changes: Any) -> Any:
    return example_plan(
        folder,
        {
            "machine.paths.base": str(base),
            "recipe.expert": name,
            "recipe.base.name": "tiny",
            "recipe.base.quantization": "none",
            "recipe.template": {"kind": "chatml", "source": None},
            "recipe.decoding.max_new_tokens": ANSWER_TOKENS,
            "recipe.decoding.stop_sequences": [STOP],
            "recipe.decoding.temperature": 0.0,
            "machine.dtype": "fp32",
            **changes,
        },
    )


def scored(final: Path, correct: int) -> None:
    share = {"correct": correct, "total": 40, "accuracy": correct / 40, "low": 0.0, "high": 1.0}
    score = Score.model_validate({**share, "loss": None, "unscored": 0})
    result = EvaluationResult.model_construct(
        scorer="exact", measure="accuracy", rows=40, base=score, adapter=score
    )
    add_score(final, result)


@dataclass
class Running:
    url: str
    process: subprocess.Popen[bytes]
    ready: dict[str, Any]
    log: Path

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)


@contextmanager
def served(
    folder: Path, finals: Sequence[Path], base: Path, *options: str, **environment: str
) -> Iterator[Running]:
    log = folder / "serve.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command(folder, finals, base), "--json", "--port", "0", "--threads", "1", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=child_environment(EXPERT_PARENT_PID=str(os.getpid()), **environment),
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            ready = json.loads(line)
            yield Running(ready["url"], process, ready, log)
        finally:
            process.kill()
            process.wait()


def command(folder: Path, finals: Sequence[Path], base: Path) -> list[str]:
    places = ["--home", str(folder / "home"), "--base-folder", str(base)]
    return [sys.executable, "-m", "expert_worker.endpoint", *map(str, finals), *places]


def until(condition: Any, seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
