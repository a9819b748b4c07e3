#!/usr/bin/env python3
"""Run `cargo test` with the given arguments, print only what failed, then what each test binary cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
    costs: list[Cost] = []
    began = 0.0
    for line in process.stdout:
        if found := RUNNING.match(line):
            # By now cargo has waited for the binary before, so that what it used counts.
            spent = cpu_seconds_of_children(process.pid)
            if costs:
                costs[-1].cpu = spent - began
            costs.append(Cost(found[1]))
            began = spent
        elif found := FINISHED.match(line):
            costs[-1].seconds += float(found[2])
            costs[-1].passed += int(found[1])
            if " 0 failed" in line:
                continue
        if not NOISE.match(line):
            print(line, end="", flush=True)
    code = process.wait()
    if costs:
        spent = os.times()
        costs[-1].cpu = max(0.0, spent.children_user + spent.children_system - began)
    print("  seconds   CPU sec passed")
    for cost in sorted(costs, key=lambda cost: cost.seconds, reverse=True):
        print(f"{cost.seconds:9.1f} {cost.cpu:9.1f} {cost.passed:6}  {cost.binary}")
    print(f"{sum(cost.seconds for cost in costs):9.1f} {sum(cost.cpu for cost in costs):9.1f}         all")
    return code


@dataclass
class Cost:
    binary: str
    seconds: float = 0.0
    cpu: float = 0.0
    passed: int = 0


def cpu_seconds_of_children(process: int) -> float:
    """Of those that have ended. Zero where there is no /proc."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
