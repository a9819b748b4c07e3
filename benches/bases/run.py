"""What a larger base costs: training on one CPU thread, in bf16, with expert-sql's rows of 512 tokens.

The bases have the shapes of published models and random weights, which cost as much to train as learnt ones.
All read the rows by the embedded base's tokenizer: Qwen's makes other tokens of the same text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "train"))

from scene import SHAPES  # noqa: E402
from side import measured  # noqa: E402

_SCENE = {"length": 512, "rows": 1, "steps": 3, "embedded": True}


def of(shape: str | None) -> dict[str, Any]:
    found, _ = measured("our", _SCENE | {"shape": shape})
    return {"tokens_per_cpu_second": found["tokens"] / found["cpu"], "peak_bytes": found["peak"]}


def main() -> None:
    small = of(None)
    larger = {name: of(name) for name in SHAPES}
    rows = [
        {
            "what": f"{name}: tokens a CPU second, {it['peak_bytes'] / small['peak_bytes']:.2f}x the memory",
            "against": "the embedded base",
            "ratio": it["tokens_per_cpu_second"] / small["tokens_per_cpu_second"],
        }
        for name, it in larger.items()
    ]
    print(json.dumps({"embedded": small, "shapes": larger, "rows": rows}))


if __name__ == "__main__":
    main()
