"""A base of random weights, with a tokenizer that is only there to be loaded: `base.py FOLDER SHAPE-JSON`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from shapes import Shape
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM


def main() -> None:
    folder, shape = Path(sys.argv[1]), Shape(**json.loads(sys.argv[2]))
    torch.manual_seed(7)
    model = Qwen3ForCausalLM(shape.config()).to(torch.bfloat16)
    model.save_pretrained(folder)
    # Unsloth takes another token for padding if it is that of the end.
    names = {name: at for at, name in enumerate(("<pad>", "<eos>", "<unk>"))}
    words = Tokenizer(models.WordLevel(names, unk_token="<unk>"))
    PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)


if __name__ == "__main__":
    main()
