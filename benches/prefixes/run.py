"""Rows with one question each about the same tables: a common beginning computed once, and separate rows.
CPU time for the same documents, each once, forward and backward, by the embedded base in bf16 with LoRA, on
one thread.

python benches/prefixes/run.py [--tables 12]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("worker/python", "tests/worker", "benches/prep")]

import expert_worker.train  # noqa: E402, F401, I001  (before torch)
import torch  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from cache import built  # noqa: E402
from expert_worker.base.embedded import embedded  # noqa: E402
from expert_worker.events import Events  # noqa: E402
from expert_worker.pretokenize import Cache  # noqa: E402
from expert_worker.train.fast.batch import PackedBatch  # noqa: E402
from expert_worker.train.fast.decoder import FastDecoder  # noqa: E402
from expert_worker.train.fast.dropout import Place  # noqa: E402
from expert_worker.train.objective import SupervisedFineTuning  # noqa: E402

TRAIN = ROOT / "experts/expert-sql/datasets/train.jsonl"
CAPACITY, LEAST, ROUNDS = 512, 4, 3


def rows(tables: int) -> list[dict[str, Any]]:
    """Of conversations about some tables, each question with the tables as a row."""
    made = []
    for line in TRAIN.read_text(encoding="utf-8").splitlines():
        system, *turns = json.loads(line)["messages"]
        if len(turns) < 2 * LEAST:
            continue
        shown = turns[0]["content"].rsplit("\n", 1)[0]
        for place in range(0, len(turns), 2):
            asked, answer = turns[place], turns[place + 1]
            text = asked["content"] if place == 0 else f"{shown}\n{asked['content']}"
            made.append({"messages": [system, {"role": "user", "content": text}, answer]})
        tables -= 1
        if not tables:
            break
    return made


def learner(base: Path) -> FastDecoder:
    modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    adapted = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=modules))
    return FastDecoder(adapted.train(), Place())


def batches(cache: Cache) -> list[PackedBatch]:
    objective = SupervisedFineTuning()
    return [objective.batch(cache.train, [place]).filled(32) for place in range(len(cache.train))]


def seconds(decoder: FastDecoder, given: list[PackedBatch]) -> float:
    began = time.process_time()
    for batch in given:
        decoder.loss(batch).backward()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=12)
    given = parser.parse_args()
    torch.set_num_threads(1)
    base = embedded(Path.home() / ".cache/expert-cli", Events())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        found = rows(given.tables)
        data = folder / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
        caches = [
            built(folder, data, base, CAPACITY, {"recipe.batch.share_prefixes": share})
            for share in (False, True)
        ]
        tokens = [cache.description.splits["train"].tokens for cache in caches]
        decoder = learner(base)
        both = [batches(cache) for cache in caches]
        # Each in turn; the first round compiles a kernel for every number of tokens.
        rounds = [[seconds(decoder, given) for given in both] for _ in range(1 + ROUNDS)]
    apart, together = map(min, zip(*rounds[1:], strict=True))
    counted = f"{tokens[1]:,} of {tokens[0]:,} tokens"
    what = f"{len(found)} questions about {given.tables} schemas, {counted}: CPU time"
    row = {"what": what, "against": "separate rows", "ratio": apart / together}
    times = {"shared_cpu_seconds": together, "separate_cpu_seconds": apart}
    print(json.dumps({**times, "shared_tokens": tokens[1], "separate_tokens": tokens[0], "rows": [row]}))


if __name__ == "__main__":
    main()
