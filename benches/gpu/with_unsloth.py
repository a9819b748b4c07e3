"""Unsloth on one case, packed: `with_unsloth.py BASE CASE-JSON SHAPE-JSON DEVICE`.

As its notebooks do it, except that activations are kept, as the others keep them.
"""

from __future__ import annotations

import os
import tempfile

# Read when it is imported.
os.environ.setdefault("UNSLOTH_DISABLE_STATISTICS", "1")

from unsloth import FastLanguageModel  # isort: skip  # It replaces parts of what is imported below.

from sft import DTYPES, adapter, rows, settings
from trl import SFTConfig, SFTTrainer
from watch import given, watched


def main() -> None:
    base, case, shape, device = given()
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = FastLanguageModel.from_pretrained(
            base,
            max_seq_length=case.length,
            dtype=DTYPES[case.dtype],
            load_in_4bit=case.quantization == "int4",
        )
        model = FastLanguageModel.get_peft_model(
            model,
            **adapter(case),
            bias="none",
            use_gradient_checkpointing=False,
            max_seq_length=case.length,
        )
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(**settings(case, device, folder)),
            train_dataset=rows(case, shape),
            processing_class=tokenizer,
        )
        watched(trainer, case, device, "unsloth")


if __name__ == "__main__":
    main()
