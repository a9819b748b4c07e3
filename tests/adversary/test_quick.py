"""A sample of each area that needs no training: `make adversary` repeats all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.adversary import areas, cli
from tests.adversary.attempt import carry_out

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="terminals, pipes and processes as Linux has them"),
    pytest.mark.skipif(not cli.binary().is_file(), reason="expert-cli is not built: make setup"),
]


@pytest.mark.parametrize("name", areas.WITHOUT_TRAINING)
def test_a_sample_survives(name: str, tmp_path: Path) -> None:
    outcome = carry_out(areas.find(name), tmp_path, quick=True, progress=print)
    assert outcome.attempts > 0
    assert not outcome.fell, outcome.fell


def test_an_attempt_that_fails_is_counted(tmp_path: Path) -> None:
    """Otherwise the table would say what it is wanted to say."""
    from tests.adversary.attempt import Area, Attempt, Tally

    def fails(folder: Path) -> None:
        assert folder.is_dir() and False, "so"

    made = [
        Attempt("one", fails),
        Attempt("many", lambda _: Tally(3, ["b"])),
        Attempt("good", lambda _: None),
    ]
    outcome = carry_out(Area("a", "A", lambda _: made), tmp_path, quick=False, progress=print)
    assert (outcome.attempts, outcome.survived) == (5, 3)
