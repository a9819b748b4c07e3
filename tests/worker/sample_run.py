"""A run's records as the stages leave them, for reports to be made of."""

import json
import math
from pathlib import Path
from typing import Any

from plans import example_document

from expert_worker.events import Events
from expert_worker.events.sinks import Record


def share(correct: int, total: int) -> dict[str, Any]:
    rate = correct / total
    return {
        "accuracy": rate,
        "correct": correct,
        "total": total,
        "low": max(0.0, rate - 0.08),
        "high": min(1.0, rate + 0.08),
    }


def progress(step: int, total: int) -> dict[str, Any]:
    return {
        "step": step,
        "total_steps": total,
        "epoch": step / total * 2,
        "loss": 2.4 * math.exp(-step / 25) + 0.35 + 0.08 * math.sin(step * 1.7),
        "lr": 2e-4 * max(0.0, 1 - step / total),
        "tokens": 16384,
        "supervised_tokens": 5000,
        "tokens_per_second": 310 + 20 * math.sin(step),
        "seconds": 2.0,
        "data_wait": 0.01,
        "memory_allocated": int(1.4e9 + 1e7 * math.sin(step / 3)),
        "memory_reserved": 2_000_000_000,
        "grad_norm": 1.5 * math.exp(-step / 40) + 0.2,
    }


def write_events(folder: Path, total: int) -> None:
    clock = iter(range(1_790_000_000, 1_800_000_000))
    for resumed_from, last in ((0, total // 2 + 5), (total // 2, total)):
        record = Record(folder / "events.jsonl")
        events = Events([], record, task="train", recipe_digest="a" * 64, clock=lambda: float(next(clock)))
        events.begin(resumed_from)
        events.applied("tf32", False)
        for step in range(resumed_from + 1, last + 1):
            events.progress(**progress(step, total))
            if step % (total // 6) == 0:
                loss = 2.2 * math.exp(-step / 25) + 0.5
                events.evaluated(step, {"eval_loss": loss, "accuracy": 1 - loss / 3}, 1.0)
                events.checkpoint(step, folder / f"checkpoint-{step}", 41_000_000, 0.4)
                events.best(step, "eval_loss", loss)
        if last == total:
            events.recovered("out_of_memory", total - 3, "The micro-batch was halved to 4")
            events.warning("merged", "A <script>alert(1)</script> in a warning", "Do nothing.")
            events.finished({"ok": True})
        events.close()


def sample_run(folder: Path, total: int = 120) -> Path:
    run = folder / "out"
    changes = {"recipe.expert": "expert-sql", "recipe.base.name": "smollm2-135m-instruct"}
    plan = example_document(folder, changes)
    run.mkdir(parents=True)
    write_events(run, total)
    cache = Path(plan["machine"]["paths"]["cache"]) / ("c" * 32)
    cache.mkdir(parents=True)
    documents = {
        "plan.json": plan,
        "run.json": run_record(plan, total),
        "evaluation.json": evaluation(),
    }
    for name, document in documents.items():
        (run / name).write_text(json.dumps(document))
    (cache / "cache.json").write_text(json.dumps(cache_document()))
    return run


def run_record(plan: dict[str, Any], total: int) -> dict[str, Any]:
    return {
        "recipe_digest": "a" * 64,
        "recipe": plan["recipe"],
        "cache_key": "c" * 32,
        "best": {"step": total, "reason": "the lowest eval_loss of 3 evaluations"},
        "result": {
            "steps": total,
            "tokens": total * 16384,
            "train_loss": 0.41,
            "eval_loss": 0.52,
            "seconds": 397.0,
            "tokens_per_second": 311.2,
            "peak_memory_bytes": 1_512_000_000,
        },
        "applied": {"tf32": False, "attention": "sdpa"},
        "packages": {"torch": "2.15.0", "peft": "0.21.2"},
        "machine": {
            "device": {"kind": "cpu", "name": "Example CPU @ 2.0 GHz"},
            "dtype": "fp32",
            "cpu_capability": "AVX2",
            "threads": 2,
            "os": "Linux",
            "architecture": "x86_64",
            "python": "3.11.9",
        },
        "git_commit": "0" * 40,
        "data": {"datasets/train.jsonl": {"sha256": "b" * 64, "bytes": 123456}},
        "base": {},
    }


def evaluation() -> dict[str, Any]:
    tags = ["join", "group by", "window", "subquery", "cte", "date", "having", "set operation"]
    return {
        "expert": "expert-sql",
        "scorer": "sql",
        "rows": 400,
        "test_set": [{"name": "datasets/test.jsonl", "sha256": "7" * 64}],
        "base": {**share(21, 400), "loss": 2.1},
        "adapter": {**share(301, 400), "loss": 0.5},
        "by_level": [
            {"name": f"level {n}", "base": share(9 - n, 100), "adapter": share(95 - 12 * n, 100)}
            for n in (1, 2, 3)
        ],
        "by_tag": [
            {"name": tag, "base": share(place, 50), "adapter": share(48 - 4 * place, 50)}
            for place, tag in enumerate(tags)
        ],
        "gains": [
            {
                "prompt": "How many birds?",
                "expected": "SELECT COUNT(*) FROM birds",
                "tags": ["count"],
                "base": {"text": "There are many.", "correct": False, "reason": "no SQL in the answer"},
                "adapter": {"text": "SELECT COUNT(*) FROM birds", "correct": True, "reason": ""},
            }
        ],
        "failures": [
            {
                "prompt": "CREATE TABLE birds (nest_id INTEGER);\n\nNests with <b>more</b> than two birds?",
                "expected": "SELECT nest_id FROM birds GROUP BY nest_id HAVING COUNT(*) > 2",
                "tags": ["having", "group by"],
                "base": {
                    "text": "Sure! Here is the answer:\n```sql\nSELECT * FROM nests\n```",
                    "correct": False,
                    "reason": "no such table: nests",
                },
                "adapter": {
                    "text": "SELECT nest_id FROM birds WHERE COUNT(*) > 2",
                    "correct": False,
                    "reason": "misuse of aggregate: COUNT()",
                },
            }
        ],
    }


def cache_document() -> dict[str, Any]:
    source = {
        "name": "datasets/train.jsonl",
        "split": "train",
        "read": 4000,
        "used": 3990,
        "bad": 0,
        "truncated": 12,
        "dropped_short": 10,
    }
    return {
        "sources": [source, {**source, "name": "datasets/validation.jsonl", "split": "validation"}],
        "splits": {
            "train": {
                "rows": 412,
                "documents": 3990,
                "tokens": 843_000,
                "supervised_tokens": 210_000,
                "fill": 0.9991,
                "length_histogram": [[32, 120], [64, 900], [128, 1400], [256, 980], [512, 590]],
                "length_quantiles": [20, 70, 118, 230, 390, 480, 511],
            }
        },
    }
