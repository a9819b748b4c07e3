"""`python -m expert_worker.split_rows FILE ... --output DIR` divides rows into training, validation and test
files, and prints in JSON what was written."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.split_rows.split import Request, split
from expert_worker.terminal import report_failure


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m expert_worker.split_rows", description=__doc__)
    parser.add_argument("data", type=Path, nargs="+", help="files of rows")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write into")
    parser.add_argument("--validation", type=float, help="a share below 1, or a number of rows")
    parser.add_argument("--test", type=float, help="a share below 1, or a number of rows")
    parser.add_argument("--map", action="append", default=[], help="name=field, as field_mapping has it")
    parser.add_argument("--by", help="rows with the same value of this field stay together")
    parser.add_argument("--seed", type=int, default=1, help="random seed")
    parser.add_argument("--lengths", action="store_true", help="count the tokens of rows and answers")
    asked = parser.parse_args(arguments)
    mapping = dict(pair.split("=", 1) for pair in asked.map)
    request = Request(
        tuple(asked.data),
        asked.output,
        asked.validation,
        asked.test,
        mapping,
        asked.by,
        asked.seed,
        asked.lengths,
    )
    try:
        written = split(request)
    except ExpertError as error:
        return report_failure(error, to_cli=True)
    sys.stdout.write(json.dumps(dataclasses.asdict(written)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
