"""One target for some seconds: `python -m tests.fuzz events --seconds 60`. A failure is shrunk and kept."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import resource
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

ROOT = Path(__file__).parents[2]
TARGETS = ("events", "encoder")
MEMORY = 4 << 30
EXAMPLES = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    chosen = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    target = importlib.import_module(f"tests.fuzz.{chosen.target}")
    ran, end, failing = 0, time.monotonic() + chosen.seconds, b""

    def one(data: bytes) -> None:
        nonlocal ran, failing
        ran += 1
        failing = data
        target.check(data)

    number = int(time.time())
    while time.monotonic() < end:
        # Each round draws other inputs; the number of the round repeats it.
        number += 1
        round_of = settings(
            max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )(given(target.inputs())(one))
        try:
            seed(number)(round_of)()
        except Exception as error:
            return _report(chosen.target, failing, error)
    print(f"{chosen.target}: {ran} inputs, nothing found")
    return 0


def _report(target: str, data: bytes, error: Exception) -> int:
    folder = ROOT / "target" / "fuzz" / "found" / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    print(f"{target}: {type(error).__name__}: {error}", file=sys.stderr)
    print(f"the smallest input is {path.relative_to(ROOT)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
