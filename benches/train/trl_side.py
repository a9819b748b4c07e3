"""TRL's SFTTrainer on the scene: packing on, gradient checkpointing off, fp32."""

from __future__ import annotations

import json
import resource
import sys
import time
from itertools import pairwise
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from scene import VOCABULARY, Scene, config, documents
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM, TrainerCallback, set_seed
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


def tokenizer() -> PreTrainedTokenizerFast:
    words = {"<eos>": 0} | {f"w{i}": i for i in range(1, VOCABULARY)}
    inner = Tokenizer(models.WordLevel(words, unk_token="<eos>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<eos>", pad_token="<eos>", unk_token="<eos>"
    )


def main() -> None:
    scene = Scene(**json.loads(sys.argv[1]))
    set_seed(7)
    model = Qwen3ForCausalLM(config())
    rows = [{"input_ids": p + c, "completion_mask": [0] * len(p) + [1] * len(c)} for p, c in documents(scene)]
    clock = Clock()
    arguments = SFTConfig(
        output_dir="/tmp/trl-bench",
        max_steps=scene.steps + 1,
        per_device_train_batch_size=scene.rows,
        max_length=scene.length,
        packing=True,
        gradient_checkpointing=False,
        bf16=False,
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
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
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
    if "--profile" in sys.argv:
        with torch.profiler.profile() as p:
            trainer.train()
        print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=25), file=sys.stderr)
    else:
        trainer.train()
    cpu = [b[0] - a[0] for a, b in pairwise(clock.marks)]
    wall = [b[1] - a[1] for a, b in pairwise(clock.marks)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "first_cpu": cpu[0],
                "first_wall": wall[0],
                "cpu": sum(cpu[1:]),
                "wall": sum(wall[1:]),
                "before": before,
                "tokens": scene.rows * scene.length * scene.steps,
                "peak": peak,
                "threads": torch.get_num_threads(),
            }
        )
    )


if __name__ == "__main__":
    main()
