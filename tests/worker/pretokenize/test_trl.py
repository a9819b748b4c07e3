"""The cache beside what TRL prepares of the same rows: same ids, same labels, same boundaries, row by row."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from pretokenize.workshop import Workshop

LENGTH = 96
Row = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

# Every dialogue of another length, the last ones too long: where lengths tie, either order is best fit.
ROWS = [
    {
        "prompt": [{"role": "user", "content": "Which? " + "A few words, 12345. " * (i // 9)}],
        "completion": [{"role": "assistant", "content": "x" * 3 + " x1" * i}],
    }
    for i in range(40)
]


def theirs(rows: list[dict[str, Any]], base: Path, folder: Path, *, packing: bool) -> list[Row]:
    """By TRL's own trainer, on a model too small to matter."""
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
    from trl import SFTConfig, SFTTrainer

    tokenizer = PreTrainedTokenizerFast.from_pretrained(base)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer) + 8, **shape, **heads))
    settings = SFTConfig(
        str(folder), packing=packing, max_length=LENGTH, report_to=[], use_cpu=True, bf16=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = SFTTrainer(
            model=model, args=settings, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
        )
    return [_row(row) for row in trainer.train_dataset]


def _row(row: dict[str, Any]) -> Row:
    ids = row["input_ids"][:LENGTH]
    if "labels" in row:
        labels = row["labels"][:LENGTH]
    else:
        learned = row["completion_mask"][:LENGTH]
        labels = [i if mask else -100 for i, mask in zip(ids, learned, strict=True)]
    return tuple(ids), tuple(labels), tuple(row.get("seq_lengths") or [len(ids)])


def ours(workshop: Workshop, *, packing: bool) -> list[Row]:
    changes = {"recipe.batch.max_seq_length": LENGTH, "recipe.batch.packing": packing}
    cache = workshop.build(workshop.jsonl(ROWS), changes)
    rows = (cache.train.row(index) for index in range(len(cache.train)))
    return [tuple(tuple(part.tolist()) for part in row) for row in rows]  # type: ignore[misc]


@pytest.mark.parametrize("packing", [False, True], ids=["apart", "packed"])
def test_every_row_is_trl_s_row(workshop: Workshop, packing: bool) -> None:
    mine = ours(workshop, packing=packing)
    reference = theirs(ROWS, workshop.base, workshop.folder / "trl", packing=packing)
    assert any(len(ids) == LENGTH for ids, _, _ in mine), "no row was cut: the lengths above are too short"
    assert len(mine) == len(reference)
    if packing:  # Rows stand in the order in which each packer opens them.
        assert len(mine) < len(ROWS)
        mine, reference = sorted(mine), sorted(reference)
    for own, other in zip(mine, reference, strict=True):
        assert own == other, json.dumps([own, other])
