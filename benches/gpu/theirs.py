"""TRL's SFTTrainer on one case, packed: `theirs.py BASE CASE-JSON SHAPE-JSON DEVICE`."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import pairwise
from typing import Any

import torch
from data import documents
from datasets import Dataset
from peft import LoraConfig
from shapes import Case, Shape
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, TrainerCallback
from trl import SFTConfig, SFTTrainer

from expert_worker.train import memory

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Clock(TrainerCallback):
    """Wall time of each step, the device's work included."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.marks = device, list[float]()

    def mark(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.marks.append(time.perf_counter())

    def on_train_begin(self, *_args: Any, **_kwargs: Any) -> None:
        self.mark()

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        self.mark()


def main() -> None:
    base, device = sys.argv[1], torch.device(sys.argv[4])
    case, shape = Case(**json.loads(sys.argv[2])), Shape(**json.loads(sys.argv[3]))
    clock = Clock(device)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(base, case, shape, device, folder, clock)
        trainer.train()
        held = sum(len(row["input_ids"]) for row in trainer.train_dataset)
        share = held / len(trainer.train_dataset) / case.length
    seconds = [after - before for before, after in pairwise(clock.marks)]
    # Real tokens: rows are not quite full.
    tokens = case.rows * case.length * (case.steps - 1) * share
    told = {"tokens_per_second": tokens / sum(seconds[1:]), "first_step_seconds": seconds[0]}
    print(json.dumps({**told, "peak_bytes": memory.peak(device)}))


def trainer_of(
    base: str, case: Case, shape: Shape, device: torch.device, folder: str, clock: Clock
) -> SFTTrainer:
    rows = [
        {"input_ids": prompt + answer, "completion_mask": [0] * len(prompt) + [1] * len(answer)}
        for prompt, answer in documents(case, shape)
    ]
    arguments = SFTConfig(
        output_dir=folder,
        max_steps=case.steps,
        per_device_train_batch_size=case.rows,
        max_length=case.length,
        packing=True,
        gradient_checkpointing=False,
        bf16=case.dtype == "bf16",
        fp16=False,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        use_cpu=device.type == "cpu",
        disable_tqdm=True,
        completion_only_loss=True,
    )
    adapter = LoraConfig(
        r=case.rank,
        lora_alpha=2 * case.rank,
        lora_dropout=case.dropout,
        use_dora=case.adapter == "dora",
        task_type="CAUSAL_LM",
        target_modules=LINEARS,
    )
    return SFTTrainer(
        model=model_of(base, case, device),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(base),
        peft_config=adapter,
        callbacks=[clock],
    )


def model_of(base: str, case: Case, device: torch.device) -> Any:
    dtype = DTYPES[case.dtype]
    extra: dict[str, Any] = {}
    if case.quantization == "int4":
        bits = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
        extra = {"quantization_config": bits, "device_map": {"": str(device)}}
    return AutoModelForCausalLM.from_pretrained(base, dtype=dtype, attn_implementation="sdpa", **extra)


if __name__ == "__main__":
    main()
