#!/usr/bin/env python3
"""Run `cargo test` with the given arguments, print only what failed, then the seconds of each test binary."""

from __future__ import annotations

import re
import subprocess
import sys

RUNNING = re.compile(r"\s+(?:Running|Doc-tests) (?:unittests )?(\S+)")
FINISHED = re.compile(r"test result: .* (\d+) passed; .*finished in ([\d.]+)s")
NOISE = re.compile(
    r"(test .* \.\.\. ok|running \d+ tests?|\s*|\s+(Compiling|Finished|Running|Doc-tests) .*)$"
)


def main() -> int:
    process = subprocess.Popen(
        ["cargo", "test", *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    binary, costs = "", []
    for line in process.stdout:
        if found := RUNNING.match(line):
            binary = found[1]
        elif found := FINISHED.match(line):
            costs.append((float(found[2]), int(found[1]), binary))
            if " 0 failed" in line:
                continue
        if not NOISE.match(line):
            print(line, end="", flush=True)
    if process.wait() == 0:
        for seconds, passed, name in sorted(costs, reverse=True):
            print(f"{seconds:9.1f} s {passed:5} passed  {name}")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
