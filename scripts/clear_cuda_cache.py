"""Shows who holds GPU memory, and ends what dead runs left behind.

    python scripts/clear_cuda_cache.py [--dry-run] [--json]

It cannot empty the cache of a process that lives: only that process can.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))


def main() -> int:
    try:
        from expert_worker.bench.__main__ import single
    except ModuleNotFoundError as error:
        print(f"error: this Python has no {error.name}", file=sys.stderr)
        print("hint: run `make setup`, then .venv/bin/python instead of python", file=sys.stderr)
        return 3
    return single("holders", sys.argv[1:], program="clear_cuda_cache.py")


if __name__ == "__main__":
    sys.exit(main())
