"""The fast path on the scene: the same model, documents, adapter and optimizer; fp32."""

from __future__ import annotations

import json
import resource
import sys
import time
from itertools import pairwise

import torch
from peft import LoraConfig, get_peft_model
from scene import Scene, config, documents
from transformers import Qwen3ForCausalLM, set_seed

from expert_worker.train.fast.batch import Flat, positions_of
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install, token_keys

PIECE = 512


def packed(scene: Scene) -> list[list[tuple[list[int], list[int]]]]:
    """Documents laid into steps of rows * length tokens, next fit: how full they are is not measured here."""
    steps: list[list[tuple[list[int], list[int]]]] = [[]]
    held = 0
    for pair in documents(scene):
        size = len(pair[0]) + len(pair[1])
        if held + size > scene.rows * scene.length:
            steps.append([])
            held = 0
        steps[-1].append(pair)
        held += size
    return steps[: scene.steps + 1]


def flat(pairs: list[tuple[list[int], list[int]]], step: int) -> Flat:
    lengths = tuple(len(p) + len(c) for p, c in pairs)
    ids = torch.tensor([i for p, c in pairs for i in p + c])
    labels = torch.tensor([i for p, c in pairs for i in [-100] * len(p) + c])
    return Flat(
        ids,
        labels,
        positions_of(lengths),
        lengths,
        token_keys(7, step, list(range(len(pairs))), list(lengths)),
    )


def main() -> None:
    scene = Scene(**json.loads(sys.argv[1]))
    set_seed(7)
    model = get_peft_model(
        Qwen3ForCausalLM(config()),
        LoraConfig(
            r=scene.rank,
            lora_alpha=32,
            lora_dropout=scene.dropout,
            use_dora=scene.dora,
            task_type="CAUSAL_LM",
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
    ).train()
    place = Place()
    install(model, place)
    decoder = FastDecoder(model, place)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    marks = [(time.process_time(), time.perf_counter())]
    tokens = []

    def steps() -> None:
        for number, pairs in enumerate(packed(scene)):
            batch = flat(pairs, number)
            count = batch.targets.numel()
            for piece in batch.pieces(PIECE):
                (decoder.loss(piece) / count).backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            tokens.append(batch.ids.numel())
            marks.append((time.process_time(), time.perf_counter()))

    if "--profile" in sys.argv:
        with torch.profiler.profile() as p:
            steps()
        print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=25), file=sys.stderr)
    else:
        steps()
    cpu = [b[0] - a[0] for a, b in pairwise(marks)]
    wall = [b[1] - a[1] for a, b in pairwise(marks)]
    print(
        json.dumps(
            {
                "first_cpu": cpu[0],
                "first_wall": wall[0],
                "cpu": sum(cpu[1:]),
                "wall": sum(wall[1:]),
                "before": before,
                "tokens": sum(tokens[1:]),
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "threads": torch.get_num_threads(),
            }
        )
    )


if __name__ == "__main__":
    main()
