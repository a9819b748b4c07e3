"""One preparation by the token cache: `with_ours.py DATA BASE FOLDER THREADS`."""

import json
import resource
import shutil
import sys
from pathlib import Path

from plans import example_plan

from expert_worker.events import Events
from expert_worker.pretokenize.stage import run


def main() -> None:
    data, base, folder = (Path(argument) for argument in sys.argv[1:4])
    shutil.rmtree(folder / "cache", ignore_errors=True)
    changes = {
        "recipe.data.train": [{"name": data.name, "format": "jsonl", "weight": 1.0, "task": None}],
        "recipe.data.validation": [],
        "recipe.template": {"kind": "tokenizer", "source": None},
        "recipe.batch.max_seq_length": 2048,
        "machine.threads.pretokenize": int(sys.argv[4]),
        "machine.paths.data": {data.name: str(data)},
        "machine.paths.base": str(base),
        "machine.paths.home": str(folder / "home"),
        "machine.paths.cache": str(folder / "cache"),
        "request": {"stage": "pretokenize", "force": False, "preview": 0},
    }
    told = run(example_plan(folder, changes), Events.in_memory("pretokenize")[0])
    splits = told["splits"]
    assert isinstance(splits, dict)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    anonymous = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), None)
    print(
        json.dumps(
            {"encoder": told["encoder"], "train": splits["train"], "peak_mb": peak, "anonymous_mb": anonymous}
        )
    )


if __name__ == "__main__":
    main()
