"""TRL's SFTTrainer on one case, packed: `with_trl.py BASE CASE-JSON SHAPE-JSON DEVICE`."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from peft import LoraConfig
from sft import DTYPES, adapter, rows, settings
from shapes import Case
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer
from watch import given, watched


def main() -> None:
    base, case, shape, device = given()
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=model_of(base, case, device),
            args=SFTConfig(**settings(case, device, folder)),
            train_dataset=rows(case, shape),
            processing_class=AutoTokenizer.from_pretrained(base),
            peft_config=LoraConfig(task_type="CAUSAL_LM", **adapter(case)),
        )
        watched(trainer, case, device, "trl")


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
