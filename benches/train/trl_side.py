"""TRL's SFTTrainer on the scene: packing on, gradient checkpointing off."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from scene import Scene, base, documents
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, set_seed
from trl import SFTConfig, SFTTrainer


class Clock(TrainerCallback):
    """User CPU and wall time of each step."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def mark(self) -> None:
        self.marks.append((time.process_time(), time.perf_counter()))

    def on_train_begin(self, *_args: Any, **_kwargs: Any) -> None:
        self.mark()

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        self.mark()


def main() -> None:
    scene = Scene(**json.loads(sys.argv[1]))
    with tempfile.TemporaryDirectory() as temporary:
        measure(scene, Path(temporary))


def measure(scene: Scene, folder: Path) -> None:
    weights = base(scene, folder / "base")
    set_seed(7)
    dtype = torch.bfloat16 if scene.embedded else torch.float32
    model = AutoModelForCausalLM.from_pretrained(weights, dtype=dtype)
    rows = [
        {"input_ids": p + c, "completion_mask": [0] * len(p) + [1] * len(c)}
        for p, c in documents(scene, weights)
    ]
    clock = Clock()
    arguments = SFTConfig(
        output_dir=str(folder / "out"),
        max_steps=scene.steps + 1,
        per_device_train_batch_size=scene.rows,
        max_length=scene.length,
        packing=True,
        gradient_checkpointing=False,
        bf16=scene.embedded,
        fp16=False,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        optim="adamw_torch",
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        completion_only_loss=True,
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(weights),
        peft_config=LoraConfig(
            r=scene.rank,
            lora_alpha=32,
            lora_dropout=scene.dropout,
            use_dora=scene.dora,
            task_type="CAUSAL_LM",
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        ),
        callbacks=[clock],
    )
    trainer.train()
    # Real tokens: rows are not quite full.
    held = sum(len(row["input_ids"]) for row in trainer.train_dataset)
    share = held / len(trainer.train_dataset) / scene.length
    cpu, wall = ([b[i] - a[i] for a, b in pairwise(clock.marks)] for i in (0, 1))
    result = {
        "first_cpu": cpu[0],
        "first_wall": wall[0],
        "cpu": sum(cpu[1:]),
        "wall": sum(wall[1:]),
        "tokens": round(scene.rows * scene.length * scene.steps * share),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
