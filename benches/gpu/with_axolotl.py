"""Axolotl on one case, packed: `with_axolotl.py BASE CASE-JSON SHAPE-JSON DEVICE`.

Its own defaults, with the kernels that it chooses by itself. What its `train` command does, up to the
trainer, which is watched here.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

# Read when it is imported.
os.environ.setdefault("AXOLOTL_DO_NOT_TRACK", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")

from axolotl.cli.config import load_cfg  # isort: skip
from axolotl.common.datasets import load_datasets  # isort: skip
from axolotl.train import setup_model_and_trainer  # isort: skip

from data import documents
from shapes import Case, Shape
from watch import given, watched


def main() -> None:
    base, case, shape, device = given()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        written(case, shape, folder / "rows.jsonl")
        path = folder / "axolotl.yml"
        # JSON is YAML too.
        path.write_text(json.dumps(configuration(base, case, folder)))
        config = load_cfg(str(path))
        trainer = setup_model_and_trainer(config, load_datasets(cfg=config))[0]
        watched(trainer, case, device, "axolotl")


def written(case: Case, shape: Shape, path: Path) -> None:
    with path.open("w") as file:
        for prompt, answer in documents(case, shape):
            ids = prompt + answer
            row = {
                "input_ids": ids,
                "attention_mask": [1] * len(ids),
                "labels": [-100] * len(prompt) + answer,
            }
            file.write(json.dumps(row) + "\n")


def configuration(base: str, case: Case, folder: Path) -> dict[str, Any]:
    four_bits = case.quantization == "int4"
    return {
        "base_model": base,
        "load_in_4bit": four_bits,
        "adapter": "qlora" if four_bits else "lora",
        "lora_r": case.rank,
        "lora_alpha": 2 * case.rank,
        "lora_dropout": case.dropout,
        "lora_target_linear": True,
        "peft_use_dora": case.adapter == "dora",
        "datasets": [{"path": str(folder / "rows.jsonl"), "ds_type": "json", "type": None}],
        "dataset_prepared_path": str(folder / "prepared"),
        "output_dir": str(folder / "out"),
        "dataset_num_proc": 1,
        "val_set_size": 0,
        "sequence_len": case.length,
        "sample_packing": True,
        "attn_implementation": "sdpa",
        "micro_batch_size": case.rows,
        "gradient_accumulation_steps": 1,
        "gradient_checkpointing": False,
        "max_steps": case.steps,
        "optimizer": "adamw_torch_fused",
        "lr_scheduler": "constant",
        "learning_rate": 1e-4,
        "bf16": case.dtype == "bf16",
        "save_strategy": "no",
        "logging_steps": case.steps + 1,
    }


if __name__ == "__main__":
    main()
