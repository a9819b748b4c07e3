"""Packing alone: `python benches/pack/run.py [--documents 1000000]` prints JSON and a line.

Lengths are log-normal, as of dialogues. The time is that of the packing, without handing lengths over.
"""

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "worker" / "python"))

from expert_worker._native import time_best_fit

CAPACITY = 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    count = parser.parse_args().documents
    draw = random.Random(0)
    lengths = [min(CAPACITY, max(8, int(math.exp(draw.gauss(5.5, 0.9))))) for _ in range(count)]
    started = time.monotonic()
    seconds, rows = time_best_fit(lengths, CAPACITY)
    fill = sum(lengths) / (rows * CAPACITY)
    whole = time.monotonic() - started
    what = f"{count:,} documents in {seconds:.3f} s, fill {fill:.5f}"
    found = {
        "documents": count,
        "seconds": seconds,
        "with_python": whole,
        "packed_rows": rows,
        "fill": fill,
        "rows": [{"what": what}],
    }
    print(json.dumps(found))
    print(what, file=sys.stderr)


if __name__ == "__main__":
    main()
