"""One preparation by TRL's own trainer, on a model too small to matter: `with_trl.py DATA BASE FOLDER`."""

import json
import sys
import time

import torch
from datasets import load_dataset
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import SFTConfig, SFTTrainer


def main() -> None:
    data, base, folder = sys.argv[1:4]
    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(base)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer) + 8, **shape, **heads))
    settings = SFTConfig(folder, packing=True, max_length=2048, report_to=[], use_cpu=True, bf16=False)
    started = time.process_time()
    rows = load_dataset("json", data_files=data, split="train", cache_dir=folder)
    trainer = SFTTrainer(model=model, args=settings, train_dataset=rows, processing_class=tokenizer)
    work = time.process_time() - started
    print(json.dumps({"start_cpu": started, "work_cpu": work, "rows": len(trainer.train_dataset)}))


if __name__ == "__main__":
    main()
