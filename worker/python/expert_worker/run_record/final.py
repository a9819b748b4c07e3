"""`final/`: a plain PEFT folder that also holds what decides an answer beside the weights.

No time, no path, no hash order: the same training gives the same bytes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel, get_peft_model_state_dict

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.checkpoint import files, tensors
from expert_worker.checkpoint.refusal import refusals_in_words
from expert_worker.errors import system_error
from expert_worker.results import ExpertRecord
from expert_worker.run_record.card import public_name
from expert_worker.run_record.digests import CARD
from expert_worker.run_record.expert import write_record
from expert_worker.run_scores import remove_replaced_scores

NAME = "final"

# Where the tokenizer was loaded from, and the template, which has a file for itself.
_LEFT_OUT = frozenset(
    {"name_or_path", "tokenizer_file", "vocab_file", "merges_file", "_commit_hash", "chat_template"}
)


def write_final(
    output: Path,
    *,
    config: Mapping[str, Any],
    weights: Mapping[str, torch.Tensor],
    tokenizer: Any,
    inference: Mapping[str, bytes],
    record: ExpertRecord,
    card: str,
) -> Path:
    """`inference` are files of the run that go over those of the tokenizer, which is anything with
    save_pretrained. Scores of other weights that are there go."""
    target = output / NAME
    texts = {
        CONFIG: files.json_bytes(dict(config)),
        **inference,
        CARD: card.encode(),
    }

    def fill(folder: Path) -> None:
        files.write(folder / WEIGHTS, tensors.encode(weights))
        for name, content in sorted({**tokenizer_files(tokenizer, folder), **texts}.items()):
            files.write(folder / name, [content])
        write_record(folder, record)
        # Last: what cannot be written leaves the adapter before with its scores.
        remove_replaced_scores(target, folder / WEIGHTS)

    with refusals_in_words(output, f"write {NAME}/", int, lambda: []):
        files.build_folder(target, fill)
    return target


def tokenizer_files(tokenizer: Any, beside: Path | None = None) -> dict[str, bytes]:
    """Written into a folder `beside` the others or, without it, into the temporary one, and removed again."""
    with tempfile.TemporaryDirectory(prefix="expert-tokenizer-", dir=beside) as folder:
        try:
            tokenizer.save_pretrained(folder)
        except Exception as error:
            raise system_error(error) or error from error
        return {path.name: _placeless(path) for path in sorted(Path(folder).iterdir()) if path.is_file()}


def room_for_tokenizer(tokenizer: Any) -> int:
    """The bytes that `tokenizer_files` needs: those of its largest file, twice while it is written."""
    path = Path(tokenizer.name_or_path) / "tokenizer.json"
    return 2 * path.stat().st_size if path.is_file() else 0


def _placeless(path: Path) -> bytes:
    if path.name != "tokenizer_config.json":
        return path.read_bytes()
    document = json.loads(path.read_bytes())
    return files.json_bytes({key: value for key, value in document.items() if key not in _LEFT_OUT})


def adapter_config(config: PeftConfig, base: str) -> dict[str, Any]:
    """As peft writes it, but module lists sorted (sets have hash order) and the base by its logical name."""
    document = {key: _plain(value) for key, value in config.to_dict().items()}
    document["base_model_name_or_path"] = public_name(base)
    document["inference_mode"] = True
    if document.get("tokenizer_name_or_path") is not None:
        document["tokenizer_name_or_path"] = public_name(base)
    return document


def adapter_tensors(model: PeftModel) -> dict[str, torch.Tensor]:
    """Under the names that `PeftModel.from_pretrained` looks for; base embeddings are never among them."""
    found: dict[str, torch.Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {name: tensor.detach() for name, tensor in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
