"""Who turns text into ids: the native encoder where it is exact, else `tokenizers` itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from expert_worker._native import ENCODER_VERSION, NativeError, Tokenizer
from expert_worker.checkpoint import files
from expert_worker.errors import BadInput, ExpertError, Interrupted
from expert_worker.events import Events
from expert_worker.pretokenize.exactness import RUNAWAY
from expert_worker.pretokenize.vocabulary import Vocabulary
from expert_worker.process.child import child_environment

Oracle = Callable[[list[str]], Sequence[tuple[Sequence[int], Sequence[int]]]]
# Of what the check compares: a verdict of another version is not believed.
CHECK = "3"
_CHECK_BUDGET = 180.0
_CHECK_LIMIT = 600.0
_POLL = 0.2


@dataclass(frozen=True)
class Coder:
    # "native" or "tokenizers".
    kind: str
    work: Tokenizer | Oracle
    # What the tokenizer puts around a bare text.
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    # Why it is not the native encoder.
    reason: str | None = None
    # The native encoder, where it can encode and is not exact: to measure what it would save.
    fast: Tokenizer | None = None


def find_coder(vocabulary: Vocabulary, template: str, home: Path, events: Events) -> Coder:
    folder = home / "tokenizers"
    tokenizer = _compiled(vocabulary, folder)
    if isinstance(tokenizer, str):
        return replace(
            oracle_coder(vocabulary.tokenizer_json), reason=f"it does not take this tokenizer ({tokenizer})"
        )
    found = _verdict(vocabulary, template, folder, events)
    if found.texts is not None:
        events.warning(
            "template-differs",
            f"The chat template in {vocabulary.folder} is not rendered here as transformers renders it "
            f"({found.texts}): what serves the adapter may ask it otherwise than it was trained",
            "Compare rows with `pretokenize --preview 5`, or set prompt_template to a built-in template.",
        )
    if found.ids is not None:
        reason = f"it differs from Hugging Face tokenizers here ({found.ids})"
        return replace(oracle_coder(vocabulary.tokenizer_json), reason=reason, fast=tokenizer)
    prefix, suffix = tokenizer.frame()
    return Coder("native", tokenizer, tuple(prefix), tuple(suffix))


def oracle_coder(tokenizer_json: bytes) -> Coder:
    from tokenizers import Tokenizer as Reference

    try:
        reference = Reference.from_str(tokenizer_json.decode())
    except BaseException as error:  # A panic of the library is a BaseException.
        if isinstance(error, KeyboardInterrupt | SystemExit | ExpertError):
            raise
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise BadInput(
            f"The base's tokenizer.json cannot be read: {reason}",
            hint="Fetch the base again with its tokenizer files.",
            code="tokenizer-damaged",
        ) from None
    # `encode_batch` releases the GIL, `encode` does not: the thread that watches this work must run.
    framed = reference.encode_batch(["a"])[0].ids
    bare = reference.encode_batch(["a"], add_special_tokens=False)[0].ids
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
    # Two experts of a shelf may meet a tokenizer for the first time at once.
    files.replace_shared(path, compiled)
    return Tokenizer.open(str(path))


class Verdict(BaseModel):
    """How the native encoder and renderer differ from the references, if they do."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    ids: str | None
    texts: str | None


def _verdict(vocabulary: Vocabulary, template: str, folder: Path, events: Events) -> Verdict:
    """Checked once, in a separate process, and cached."""
    marks = [vocabulary.digest, hashlib.sha256(template.encode()).hexdigest(), str(ENCODER_VERSION), CHECK]
    path = folder / f"{hashlib.sha256(' '.join(marks).encode()).hexdigest()}.exact.json"
    with contextlib.suppress(OSError, ValueError):  # Damaged: checked again.
        return Verdict.model_validate_json(path.read_bytes())
    events.stage("check tokenizer", _CHECK_BUDGET, "against Hugging Face tokenizers, once")
    request = json.dumps({"folder": str(vocabulary.folder), "template": template})
    command = [sys.executable, "-m", "expert_worker.pretokenize.exactness"]
    # A file: a template may be larger than a pipe holds, and after a timeout `communicate` writes no more.
    with tempfile.TemporaryFile() as given:
        given.write(request.encode())
        given.seek(0)
        with subprocess.Popen(
            command, env=child_environment(), stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            try:
                out, err = _hear(process, vocabulary, events)
            finally:
                process.kill()
    if process.returncode < 0 or process.returncode == RUNAWAY:
        raise _runaway(vocabulary)
    if process.returncode != 0:
        lines = err.decode(errors="replace").strip().splitlines()
        reason = f"the check did not finish: {lines[-1] if lines else process.returncode}"
        return Verdict(ids=reason, texts=None)
    found = json.loads(out)
    if (refused := found.get("refused")) is not None:
        raise template_endless(str(refused))
    files.replace_shared(path, json.dumps(found).encode())
    return Verdict.model_validate(found)


def _runaway(vocabulary: Vocabulary) -> BadInput:
    return BadInput(
        f"The chat template or tokenizer in {vocabulary.folder} takes more than 2 GiB of memory or two "
        "minutes for a few short texts",
        hint="Use a base whose tokenizer files you trust, or set prompt_template to a built-in one.",
        code="runaway-base",
    )


def template_endless(message: str) -> BadInput:
    return BadInput(
        message[:1].upper() + message[1:],
        hint="Set prompt_template to a built-in template, or correct the base's own.",
        code="template-endless",
    )


def _hear(process: subprocess.Popen[bytes], vocabulary: Vocabulary, events: Events) -> tuple[bytes, bytes]:
    """What the check prints; a wish to stop ends it, and so does its time on a disk that never answers."""
    deadline = time.monotonic() + _CHECK_LIMIT
    while True:
        try:
            return process.communicate(timeout=_POLL)
        except subprocess.TimeoutExpired:
            events.tick()
            if events.stop_requested:
                raise Interrupted("Stopped while the tokenizer was being checked") from None
            if time.monotonic() > deadline:
                raise _runaway(vocabulary) from None
