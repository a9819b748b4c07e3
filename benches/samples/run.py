"""Eight sampled answers to each of 200 SQL questions by the embedded base, and eight greedy answers.

A greedy pass is measured once: eight take eight times as long. No answer ends early, so both write the same
number of tokens.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from expert_worker.base.embedded import embedded
from expert_worker.evaluate.decode import Prompt, answer_all, sample_all
from expert_worker.events import Events
from expert_worker.plan import Decoding

ROWS, SAMPLES, TOKENS = 200, 8, 40
DATA = Path(__file__).resolve().parents[2] / "experts/expert-sql/datasets"


def questions() -> list[str]:
    rows = [json.loads(line) for name in ("people", "test") for line in (DATA / f"{name}.jsonl").open()]
    return [row["messages"][-2]["content"] for row in rows[:ROWS]]


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    folder = embedded(Path.home() / ".cache/expert-cli", Events())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.generation_config.eos_token_id = None
    prompts = [Prompt(tokenizer(question)["input_ids"]) for question in questions()]
    greedy = Decoding(
        temperature=0.0, top_p=0.95, top_k=50, min_p=0.0, stop_sequences=(), max_new_tokens=TOKENS
    )
    warm = greedy.model_copy(update={"temperature": 0.8})
    answer_all(model, tokenizer, prompts[:32], greedy)
    once = timed(lambda: answer_all(model, tokenizer, prompts, greedy))
    sampled = timed(lambda: sample_all(model, tokenizer, prompts, warm, SAMPLES))
    ratio = sampled / (SAMPLES * once)
    what = f"{SAMPLES} samples of {ROWS} answers, {TOKENS} tokens each: processor time"
    row = {"what": what, "against": f"{SAMPLES} greedy passes", "ratio": ratio}
    print(
        json.dumps({"greedy_pass_seconds": once, "samples_seconds": sampled, "ratio": ratio, "rows": [row]})
    )


if __name__ == "__main__":
    main()
