"""Measures a running train: GPU, CPU, memory, and what it waits for.

    python scripts/benchmark_training.py --duration 60 --output f.json [--plot f.html]

The same as `expert-cli bench watch`, for those who have only Python at hand.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "worker" / "python"))

from expert_worker.bench.__main__ import single

if __name__ == "__main__":
    sys.exit(single("watch", sys.argv[1:], program="benchmark_training.py"))
