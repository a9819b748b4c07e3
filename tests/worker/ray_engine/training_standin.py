"""In place of `expert-cli ray-task`: a training whose adapter depends on its data and on every step."""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from expert_worker.checkpoint import record
from expert_worker.results import CheckpointFacts, CheckpointRecord, FileDigest

STEPS, SAVED = 40, 4
stopping: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))


def say(line: Any) -> None:
    print(json.dumps(line, separators=(",", ":")), flush=True)


def event(**body: Any) -> None:
    say({"event": {"time": 0.0, "attempt": 1, "body": body}})


def save(run: Path, step: int, weights: str) -> None:
    target = run / f"checkpoint-{step}"
    if target.exists():
        return
    part = run / f"checkpoint-{step}.partial"
    part.mkdir()
    (part / "weights").write_text(weights)
    facts = CheckpointFacts(
        recipe_digest="r", recipe={}, cache_key="k", total_steps=STEPS, micro_batch=1, totals={}, metrics={}
    )
    digest = FileDigest(sha256=hashlib.sha256(weights.encode()).hexdigest(), bytes=len(weights))
    whole = CheckpointRecord(format=record.FORMAT, step=step, facts=facts, files={"weights": digest})
    (part / record.NAME).write_bytes(record.sealed(whole))
    part.rename(target)
    event(type="checkpoint", step=step, path=str(target), bytes=1, seconds=0.0)
    old = run / f"checkpoint-{step - 2 * SAVED}"
    if old.exists():
        for path in old.iterdir():
            path.unlink()
        old.rmdir()


order = json.loads(sys.stdin.readline())
if order["training"] is None:
    say("same_code")
    sys.exit()
expert = Path(order["training"]["options"]["manifest"]).parent
run = expert / "weights" / "base"
run.mkdir(parents=True, exist_ok=True)
say({"lease": 1})
data = (expert / "train.jsonl").read_text() + (expert / "../../base/config.json").read_text()
cache = expert / "cache" / "key"
if not (cache / "cache.json").exists():
    cache.mkdir(parents=True)
    (cache / "rows").write_text(data)
    (cache / "cache.json").write_text("{}")
    say({"remark": "cache built"})
if (run / "run.json").exists():
    say({"trained": {"before": True, "result": {}}})
    sys.exit()
steps = [int(path.name.rpartition("-")[2]) for path in run.glob("checkpoint-*[0-9]")]
begun = max(steps, default=0)
weights = (run / f"checkpoint-{begun}" / "weights").read_text() if begun else ""
say({"remark": f"begun at {begun}"})
for step in range(begun + 1, STEPS + 1):
    weights = hashlib.sha256(f"{weights}{data}{step}".encode()).hexdigest()
    with (run / "events.jsonl").open("a") as events:
        events.write(json.dumps({"step": step, "run": str(run)}) + "\n")
    if step % SAVED == 0 or stopping:
        save(run, step, weights)
    if stopping:
        say({"failed": {"exit": 143, "code": "interrupted", "message": "stopped", "hint": None}})
        sys.exit()
    while step >= int(os.environ.get("PAUSE_AT", STEPS + 1)) and not Path(os.environ["GATE"]).exists():
        if stopping:
            break
        time.sleep(0.02)
(run / "final").mkdir()
(run / "final" / "adapter_model.safetensors").write_text(weights)
(run / "run.json").write_text(json.dumps({"output": str(run)}))
(expert / "expert.lock").write_text(weights)
say({"trained": {"before": False, "result": {"output": str(run)}}})
