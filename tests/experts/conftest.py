"""What each expert's generator makes, once for all tests: those that run their questions take seconds."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

EXPERTS = Path(__file__).resolve().parents[2] / "experts"
# The generator, with the name of every file that it opens on standard error.
AUDITED = """
import runpy, sys
def note(event, details):
    if event == "open" and isinstance(details[0], (str, bytes)):
        print(details[0], file=sys.stderr)
sys.addaudithook(note)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Generated:
    folder: Path
    train: int
    held_out: int
    # Names of the files that were opened meanwhile.
    opened: frozenset[str]


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory, every_trial: bool) -> Callable[[str], Generated]:
    """A shorter run is the beginning of a longer one, so that a test need not wait for all of it."""
    train, held_out = (120, 30) if every_trial else (30, 10)

    @cache
    def generate(expert: str) -> Generated:
        folder = tmp_path_factory.mktemp(expert)
        sizes = ["--train", str(train), "--held-out", str(held_out)]
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                AUDITED,
                str(EXPERTS / expert / "generate.py"),
                "--out",
                str(folder),
                *sizes,
            ],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
        )
        opened = frozenset(Path(line).name for line in done.stderr.splitlines())
        return Generated(folder, train, held_out, opened)

    return generate


@pytest.fixture
def embedded_length(request: pytest.FixtureRequest) -> int:
    """How many tokens a training row of the test's expert may have on the embedded base."""
    manifest = json.loads((request.module.EXPERT / "manifest.json").read_text(encoding="utf-8"))
    embedded = manifest["base_models"][1]
    assert embedded["name"] == "smollm2-135m-instruct"
    return int(embedded["overrides"]["max_seq_length"])
