"""The measurement of the set-up, on a command that leaves what `make demo` leaves."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="process groups are POSIX's")

ROOT = Path(__file__).resolve().parents[2]
DEMO = """
import pathlib, sys, time
here = pathlib.Path.cwd()
for name in (".venv/bin/uv", ".venv/.runtime", ".venv/.worker", "target/release/expert-cli"):
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text("x")
events = here / "experts/expert-sql/weights/demo/events.jsonl"
events.parent.mkdir(parents=True)
if "fails" in sys.argv:
    print("no compiler")
    sys.exit(2)
events.write_text('{"type":"stage"}\\n{"type":"progress","step":1}\\n')
time.sleep(60)
(here / "slept").touch()
"""


@pytest.fixture
def setup() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "benches" / "setup" / "__main__.py")))


def test_it_ends_at_the_first_step_and_stops_the_command(setup, tmp_path: Path) -> None:
    found = setup.watch([sys.executable, "-c", DEMO], tmp_path, dict(os.environ), tmp_path / "log")
    assert not (tmp_path / "slept").exists()
    assert set(found.parts) == {"python environment", "python packages", "native module", "command line"}
    assert max(found.parts.values()) <= found.first_step
    assert setup.size(tmp_path / ".venv") == 3


def test_a_set_up_that_fails_has_no_first_step(setup, tmp_path: Path) -> None:
    log = tmp_path / "log"
    found = setup.watch([sys.executable, "-c", DEMO, "fails"], tmp_path, dict(os.environ), log)
    assert (found.first_step, found.exit_code) == (None, 2)
    assert log.read_text() == "no compiler\n" and len(found.parts) == 4


def test_every_cache_is_cold_and_the_sources_of_packages_stay(setup, tmp_path: Path, monkeypatch) -> None:
    cargo = tmp_path / "home"
    cargo.mkdir()
    (cargo / "config.toml").write_text("[net]\n")
    monkeypatch.setenv("CARGO_HOME", str(cargo))
    monkeypatch.setenv("UV_INDEX_URL", "https://example.org/simple")
    monkeypatch.setenv("VIRTUAL_ENV", "/elsewhere")
    found = setup.cold(tmp_path / "caches")
    caches = [found[name] for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR", "CARGO_HOME", "EXPERT_HOME")]
    assert all(Path(place).parent == tmp_path / "caches" for place in caches)
    assert found["UV_INDEX_URL"] == "https://example.org/simple" and "VIRTUAL_ENV" not in found
    assert (tmp_path / "caches" / "cargo" / "config.toml").read_text() == "[net]\n"
