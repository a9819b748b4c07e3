"""Reading a 16 x 2048 batch: the mapped cache beside `datasets` with a collator, in one run.

python benches/load/run.py [--megabytes 8]
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("worker/python", "tests/worker", "benches/prep")]

from cache import built  # noqa: E402
from datasets import load_from_disk  # noqa: E402
from pretokenize.bases import llama3_like, write_base  # noqa: E402

from corpus import write  # noqa: E402
from expert_worker.pretokenize import Cache  # noqa: E402

ROWS, CAPACITY, ROUNDS = 16, 2048, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=8)
    with tempfile.TemporaryDirectory() as place:
        cache = build(Path(place), parser.parse_args().megabytes)
        ours = median(cache.train.batch, len(cache.train))
        saved = load_from_disk(str(cache.folder / "train"))
        theirs = median(lambda rows: collate(saved[rows]), len(cache.train))
    what, ratio = f"batch of {ROWS} x {CAPACITY}: {ours * 1e3:.3f} ms", theirs / ours
    row = {"what": what, "against": "datasets and a collator", "ratio": ratio}
    print(json.dumps({"ours_ms": ours * 1e3, "datasets_ms": theirs * 1e3, "rows": [row]}))
    print(f"{what}, {ratio:.0f}x datasets", file=sys.stderr)


def build(folder: Path, megabytes: float) -> Cache:
    data = folder / "rows.jsonl"
    write(data, megabytes)
    return built(folder, data, write_base(folder / "base", llama3_like()), CAPACITY)


def median(read: Callable[[list[int]], Any], count: int) -> float:
    draw = random.Random(0)
    seconds = []
    for _ in range(ROUNDS):
        rows = [draw.randrange(count) for _ in range(ROWS)]
        started = time.perf_counter()
        read(rows)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def collate(batch: dict[str, list[list[int]]]) -> dict[str, Any]:
    """What a packing collator does: rows end to end, positions from 0 in every document."""
    import numpy as np

    flat = {
        name: np.concatenate([np.asarray(row, np.int64) for row in batch[name]])
        for name in ("input_ids", "labels")
    }
    lengths = [length for row in batch["seq_lengths"] for length in row]
    return {**flat, "position_ids": np.concatenate([np.arange(length) for length in lengths])}


if __name__ == "__main__":
    main()
