"""The losses of a few steps beside TRL's, by the benchmark that shows the whole table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benches" / "parity" / "run.py"


# The golden losses and the comparison of the fast path with the plain one guard the same at every change.
@pytest.mark.full
def test_losses_are_those_of_trl():
    done = subprocess.run([sys.executable, str(SCRIPT), "8"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["losses"]) == 8 and len(set(found["losses"])) == 8
    assert found["largest_distance"] <= 1e-4
