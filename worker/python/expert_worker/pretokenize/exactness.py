"""`python -m expert_worker.pretokenize.exactness`: is the native encoder exact here?

Reads `{"folder", "template"}` from standard input and writes `{"mismatch": null | text, ...}`. A separate
process, so that a build never loads the slow tokenizer or transformers.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from expert_worker._native import Recipe, Tokenizer
from expert_worker.pretokenize.vocabulary import Vocabulary, read_vocabulary

_STRINGS = 4000
_WORDS = [
    "the", " quick", "'s", "'LL", "don't", " I'm", "123", "4567", " 3.14", "  ", "\n", "\n\n", " \n ", "\r\n",
    "\t", "SELECT * FROM", " {\"a\": [1, 2]}", "();", "...", "==", "\u00e9t\u00e9", "e\u0301", "\u6f22\u5b57",
    "\U0001f600", "\U0001f3fb\u200d", "\u0440\u0443\u0441", "\u0639\u0631\u0628", "\u0939\u093f", "\u00a0",
    "\u3000", "\u2028", "'\u017f", "\u00bd\u2160", "\u1100\u1161\u11a8", "\u212b", "a" * 30, "ab" * 40,
]  # fmt: skip


def main() -> None:
    request = json.load(sys.stdin)
    vocabulary = read_vocabulary(Path(request["folder"]))
    mismatch = ids_differ(vocabulary) or texts_differ(vocabulary, request["template"])
    json.dump({"mismatch": mismatch, "strings": _STRINGS}, sys.stdout)


def strings(seed: int, count: int, added: list[str]) -> list[str]:
    """Words, white space, scripts, digits and special tokens in random order: the same for the same seed."""
    draw = random.Random(seed)
    return [_string(draw, added) for _ in range(count)]


def _string(draw: random.Random, added: list[str]) -> str:
    parts = []
    for _ in range(draw.randrange(1, 14)):
        kind = draw.random()
        if kind < 0.55:
            parts.append(draw.choice(_WORDS))
        elif kind < 0.75:
            parts.append("".join(chr(draw.randrange(32, 127)) for _ in range(draw.randrange(1, 9))))
        elif kind < 0.93 or not added:
            parts.append("".join(_character(draw) for _ in range(draw.randrange(1, 5))))
        else:
            parts.append(draw.choice(added))
        parts.append(draw.choice(["", "", " "]))
    return "".join(parts)


def _character(draw: random.Random) -> str:
    code = draw.randrange(0x80, 0x3000) if draw.random() < 0.7 else draw.randrange(0x110000)
    return "A" if 0xD800 <= code < 0xE000 else chr(code)


def ids_differ(vocabulary: Vocabulary) -> str | None:
    from tokenizers import Tokenizer as Reference

    texts = strings(20260101, _STRINGS, sorted(vocabulary.added))
    reference = Reference.from_str(vocabulary.tokenizer_json.decode())
    theirs = [one.ids for one in reference.encode_batch(texts, add_special_tokens=False)]
    ours = Tokenizer(Tokenizer.compile(vocabulary.tokenizer_json)).encode(texts)
    for text, left, right in zip(texts, ours, theirs, strict=True):
        if left != right:
            return f"other ids for {text[:60]!r}"
    return None


_DIALOGUES: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Two\nlines "},
        {"role": "assistant", "content": "{\"a\": '1'}\n"},
    ],
    [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\n2"},
        {"role": "user", "content": "3"},
        {"role": "assistant", "content": "<think>\nah\n</think>\n\n4"},
    ],
]


def texts_differ(vocabulary: Vocabulary, template: str) -> str | None:
    from transformers.utils.chat_template_utils import render_jinja_template

    ours = bare_recipe(vocabulary, template)
    extra: dict[str, Any] = {"strftime_now": _fixed_date, **vocabulary.specials}
    for messages in _DIALOGUES:
        for prompt in (False, True):
            given = messages[:-1] if prompt else messages
            wanted: dict[str, Any] = {"chat_template": template, "add_generation_prompt": prompt, **extra}
            mine = _or_error(partial(ours.render, json.dumps(given), prompt))
            theirs = _or_error(partial(_reference, render_jinja_template, given, wanted))
            if mine != theirs:
                return f"the template renders {given[0]['content']!r} otherwise"
    return None


def _reference(render: Callable[..., Any], messages: list[dict[str, Any]], options: dict[str, Any]) -> str:
    texts, _ = render(conversations=[messages], **options)
    text: str = texts[0]
    return text


def _or_error(render: Callable[[], str]) -> str | None:
    """Both may refuse a dialogue (roles that must alternate, say); then they agree too."""
    try:
        return render()
    except Exception:
        return None


def _fixed_date(form: str) -> str:
    from datetime import datetime

    return datetime(2024, 7, 26).strftime(form)


def bare_recipe(vocabulary: Vocabulary, template: str) -> Recipe:
    """Only for rendering: nothing in it decides a row's fate."""
    return Recipe(
        template=template,
        specials=vocabulary.specials,
        mapping={},
        parse_dialogue=False,
        train_on="all",
        eos=list(vocabulary.eos),
        stops=list(vocabulary.stops),
        prefix=[],
        suffix=[],
        max_seq_length=2**31,
        overlong="truncate",
        deduplicate=False,
        min_length=None,
        max_length=None,
        interpret=True,
    )


if __name__ == "__main__":
    main()
