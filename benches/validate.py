"""User time of `expert-cli validate experts` on the release build: `python -m benches.validate`."""

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from program import ROOT, expert_cli  # noqa: E402

RUNS = 50
REACH_MS = 10.0


def user_seconds(command: list[str]) -> float:
    """Of one run, as the system counted it."""
    before = os.times().children_user
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.times().children_user - before


def cpu_milliseconds(command: list[str]) -> float:
    """`os.times` counts in ticks of 10 ms, so many runs are added up."""
    total = sum(user_seconds(command) for _ in range(RUNS))
    return total * 1000 / RUNS


def links_python(binary: Path) -> bool | None:
    """None where the system has no `ldd`."""
    ldd = shutil.which("ldd")
    if ldd is None:
        return None
    listed = subprocess.run([ldd, str(binary)], capture_output=True, text=True, check=False).stdout
    return "libpython" in listed


def start_of_peers() -> float:
    """What a tool pays that imports torch before it looks at its input, in milliseconds of wall time."""
    code = (
        "import time; begin = time.perf_counter(); import torch; print((time.perf_counter() - begin) * 1000)"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(3)]
    return statistics.median(times)


def main() -> None:
    cli = expert_cli()
    ours = cpu_milliseconds([str(cli), "validate", "experts"])
    peers = start_of_peers()
    ratio = peers / max(ours, 0.01)
    what = f"validate experts: {ours:.2f} ms of user time (to reach: {REACH_MS:.0f} ms)"
    found = {
        "user_milliseconds": ours,
        "import_torch_milliseconds": peers,
        "links_libpython": links_python(cli),
        "rows": [{"what": what, "against": "importing torch", "ratio": ratio}],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
