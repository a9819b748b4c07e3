"""What the probe of `train --all` finds, over the tokens of a micro-batch: the gain of groups over one after
another.

    python benches/fuse/probe.py tiny        or embedded, on one thread
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))

from our_side import changes
from plans import example_plan
from scene import Scene, base

from expert_worker.stop import Stop
from expert_worker.train.fuse_probe import Wanted, measure

SIZES = [2, 4]
SECONDS = 2.0
# (documents, tokens of each)
SHAPES = ((1, 16), (1, 32), (1, 48), (1, 64), (1, 128), (4, 24), (4, 48), (1, 256))


def main() -> None:
    which = sys.argv[1]
    scene = Scene(length=512, rows=1, steps=1, embedded=which == "embedded")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plan = example_plan(folder, changes(scene, base(scene, folder / "base")))
        for documents, tokens in SHAPES:
            wanted = Wanted(plan=plan, documents=documents, tokens=tokens, sizes=SIZES, seconds=SECONDS)
            found = measure(wanted, Stop())
            rows += [
                {
                    "what": f"{which} base, {documents} x {tokens} tokens, groups of {size}",
                    "against": "one after another",
                    "ratio": found[str(size)] / found["1"],
                }
                for size in SIZES
            ]
            print(rows[-2:], file=sys.stderr)
    print(json.dumps({"threads": int(os.environ["OMP_NUM_THREADS"]), "rows": rows}))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("tiny", "embedded"):
        sys.exit(__doc__)
    main()
