"""The corpora of the targets in Python, and a few inputs drawn the same way each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.fuzz import encoder, events

CORPUS = Path(__file__).parents[1] / "corpus"
TARGETS: dict[str, tuple[Path, Callable[[bytes], None], Callable[[], st.SearchStrategy[bytes]]]] = {
    "events": (CORPUS / "events", events.check, events.inputs),
    "encoder": (CORPUS / "tokenizer", encoder.check, encoder.inputs),
}
INPUTS = [(name, path) for name, (folder, _, _) in TARGETS.items() for path in sorted(folder.iterdir())]


@pytest.mark.parametrize(("name", "path"), INPUTS, ids=[f"{name}-{path.name}" for name, path in INPUTS])
def test_input_of_the_corpus(name: str, path: Path) -> None:
    TARGETS[name][1](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_drawn_inputs(name: str) -> None:
    _, check, inputs = TARGETS[name]
    some = settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    seed(1)(some(given(inputs())(check)))()
