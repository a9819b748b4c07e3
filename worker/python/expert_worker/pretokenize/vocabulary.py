"""What a base's tokenizer files say: the tokenizer, its special texts, how answers end, its template."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from expert_worker.errors import BadInput, Missing

_MOST_ID = 1 << 28
_SPECIALS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# Texts that end a turn in some template; one that the tokenizer knows as a token counts as an end.
_TURN_ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "</s>",
    "<|endoftext|>",
)


@dataclass(frozen=True)
class Vocabulary:
    folder: Path
    tokenizer_json: bytes
    # bos_token, eos_token and the like, as templates see them.
    specials: dict[str, str]
    added: dict[str, int]
    chat_template: str | None
    # Ids that may end an answer; the first is the tokenizer's own EOS.
    eos: tuple[int, ...]

    @cached_property
    def file_digest(self) -> str:
        return hashlib.sha256(self.tokenizer_json).hexdigest()

    @cached_property
    def digest(self) -> str:
        """Of everything here that decides ids."""
        rest = json.dumps([self.specials, self.eos], sort_keys=True).encode()
        return hashlib.sha256(bytes.fromhex(self.file_digest) + rest).hexdigest()

    @property
    def stops(self) -> tuple[str, ...]:
        eos = self.specials.get("eos_token")
        known = [text for text in _TURN_ENDS if text in self.added]
        return tuple(dict.fromkeys([*([eos] if eos else []), *known]))


def read_vocabulary(folder: Path) -> Vocabulary:
    path = folder / "tokenizer.json"
    try:
        content = path.read_bytes()
    except OSError:
        raise Missing(
            f"The base in {folder} has no tokenizer.json",
            hint="Fetch the base again with its tokenizer files.",
            code="tokenizer-missing",
        ) from None
    config = _read(folder / "tokenizer_config.json")
    config = {**_read(folder / "special_tokens_map.json"), **config}
    specials = {name: text for name in _SPECIALS if (text := _text(config.get(name))) is not None}
    added = _added(content, path)
    return Vocabulary(
        folder=folder,
        tokenizer_json=content,
        specials=specials,
        added=added,
        chat_template=_chat_template(folder, config),
        eos=_eos(folder, specials, added),
    )


def _added(content: bytes, path: Path) -> dict[str, int]:
    """The added tokens alone: a vocabulary of a hundred thousand entries is not parsed for them."""
    start = content.find(b'"added_tokens"')
    try:
        if start < 0:
            return {}
        opening = content.index(b"[", start)
        tokens, _ = json.JSONDecoder().raw_decode(_window(content, opening))
        found = {token["content"]: token["id"] for token in tokens}
        if not all(isinstance(text, str) and _is_id(number) for text, number in found.items()):
            raise ValueError("an added token lacks its text or its id")
        return found
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f"{path} is not a tokenizer: {error}",
            hint="Fetch the base again with its tokenizer files.",
            code="tokenizer-damaged",
        ) from None


def _is_id(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_ID


def _window(content: bytes, opening: int) -> str:
    """From the list's opening bracket up to the next top-level key, which is enough to decode the list."""
    end = len(content)
    for key in (b'"normalizer"', b'"pre_tokenizer"', b'"model"'):
        found = content.find(key, opening)
        if found > 0:
            end = min(end, found)
    return content[opening:end].decode()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except ValueError:
            raise BadInput(
                f"{path} is not UTF-8",
                hint="Correct it, or set prompt_template to a built-in template.",
                code="template-damaged",
            ) from None
    found = config.get("chat_template")
    if isinstance(found, list):  # Several under names: the one for chat is called default.
        named = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _eos(folder: Path, specials: dict[str, str], added: dict[str, int]) -> tuple[int, ...]:
    ids = []
    if (text := specials.get("eos_token")) is not None and text in added:
        ids.append(added[text])
    for name in ("generation_config.json", "config.json"):
        found = _read(folder / name).get("eos_token_id")
        ids += [i for i in (found if isinstance(found, list) else [found]) if _is_id(i)]
    return tuple(dict.fromkeys(ids))
