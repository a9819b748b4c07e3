"""Who turns text into ids: the native encoder where it is exact, else `tokenizers` itself."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from expert_worker._native import ENCODER_VERSION, NativeError, Tokenizer
from expert_worker.checkpoint import files
from expert_worker.events import Events
from expert_worker.pretokenize.vocabulary import Vocabulary

Oracle = Callable[[list[str]], Sequence[tuple[Sequence[int], Sequence[int]]]]
_CHECK_BUDGET = 180.0
_CHECK_LIMIT = 600.0


@dataclass(frozen=True)
class Coder:
    # "native" or "tokenizers".
    kind: str
    work: Tokenizer | Oracle
    # What the tokenizer puts around a bare text.
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


def find_coder(vocabulary: Vocabulary, template: str, home: Path, events: Events) -> Coder:
    folder = home / "tokenizers"
    tokenizer = _compiled(vocabulary, folder)
    if isinstance(tokenizer, str):
        events.warning(
            "tokenizer-fallback",
            f"The fast encoder does not take this tokenizer ({tokenizer}): using tokenizers",
        )
        return oracle_coder(vocabulary.tokenizer_json)
    verdict = _verdict(vocabulary, template, folder, events)
    if verdict is not None:
        events.warning(
            "tokenizer-fallback", f"The fast encoder differs from tokenizers ({verdict}): using tokenizers"
        )
        return oracle_coder(vocabulary.tokenizer_json)
    prefix, suffix = tokenizer.frame()
    return Coder("native", tokenizer, tuple(prefix), tuple(suffix))


def oracle_coder(tokenizer_json: bytes) -> Coder:
    from tokenizers import Tokenizer as Reference

    reference = Reference.from_str(tokenizer_json.decode())
    framed = reference.encode("a").ids
    bare = reference.encode("a", add_special_tokens=False).ids
    at = next((i for i in range(len(framed)) if framed[i : i + len(bare)] == bare), 0)

    def encode(texts: list[str]) -> list[tuple[list[int], list[int]]]:
        encoded = reference.encode_batch(texts, add_special_tokens=False)
        return [(one.ids, [start for start, _ in one.offsets]) for one in encoded]

    return Coder("tokenizers", encode, tuple(framed[:at]), tuple(framed[at + len(bare) :]))


def _compiled(vocabulary: Vocabulary, folder: Path) -> Tokenizer | str:
    """The tokenizer, compiled once and kept under its digest; a text where it cannot be compiled."""
    path = folder / f"{vocabulary.file_digest}.v{ENCODER_VERSION}.bpe"
    if path.is_file():
        try:
            return Tokenizer.open(str(path))
        except ValueError:
            pass  # Damaged, or with another version's layout: compiled again.
    try:
        compiled = Tokenizer.compile(vocabulary.tokenizer_json)
    except (ValueError, NativeError) as error:
        return str(error)
    folder.mkdir(parents=True, exist_ok=True)
    files.replace(path, compiled)
    return Tokenizer.open(str(path))


def _verdict(vocabulary: Vocabulary, template: str, folder: Path, events: Events) -> str | None:
    """The difference from the reference, if any: checked once, in a separate process, and cached."""
    marks = [vocabulary.digest, hashlib.sha256(template.encode()).hexdigest(), str(ENCODER_VERSION)]
    path = folder / f"{hashlib.sha256(' '.join(marks).encode()).hexdigest()}.exact.json"
    if path.is_file():
        return _mismatch(files.read_json(path))
    events.stage("check tokenizer", _CHECK_BUDGET, "against Hugging Face tokenizers, once")
    request = json.dumps({"folder": str(vocabulary.folder), "template": template})
    # The package is found where this process found it, however it was put on the path.
    found_at = str(Path(__file__).parents[2])
    path_list = os.pathsep.join(filter(None, [found_at, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "expert_worker.pretokenize.exactness"],
        env={**os.environ, "PYTHONPATH": path_list},
        input=request.encode(),
        capture_output=True,
        timeout=_CHECK_LIMIT,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return f"the check did not finish: {lines[-1] if lines else done.returncode}"
    found = json.loads(done.stdout)
    files.replace_json(path, found)
    return _mismatch(found)


def _mismatch(found: dict[str, object]) -> str | None:
    mismatch = found.get("mismatch")
    return str(mismatch) if mismatch is not None else None
