"""One preparation by the token cache: `with_ours.py DATA BASE FOLDER THREADS`."""

import json
import shutil
import sys
import time
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
    started = time.process_time()
    told = run(example_plan(folder, changes), Events.in_memory("pretokenize")[0])
    work = time.process_time() - started
    splits = told["splits"]
    assert isinstance(splits, dict)
    train = splits["train"]
    assert isinstance(train, dict)
    figures = {name: train[name] for name in ("rows", "documents", "tokens", "fill")}
    print(json.dumps({"encoder": told["encoder"], "work_cpu": work, **figures}))


if __name__ == "__main__":
    main()
