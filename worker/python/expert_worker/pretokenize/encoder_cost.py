"""What the slow path of encoding costs, measured on the first rows of the data at hand."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from expert_worker._native import Tokenizer
from expert_worker.checkpoint import files
from expert_worker.events import Events
from expert_worker.pretokenize.coder import Coder
from expert_worker.pretokenize.inputs import Inputs, recipe_for
from expert_worker.pretokenize.preview import first_rows
from expert_worker.pretokenize.record import cost_in_words, slow_encoder
from expert_worker.results import EncoderCost

_MOST_ROWS = 200
_MOST_CHARACTERS = 1 << 18


def cost(inputs: Inputs, coder: Coder) -> EncoderCost | None:
    """None where the fast encoder is used."""
    if coder.reason is None or isinstance(coder.work, Tokenizer):
        return None
    texts = _texts(inputs, coder)
    size = sum(len(text.encode()) for text in texts) / 1e6
    slow = _seconds(coder.work, texts)
    fast = _seconds(coder.fast.encode, texts) if coder.fast is not None else 0.0
    return EncoderCost(
        reason=coder.reason,
        rows=len(texts),
        megabytes_per_second=size / slow if texts and slow > 0 else None,
        times_slower=slow / fast if texts and fast > 0 else None,
    )


def _texts(inputs: Inputs, coder: Coder) -> list[str]:
    """Of the first rows, as they are encoded."""
    recipe = recipe_for(inputs, coder.prefix, coder.suffix, interpret=False)
    texts, characters = [], 0
    for row in itertools.islice(first_rows(inputs), _MOST_ROWS):
        with contextlib.suppress(ValueError):  # A broken row: the build names it.
            texts.append(recipe.show(row, coder.work)[0])
            characters += len(texts[-1])
        if characters > _MOST_CHARACTERS:
            break
    return texts


def _seconds(encode: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Of all threads' processor time: a busy machine changes it little."""
    start = time.process_time()
    encode(texts)
    return time.process_time() - start


def warn(found: EncoderCost | None, events: Events) -> None:
    if found is not None:
        events.warning(
            "tokenizer-fallback",
            f"The fast encoder is not used: {found.reason}. Hugging Face tokenizers encodes instead: "
            f"{cost_in_words(found)}",
            "The rows are the same. It costs time once; the token cache is reused afterwards.",
        )


def record(found: EncoderCost | None, inputs: Inputs) -> None:
    """Leaves beside the compiled tokenizers what `plan` shows before a run, or removes it."""
    folder = Path(inputs.plan.machine.paths.home) / "tokenizers"
    path = folder / f"{inputs.vocabulary.file_digest}.slow.json"
    with contextlib.suppress(OSError):  # A notice less.
        if found is None:
            path.unlink(missing_ok=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            files.replace_json(path, slow_encoder(found).as_json())
