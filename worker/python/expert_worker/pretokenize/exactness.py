"""`python -m expert_worker.pretokenize.exactness`: is the native encoder exact here?

Reads `{"folder", "template"}` from standard input and writes what differs:
`{"ids": null | text, "texts": null | text}`. A separate
process, so that a build never loads the slow tokenizer or transformers.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from expert_worker._native import Recipe, Tokenizer
from expert_worker.pretokenize.template import renderer
from expert_worker.pretokenize.vocabulary import Vocabulary, read_vocabulary
from expert_worker.pretokenize.watch import held_bytes

_STRINGS = 4000
_MOST_SECONDS = 120
_MOST_BYTES = 2 << 30
# Exit status of a check that has reached a limit.
RUNAWAY = 99
_WORDS = [
    "the", " quick", "'s", "'LL", "don't", " I'm", "123", "4567", " 3.14", "  ", "\n", "\n\n", " \n ", "\r\n",
    "\t", "SELECT * FROM", " {\"a\": [1, 2]}", "();", "...", "==", "\u00e9t\u00e9", "e\u0301", "\u6f22\u5b57",
    "\U0001f600", "\U0001f3fb\u200d", "\u0440\u0443\u0441", "\u0639\u0631\u0628", "\u0939\u093f", "\u00a0",
    "\u3000", "\u2028", "'\u017f", "\u00bd\u2160", "\u1100\u1161\u11a8", "\u212b", "a" * 30, "ab" * 40,
]  # fmt: skip


def main() -> None:
    request = json.load(sys.stdin)
    import tokenizers  # noqa: F401

    import_renderer_alone()
    confine()
    vocabulary = read_vocabulary(Path(request["folder"]))
    try:
        ids, texts = ids_differ(vocabulary), texts_differ(vocabulary, request["template"])
    except Endless as endless:
        json.dump({"refused": str(endless)}, sys.stdout)
        return
    json.dump({"ids": ids, "texts": texts, "strings": _STRINGS}, sys.stdout)


def import_renderer_alone() -> None:
    """Import `transformers.utils.chat_template_utils` without the `__init__` of the two packages around it,
    which import about 200 other modules: 0.9 of 1.3 CPU seconds."""
    packages = ["transformers", "transformers.utils"]
    if not sys.modules.keys().isdisjoint(packages):
        return
    try:
        for name in packages:
            spec = importlib.util.find_spec(name)
            assert spec is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
        importlib.import_module("transformers.utils.chat_template_utils")
    except Exception:
        # Another version of transformers: with everything that it imports.
        for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
            del sys.modules[name]
        importlib.import_module("transformers.utils.chat_template_utils")


class Endless(Exception):
    """The template does not come to an end: transformers would not end either."""


def confine() -> None:
    """Limits memory and processor time: from here on this process runs what a stranger's files say."""
    threading.Thread(target=_watch, args=(_MOST_BYTES, _MOST_SECONDS), daemon=True).start()
    if sys.platform == "linux":
        _limit()


def _watch(most_bytes: int, most_seconds: float) -> None:
    """The limit of macOS and Windows, whose systems set none on memory."""
    before, start = held_bytes(), time.process_time()
    while held_bytes() - before < most_bytes and time.process_time() - start < most_seconds:
        time.sleep(0.02)
    os._exit(RUNAWAY)


def _limit() -> None:
    """Between two looks of `_watch`, native code may take more than the machine has."""
    if sys.platform != "linux":
        raise AssertionError("only for Linux")
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    used = resource.getrusage(resource.RUSAGE_SELF)
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime) + _MOST_SECONDS,
        resource.RLIMIT_AS: pages * resource.getpagesize() + _MOST_BYTES,
    }
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        within = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (within, hard))


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
    from transformers.utils import chat_template_utils

    # transformers takes no function from its caller: the clock of its `strftime_now` is replaced.
    chat_template_utils.datetime = FixedDay  # type: ignore[attr-defined, unused-ignore]
    render_jinja_template = chat_template_utils.render_jinja_template
    ours = renderer(template, vocabulary.specials)
    marked = "generation" in template
    for messages in _DIALOGUES:
        for prompt in (False, True):
            given = messages[:-1] if prompt else messages
            wanted: dict[str, Any] = {
                "chat_template": template,
                "add_generation_prompt": prompt,
                "return_assistant_tokens_mask": marked,
                **vocabulary.specials,
            }
            mine = _or_error(partial(_rendered, ours, given, prompt))
            theirs = _or_error(partial(_reference, render_jinja_template, given, wanted))
            if mine != theirs:
                return f"the template renders {given[0]['content']!r} otherwise"
    return None


# A text, and the characters from and to which the template says that the assistant writes.
Rendering = tuple[str, list[tuple[int, int]]]


def _rendered(ours: Recipe, messages: list[dict[str, Any]], prompt: bool) -> Rendering:
    try:
        text, spans = ours.render(json.dumps(messages), prompt)
    except ValueError as error:
        if "million steps" in str(error):
            raise Endless(str(error)) from None
        raise
    encoded = text.encode()
    characters = [tuple(len(encoded[:end].decode()) for end in span) for span in spans]
    return text, sorted((start, end) for start, end in characters)


def _reference(
    render: Callable[..., Any], messages: list[dict[str, Any]], options: dict[str, Any]
) -> Rendering:
    texts, spans = render(conversations=[messages], **options)
    return texts[0], sorted((start, end) for start, end in (spans[0] if spans else []))


def _or_error(render: Callable[[], Rendering]) -> Rendering | None:
    """Both may refuse a dialogue (roles that must alternate, say); then they agree too."""
    try:
        return render()
    except Endless:
        raise
    except Exception:
        return None


class FixedDay(datetime):
    """The day that templates print here, whatever the day is."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> FixedDay:
        return cls(2024, 7, 26, tzinfo=tz)


if __name__ == "__main__":
    main()
