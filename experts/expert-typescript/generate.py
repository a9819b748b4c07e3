"""Makes expert-typescript's train, validation and test sets: `python generate.py --seed 1`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The generator needs nothing but Python: where the worker is not installed, its source is beside the experts.
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "worker" / "python")]

from generator.build import rows  # noqa: E402
from generator.literal.rows import rows as literal_rows  # noqa: E402

from expert_worker.evaluate.authoring.write import arguments, end_at_interrupt, write_rows  # noqa: E402


def main() -> None:
    given = arguments(__doc__ or "", HERE / "datasets")
    sizes = {"train": given.train, "validation": given.held_out, "test": given.held_out}
    for split, count in sizes.items():
        write_rows(given.out / f"{split}.jsonl", rows(split, count, given.seed))
        print(f"{split}: {count} rows")
    write_rows(given.out / "literal.jsonl", literal_rows("test", given.held_out // 2, given.seed))
    print(f"literal: {given.held_out // 2} rows to test")


if __name__ == "__main__":
    end_at_interrupt()
    main()
