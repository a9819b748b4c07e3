"""With EXPERT_NO_SKIPS=1, as in CI, a test that is skipped for what is missing fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SKIPS = """
import pytest

@pytest.fixture
def disk():
    pytest.skip("cannot mount: permission denied")

def test_fixture(disk): ...

@pytest.mark.skipif(True, reason="there is no tmux here")
def test_mark(): ...

@pytest.mark.skipif(True, reason="needs instructions")
def test_processor(): ...

@pytest.mark.xfail
def test_expected():
    raise ValueError
"""


@pytest.mark.skipif(sys.platform != "linux", reason="CI sets it on Linux")
@pytest.mark.parametrize(
    ("value", "counts"), [("1", "1 skipped, 1 xfailed, 2 errors"), ("", "3 skipped, 1 xfailed")]
)
def test_a_missing_program_or_right_fails(tmp_path: Path, value: str, counts: str) -> None:
    for name in ("conftest.py", "slow_first.txt"):
        shutil.copy(TESTS / name, tmp_path)
    (tmp_path / "test_skips.py").write_text(SKIPS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "EXPERT_NO_SKIPS": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert counts in done.stdout, done.stdout + done.stderr
    assert ("this test is skipped: Skipped: cannot mount" in done.stdout) == bool(value)
