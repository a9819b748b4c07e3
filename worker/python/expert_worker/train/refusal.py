"""`python -m expert_worker.train.refusal --of N`: started by rank 0 of a launcher where it refuses to train.
Reads the refusal, a line of JSON on standard input, and returns when the other ranks have read it."""

import argparse
import json
import os
import sys

from expert_worker.process import bind_to_parent
from expert_worker.stop import Stop
from expert_worker.train.launched import publish_refusal


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m expert_worker.train.refusal", description=__doc__)
    parser.add_argument("--of", type=int, required=True, help="the number of ranks")
    options = parser.parse_args()
    bind_to_parent(reads_stdin=True)
    stop = Stop()
    stop.install()
    publish_refusal(options.of, json.loads(sys.stdin.readline()), stop)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
