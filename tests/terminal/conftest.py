import sys
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "crash"),
    str(Path(__file__).parents[1] / "worker" / "train"),
]
