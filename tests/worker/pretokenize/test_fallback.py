"""Tokenizers that the native encoder does not take, or is not exact for: `tokenizers` itself encodes."""

import json
import shutil
from pathlib import Path

import pytest
from pretokenize.bases import CHATML, llama3_like, write_base
from pretokenize.workshop import Workshop
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from expert_worker.events import Events
from expert_worker.pretokenize import coder, ensure_cache
from expert_worker.pretokenize.record import cost_in_words, read_description
from expert_worker.results import CacheRecord

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


def warning(workshop: Workshop) -> str:
    (found,) = [line.message for line in workshop.said if getattr(line, "code", None) == "tokenizer-fallback"]
    return str(found)


def description(workshop: Workshop, folder: str) -> CacheRecord:
    (place,) = [path.parent for path in (workshop.folder / folder).glob("*/cache.json")]
    found = read_description(place)
    assert found is not None
    return found


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


def test_a_tokenizer_that_puts_a_space_before_texts_encodes_rows_as_a_whole(workshop: Workshop) -> None:
    reference = word_level()
    reference.pre_tokenizer = pre_tokenizers.Metaspace()
    workshop.base = write_base(workshop.folder / "spaces", reference)
    for row, (ids, _, _) in zip(ROWS, rows(workshop, "cache"), strict=True):
        prompt = f"<|im_start|>user\n{row['prompt']}<|im_end|>\n<|im_start|>assistant\n"
        assert ids == reference.encode(prompt + f"{row['completion']}<|im_end|>\n").ids
        assert ids != reference.encode(prompt).ids + reference.encode(f"{row['completion']}<|im_end|>\n").ids


def test_a_template_larger_than_a_pipe_reaches_the_check(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coder, "_CHECK_LIMIT", 60.0)
    workshop.home = tmp_path / "home"
    plain = rows(workshop, "plain")
    template = {"recipe.template": {"kind": "custom", "source": "{# " + "x" * 1_000_000 + " #}" + CHATML}}
    place = {"machine.paths.cache": str(workshop.folder / "large"), "recipe.batch.packing": False}
    cache = workshop.build(workshop.jsonl(ROWS), {**place, **template})
    assert [[part.tolist() for part in cache.train.row(index)] for index in range(len(ROWS))] == plain
    assert "tokenizer-fallback" not in codes(workshop)


def test_an_encoder_that_is_not_exact_gives_way(checked: Workshop) -> None:
    workshop = checked
    native = rows(workshop, "native")
    assert "tokenizer-fallback" not in codes(workshop)
    (verdict,) = (workshop.home / "tokenizers").glob("*.exact.json")
    verdict.write_text(json.dumps({"ids": "other ids for 'x'", "texts": None, "strings": 1}))
    assert rows(workshop, "slow") == native
    assert "tokenizer-fallback" in codes(workshop)
    slow = description(workshop, "slow").slow_encoder
    assert slow is not None and slow.rows == len(ROWS) and "other ids for 'x'" in slow.reason
    assert slow.times_slower is not None and slow.times_slower > 0
    assert f"{slow.times_slower:.1f} times slower, measured on 9 rows" in warning(workshop)
    (left,) = (workshop.home / "tokenizers").glob("*.slow.json")
    assert json.loads(left.read_text())["words"] == cost_in_words(slow)
    verdict.write_text(json.dumps({"ids": None, "texts": None, "strings": 1}))
    assert rows(workshop, "fast again") == native
    assert not left.exists() and description(workshop, "fast again").slow_encoder is None


def test_a_cost_that_cannot_be_measured_is_not_invented(workshop: Workshop, tmp_path: Path) -> None:
    workshop.home = tmp_path / "home"
    workshop.base = write_base(workshop.folder / "words", word_level())
    rows(workshop, "cache")
    slow = description(workshop, "cache").slow_encoder
    assert slow is not None and slow.times_slower is None and slow.megabytes_per_second
    assert "how much slower that is stays unknown" in warning(workshop)


def test_building_again_as_asked_speaks_of_no_damage(workshop: Workshop) -> None:
    plan = workshop.plan(workshop.jsonl(ROWS))
    ensure_cache(plan, Events.in_memory("pretokenize")[0])
    events, memory = Events.in_memory("pretokenize")
    ensure_cache(plan, events, force=True)
    said = " ".join(event.model_dump_json() for event in memory.events)
    assert "Building it again, as asked" in said and '"warning"' not in said and "damage" not in said


def test_a_template_that_is_rendered_differently_is_reported(checked: Workshop) -> None:
    workshop = checked
    (verdict,) = (workshop.home / "tokenizers").glob("*.exact.json")
    verdict.write_text(json.dumps({"ids": None, "texts": "the template renders 'Hi' otherwise"}))
    rows(workshop, "two")
    assert "template-differs" in codes(workshop) and "tokenizer-fallback" not in codes(workshop)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A base whose tokenizer has been compiled and checked: the check takes a process and two seconds."""
    place = tmp_path_factory.mktemp("known")
    workshop = Workshop(place, write_base(place / "base", llama3_like()), place / "home")
    rows(workshop, "cache")
    return workshop


@pytest.fixture
def checked(known: Workshop, tmp_path: Path) -> Workshop:
    """That base with a home that a test may damage."""
    shutil.copytree(known.home, tmp_path / "checked")
    return Workshop(tmp_path, known.base, tmp_path / "checked")


@pytest.mark.parametrize("content", ["", "[]", '{"mismatch": null}'])
def test_a_damaged_verdict_is_made_again(checked: Workshop, known: Workshop, content: str) -> None:
    workshop, before = checked, rows(known, "cache")
    (verdict,) = (workshop.home / "tokenizers").glob("*.exact.json")
    whole = verdict.read_bytes()
    verdict.write_text(content)
    assert rows(workshop, "after") == before and verdict.read_bytes() == whole


@pytest.mark.parametrize("damage", [b"", b"expbpe\0\x03", None], ids=["empty", "short", "cut"])
def test_a_damaged_compiled_tokenizer_is_compiled_again(
    checked: Workshop, known: Workshop, damage: bytes | None
) -> None:
    workshop, before = checked, rows(known, "cache")
    (compiled,) = (workshop.home / "tokenizers").glob("*.bpe")
    whole = compiled.read_bytes()
    compiled.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert rows(workshop, "after") == before
    assert compiled.read_bytes() == whole
