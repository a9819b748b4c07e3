"""Mutation testing: small faults are put into the code, one at a time, and tests have to notice each of them.

`python tests/mutation [AREA ...]`, or `make mutants MODULES="compatible store"`. A fault that no test notices
is a survivor: it gets a test, or a reason in `explained.json`.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time

import child
import rust
from areas import AREAS, Python
from faults import faults
from record import EXPLAINED, ROOT, Found, keep


def main() -> int:
    given = arguments()
    below = False
    for area in given.areas or AREAS:
        guarded = AREAS[area]
        if isinstance(guarded, Python):
            found = examine(area, guarded, given.sample, given.seed, given.seconds)
        else:
            found = rust.examine(area, guarded, given.sample, given.seed)
        document = found.document(given.seed)
        print(f"{area}: {found.noticed} of {found.tried} noticed ({found.possible} possible)", flush=True)
        for name in sorted(found.survivors):
            print(f"  {name}\n      {EXPLAINED.get(area, {}).get(name, 'survived')}", flush=True)
        if given.keep:
            keep(document, area)
        below = below or found.noticed < given.least * found.tried
    return 1 if below else 0


def examine(area: str, guarded: Python, sample: int | None, seed: int, seconds: float) -> Found:
    possible = faults((ROOT / guarded.source).read_text())
    # In random order, so that what was tried when the time is over is a sample.
    chosen = random.Random(f"{seed} {area}").sample(possible, min(sample or len(possible), len(possible)))
    tests = [test for test in guarded.tests if (ROOT / test).exists()]
    found = Found(area, len(possible), tests)
    child.warm_up()
    ending, cpu_seconds = child.passed(tests, guarded.module, None, 600)
    if ending != child.PASSED:
        raise SystemExit(f"{area}: its tests do not pass as they are; EXPERT_MUTATION_SHOW=1 shows why")
    over = time.monotonic() + seconds
    for fault in chosen:
        if time.monotonic() > over:
            break
        ending, _ = child.passed(tests, guarded.module, fault.module, 10 + 5 * cpu_seconds)
        if ending == child.PASSED:
            found.survivors.append(fault.name)
        elif ending == child.OUT_OF_TIME:
            found.out_of_time += 1
        elif ending == child.UNDECIDED:
            found.undecided.append(fault.name)
        else:
            found.killed += 1
        print(f"{ending:12} {guarded.source}:{fault.line} {fault.name}"[:160], file=sys.stderr, flush=True)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)} (all)")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="at most N faults of each area, drawn by --seed"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="Python: end each area after so long; what was tried by then is recorded as a sample",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write the result to benches/results")
    parser.add_argument("--least", type=float, default=0.0, metavar="SHARE", help="exit 1 below this score")
    given = parser.parse_args()
    unknown = [area for area in given.areas if area not in AREAS]
    if unknown:
        parser.error(f"no area is called {', '.join(unknown)}")
    return given


if __name__ == "__main__":
    sys.exit(main())
