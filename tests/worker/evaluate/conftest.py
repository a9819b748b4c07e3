"""A scorer that a package offers."""

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with its own entry point, installed by being on the path."""
    shutil.copy(Path(__file__).with_name("offered_scorer.py"), tmp_path / "expert_test_offered.py")
    info = tmp_path / "expert_test_offered-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: expert-test-offered\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[expert_worker.scorers]\ntest-offered = expert_test_offered:Offered\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("EXPERT_SECRET_TOKEN", "hush")
