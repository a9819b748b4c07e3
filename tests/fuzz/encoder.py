"""The encoder against Hugging Face `tokenizers`: of a tokenizer that it accepts, not one id may differ.

An input is that of the target `tokenizer` in `fuzz`: tokenizer.json, a NUL byte, and a text.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tokenizers import Tokenizer as Reference

from expert_worker._native import Tokenizer

CORPUS = Path(__file__).parents[1] / "corpus" / "tokenizer"
TEXTS = (
    "It's the 1st of 2,048 rows:\n\n  def f(x):\r\n\treturn 'x' ",
    "naïve café é 漢字 русский 😀🏽",
    "<|im_start|>user\nhello<|im_end|>  <tool> <think> ",
    "   \xa0   \n \n",
)


def check(data: bytes) -> None:
    written, _, tail = data.partition(b"\x00")
    try:
        compiled = Tokenizer.compile(written)
    except ValueError:
        return
    try:
        reference = Reference.from_str(written.decode())
    except Exception:  # `tokenizers` raises nothing more exact; what it refuses is never encoded.
        return
    ours = Tokenizer(compiled)
    texts = [*TEXTS, tail.decode("utf-8", "replace")]
    theirs = [one.ids for one in reference.encode_batch(texts, add_special_tokens=False)]
    for text, left, right in zip(texts, ours.encode(texts), theirs, strict=True):
        assert left == right, f"{text!r}: {left}, and {right} by the reference"


def inputs() -> st.SearchStrategy[bytes]:
    """Tokenizers of the corpus with changed parts, and a text of pieces that tokenizers cut differently."""
    documents = [document for path in sorted(CORPUS.glob("*.json")) for document in _document(path)]
    changed = st.builds(_changed, st.sampled_from(documents), st.lists(_changes(), max_size=4))
    pieces = st.one_of(
        st.text(max_size=4),
        st.sampled_from(
            [
                "'s",
                "'LL",
                " ",
                "\n",
                "\r\n",
                "1234",
                "e\u0301",
                "<tool>",
                "<think>",
                "<|im_end|>",
                "  the",
                "\u00a0",
            ]
        ),
    )
    texts = st.lists(pieces, max_size=10).map("".join)
    return st.builds(
        lambda document, text: document + b"\x00" + text.encode("utf-8", "replace"), changed, texts
    )


def _document(path: Path) -> list[dict[str, Any]]:
    """Of one input; none where it is broken on purpose."""
    try:
        return [json.loads(path.read_bytes().partition(b"\x00")[0])]
    except ValueError:
        return []


def _changes() -> st.SearchStrategy[tuple[str, Any]]:
    added = st.fixed_dictionaries(
        {
            "id": st.integers(0, 400),
            "content": st.sampled_from(["", " ", "a", "<x>", "the", "é", "e\u0301", "\n", "'s"]),
            "single_word": st.booleans(),
            "lstrip": st.booleans(),
            "rstrip": st.booleans(),
            "normalized": st.booleans(),
            "special": st.booleans(),
        }
    )
    return st.one_of(
        st.tuples(st.just("added"), added),
        st.tuples(st.just("merge"), st.tuples(st.integers(0, 400), st.integers(0, 400))),
        st.tuples(st.just("unmerge"), st.integers(0, 40)),
        st.tuples(
            st.just("model"),
            st.tuples(
                st.sampled_from(["ignore_merges", "unk_token", "byte_fallback", "fuse_unk", "dropout"]),
                st.sampled_from([None, True, False, "a", "<unk>", 0.0]),
            ),
        ),
        st.tuples(st.just("forget"), st.integers(0, 400)),
        st.tuples(
            st.just("normalizer"),
            st.sampled_from(
                [None, {"type": "NFC"}, {"type": "Sequence", "normalizers": []}, {"type": "Lowercase"}]
            ),
        ),
    )


def _changed(document: dict[str, Any], changes: list[tuple[str, Any]]) -> bytes:
    document = copy.deepcopy(document)
    model = document["model"]
    names = list(model["vocab"])
    for kind, change in changes:
        if kind == "added":
            document["added_tokens"].append(change)
        elif kind == "merge":
            left, right = (names[at % len(names)] for at in change)
            model["merges"].append([left, right])
            model["vocab"].setdefault(left + right, len(model["vocab"]) + 200)
        elif kind == "unmerge":
            del model["merges"][change % max(1, len(model["merges"])) :][:1]
        elif kind == "model":
            model[change[0]] = change[1]
        elif kind == "forget":
            model["vocab"].pop(names[change % len(names)], None)
        else:
            document["normalizer"] = change
    return json.dumps(document, ensure_ascii=False).encode()
