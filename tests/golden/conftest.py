from __future__ import annotations

import sys
from pathlib import Path

_WORKER = Path(__file__).parents[1] / "worker"
sys.path[:0] = [str(Path(__file__).parent), str(_WORKER / "train"), str(_WORKER)]
