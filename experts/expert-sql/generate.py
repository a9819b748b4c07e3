"""Makes expert-sql's train, validation and test sets: `python generate.py --seed 1`.

In `simple` are smaller ones with simple questions about one table, for a training that takes a few minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOST_SIMPLE = {"train": 400, "validation": 60, "test": 60}
# Where the worker is not installed, its source is beside the experts.
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "worker" / "python")]

from generator.build import rows, simple_rows  # noqa: E402
from generator.literal.rows import rows as literal_rows  # noqa: E402

from expert_worker.evaluate.authoring.write import arguments, end_at_interrupt, write_rows  # noqa: E402


def main() -> None:
    given = arguments(__doc__ or "", HERE / "datasets", train=5600)
    sizes = {"train": given.train, "validation": given.held_out, "test": given.held_out}
    for split, count in sizes.items():
        write_rows(given.out / f"{split}.jsonl", rows(split, count, given.seed))
        print(f"{split}: {count} rows")
    write_rows(given.out / "literal.jsonl", literal_rows("test", given.held_out // 2, given.seed))
    print(f"literal: {given.held_out // 2} rows to test")
    for split, most in MOST_SIMPLE.items():
        count = min(most, sizes[split])
        write_rows(given.out / "simple" / f"{split}.jsonl", simple_rows(split, count, given.seed))
        print(f"simple/{split}: {count} rows")


if __name__ == "__main__":
    end_at_interrupt()
    main()
