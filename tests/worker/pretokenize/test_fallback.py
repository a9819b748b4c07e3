"""Tokenizers that the native encoder does not take, or is not exact for: `tokenizers` itself encodes."""

import json
from pathlib import Path

import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.workshop import Workshop
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

ROWS = [{"prompt": f"Question {i}, naïve", "completion": f"Answer {i} 漢字"} for i in range(9)]
Rows = list[list[list[int]]]


def word_level() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    specials = ["[UNK]", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.WordLevelTrainer(special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator([json.dumps(row, ensure_ascii=False) for row in ROWS], trainer)
    return tokenizer


def codes(workshop: Workshop) -> set[str | None]:
    return {getattr(line, "code", None) for line in workshop.said}


def rows(workshop: Workshop, folder: str) -> Rows:
    place = {"machine.paths.cache": str(workshop.folder / folder)}
    cache = workshop.build(workshop.jsonl(ROWS), {**place, "recipe.batch.packing": False})
    return [[part.tolist() for part in cache.train.row(index)] for index in range(len(cache.train))]


def test_a_tokenizer_of_another_kind(workshop: Workshop) -> None:
    reference = word_level()
    workshop.base = write_base(workshop.folder / "words", reference)
    got = rows(workshop, "cache")
    assert "tokenizer-fallback" in codes(workshop)
    for row, (ids, labels, _) in zip(ROWS, got, strict=True):
        prompt = f"<|im_start|>user\n{row['prompt']}<|im_end|>\n<|im_start|>assistant\n"
        expected = reference.encode(prompt + f"{row['completion']}<|im_end|>\n").ids
        unlearned = len(reference.encode(prompt).ids)
        assert ids == expected
        assert labels == [-100] * unlearned + expected[unlearned:]


def test_an_encoder_that_is_not_exact_gives_way(workshop: Workshop, tmp_path: Path) -> None:
    workshop.home = tmp_path / "home"
    native = rows(workshop, "native")
    assert "tokenizer-fallback" not in codes(workshop)
    (verdict,) = (workshop.home / "tokenizers").glob("*.exact.json")
    verdict.write_text(json.dumps({"mismatch": "other ids for 'x'", "strings": 1}))
    assert rows(workshop, "slow") == native
    assert "tokenizer-fallback" in codes(workshop)


@pytest.mark.parametrize("damage", [b"", b"expbpe\0\x03", None], ids=["empty", "short", "cut"])
def test_a_damaged_compiled_tokenizer_is_compiled_anew(
    workshop: Workshop, tmp_path: Path, damage: bytes | None
) -> None:
    workshop.home = tmp_path / "home"
    workshop.base = write_base(tmp_path / "base", llama3_like())
    before = rows(workshop, "before")
    (compiled,) = (workshop.home / "tokenizers").glob("*.bpe")
    whole = compiled.read_bytes()
    compiled.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert rows(workshop, "after") == before
    assert compiled.read_bytes() == whole
