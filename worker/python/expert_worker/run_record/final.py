"""`final/`: a plain PEFT folder. No time, no path, no hash order: the same training gives the same bytes."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.checkpoint import files, tensors
from expert_worker.checkpoint.refusal import refusals_in_words
from expert_worker.run_record.digests import CARD

NAME = "final"
TEMPLATE = "template.json"

# What depends on where the tokenizer was loaded from, not on what it does.
_PLACES = frozenset({"name_or_path", "tokenizer_file", "vocab_file", "merges_file", "_commit_hash"})


def write_final(
    output: Path,
    *,
    config: Mapping[str, Any],
    weights: Mapping[str, torch.Tensor],
    tokenizer: Any,
    template: Mapping[str, Any],
    card: str,
) -> Path:
    """`template` is what rendered the training rows; `tokenizer` anything with save_pretrained."""
    target = output / NAME
    texts = {
        **tokenizer_files(tokenizer),
        CONFIG: files.json_bytes(dict(config)),
        TEMPLATE: files.json_bytes(dict(template)),
        CARD: card.encode(),
    }

    def fill(folder: Path) -> None:
        files.write(folder / WEIGHTS, tensors.encode(weights))
        for name, content in sorted(texts.items()):
            files.write(folder / name, [content])

    with refusals_in_words(output, f"write {NAME}/", int, lambda: []):
        files.build_folder(target, fill)
    return target


def tokenizer_files(tokenizer: Any) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="expert-tokenizer-") as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: _placeless(path) for path in sorted(Path(folder).iterdir()) if path.is_file()}


def _placeless(path: Path) -> bytes:
    if path.name != "tokenizer_config.json":
        return path.read_bytes()
    document = json.loads(path.read_bytes())
    return files.json_bytes({key: value for key, value in document.items() if key not in _PLACES})
