"""Shows who holds GPU memory, and ends what dead runs left behind.

    python scripts/clear_cuda_cache.py [--dry-run] [--json]

It cannot empty the cache of a process that lives: only that process can.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))

from expert_worker.bench.__main__ import single

if __name__ == "__main__":
    sys.exit(single("holders", sys.argv[1:], program="clear_cuda_cache.py"))
