"""A small base, a place for data, and plans over both."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pretokenize.bases import llama3_like, write_base
from pretokenize.workshop import Workshop

from expert_worker.pretokenize import coder

REAL = Path(os.environ.get("EXPERT_SHARED", Path(__file__).parents[4] / "shared")) / "real" / "datasets"


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("base") / "tiny", llama3_like())


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: the tokenizer is compiled and checked once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def workshop(tmp_path: Path, base: Path, home: Path) -> Workshop:
    return Workshop(tmp_path, base, home)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of something else with many templates: each check runs a process for a second."""
    monkeypatch.setattr(coder, "_verdict", lambda *_: coder.Verdict(ids=None, texts=None))


@pytest.fixture
def real() -> Callable[[str], Path]:
    def find(name: str) -> Path:
        path = REAL / name
        if not path.is_file():
            pytest.skip(f"{path} is not here")
        return path

    return find
