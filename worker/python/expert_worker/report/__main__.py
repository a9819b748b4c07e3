"""`python -m expert_worker.report RUN`: writes the report again and prints where it is."""

import argparse
import sys
from pathlib import Path

from expert_worker.errors import ExpertError
from expert_worker.report.write import write_report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m expert_worker.report", description=__doc__)
    parser.add_argument("run", type=Path, help="the output folder of a run")
    try:
        path = write_report(parser.parse_args(arguments).run)
    except ExpertError as error:
        sys.stderr.write(f"error: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"hint: {error.hint}\n")
        return error.exit_code
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
