"""SQL questions answered by the embedded base, alone and with a LoRA: by the fast path, and by transformers
and peft, in turns. No answer ends early, so both write the same number of tokens.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from expert_worker.base.embedded import embedded
from expert_worker.evaluate.decode import Prompt, answer_all
from expert_worker.events import Events
from expert_worker.plan import Decoding
from expert_worker.train.fast.answering import plain_answers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from machine import device

ROWS, TOKENS, TURNS = 64, 40, 3
DATA = Path(__file__).resolve().parents[2] / "experts/expert-sql/datasets/test.jsonl"
EVERY_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def questions(tokenizer: Any) -> list[Prompt]:
    rows = [json.loads(line) for line in DATA.read_text().splitlines()[:ROWS]]
    asked = [row["messages"][:-1] for row in rows]
    return [
        Prompt(tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"])
        for messages in asked
    ]


def seconds(work: Callable[[], object], how: AbstractContextManager[None]) -> float:
    with how:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began


def main() -> None:
    folder = embedded(Path.home() / ".cache/expert-cli", Events())
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    base: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    base.generation_config.eos_token_id = None
    settings = LoraConfig(r=16, target_modules=EVERY_LINEAR, task_type="CAUSAL_LM", init_lora_weights=False)
    torch.manual_seed(1)
    model = get_peft_model(base, settings).eval()
    prompts = questions(tokenizer)
    decoding = Decoding(
        temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, stop_sequences=(), max_new_tokens=TOKENS
    )

    def answer() -> None:
        answer_all(model, tokenizer, prompts, decoding)

    found: dict[str, Any] = {
        "device": device(),
        "questions": ROWS,
        "prompt_tokens": sum(len(it.ids) for it in prompts),
    }
    rows = []
    for name, switched in (("LoRA", nullcontext), ("the base alone", model.disable_adapter)):
        times: dict[str, list[float]] = {"fast": [], "plain": []}
        with switched():
            for _ in range(TURNS):
                times["fast"].append(seconds(answer, nullcontext()))
                times["plain"].append(seconds(answer, plain_answers(model)))
        ratio = median(times["plain"]) / median(times["fast"])
        found[name.split()[-1].lower()] = {"seconds": times, "speed": ratio}
        what = f"{ROWS} questions answered with {name}, {TOKENS} tokens each: answers per second"
        rows.append({"what": what, "against": "transformers + peft", "ratio": ratio})
    print(json.dumps({**found, "rows": rows}))


if __name__ == "__main__":
    main()
