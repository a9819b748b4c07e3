"""What the forge's children do: imports the worker, so nothing else here may import this module."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.adversary.forge import FAILED


def save_base(folder: str) -> None:
    from command import save_base

    save_base(Path(folder))


def stage(name: str, plan: str) -> dict[str, Any]:
    """Runs a stage as the worker does; returns its exit and every text that it reported."""
    from expert_worker.__main__ import carry_out

    class Ear:
        descriptor = 1  # The processes of a group write there.

        def __init__(self) -> None:
            self.lines: list[bytes] = []

        def write(self, event: Any, line: bytes) -> None:
            self.lines.append(line)
            if event.body.type == "failed":  # The process may end before this function does.
                body = json.dumps(json.loads(line)["body"])
                os.write(1, f"\n{FAILED}{body}\n".encode())

        def write_raw(self, line: bytes) -> None:
            self.lines.append(line)

        def close(self) -> None:
            pass

    ear = Ear()
    code = carry_out(name, Path(plan), ear)  # type: ignore[arg-type]
    bodies = [json.loads(line)["body"] for line in ear.lines]
    last = bodies[-1] if bodies else {}
    return {
        "exit": int(code),
        "code": last.get("code"),
        "message": last.get("message", ""),
        "result": last.get("result"),
        "warnings": [body["message"] for body in bodies if body["type"] == "warning"],
        "steps": [body for body in bodies if body["type"] == "progress"],
    }


def report(folder: str) -> dict[str, Any]:
    """A run's page, or the refusal in words."""
    from expert_worker.errors import ExpertError
    from expert_worker.report.write import write_report

    try:
        write_report(Path(folder))
    except ExpertError as refusal:
        return {"refused": refusal.message}
    return {"bytes": (Path(folder) / "report.html").stat().st_size}


def report_all(folder: str) -> None:
    from expert_worker.report import write_index

    place = Path(folder)
    write_index(place / "index.html", [path.parent for path in sorted(place.rglob("events.jsonl"))])


def sample_run(folder: str) -> None:
    from sample_run import sample_run

    sample_run(Path(folder))


def report_flips(folder: str, file: str, count: int) -> list[str]:
    """What was raised at which flip."""
    import random

    from expert_worker.errors import ExpertError
    from expert_worker.report import write_report

    path = Path(folder) / file
    whole = path.read_bytes()
    draw = random.Random(file)
    raised = []
    for _ in range(count):
        place, bit = draw.randrange(len(whole)), draw.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
        try:
            write_report(Path(folder))
        except ExpertError:
            continue
        except Exception as error:
            raised.append(f"bit {bit} of byte {place}: {type(error).__name__}: {error}"[:200])
    path.write_bytes(whole)
    return raised


def adapter_moved(run: str) -> None:
    from learnt import assert_moved

    assert_moved(Path(run))


def cut_and_resumed(folder: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The same recipe undisturbed, stopped after step 3 and resumed, and on other rows: digests of final/."""
    import pytest
    from scene import put_data, rows, train

    from expert_worker.errors import Interrupted

    place = Path(folder)
    recipe = {"recipe.schedule.duration": {"unit": "steps", "value": 6}, "recipe.saving.steps": 1, **changes}

    def stop_at_three(events: Any, event: Any) -> None:
        if event.body.type == "progress" and event.body.step == 3:
            events.stop.request(terminated=True)

    with pytest.MonkeyPatch.context() as patch:
        put_data(patch, rows(12))
        whole = train(place, recipe, output="whole")
        with suppress(Interrupted):
            train(place, recipe, output="cut", listen=stop_at_three)
        on = train(place, {**recipe, "request.resume": {"from": "newest"}}, output="cut")
        put_data(patch, rows(12, seed=6))
        other = train(place, recipe, output="other")
    return {
        "resumed_from": on.result["resumed_from"],
        "whole": _digest(whole.output / "final"),
        "resumed": _digest(on.output / "final"),
        "other": _digest(other.output / "final"),
        "losses": [whole.losses[3:], on.losses],
    }


def _digest(folder: Path) -> str:
    import hashlib

    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def prepare_plan(folder: str, output: str, changes: dict[str, Any], resume: bool) -> str:
    """A plan of the tiny base of the training tests, whose rows are in memory."""
    from plans import example_document
    from scene import DEFAULTS, save_base

    place = Path(folder)
    save_base(place / "base")
    document = example_document(
        place,
        {
            **DEFAULTS,
            **changes,
            "machine.paths.output": str(place / output),
            "request.resume": {"from": "newest" if resume else "nothing"},
        },
    )
    path = place / f"{output}-{'resume' if resume else 'plan'}.json"
    path.write_text(json.dumps(document))
    return str(path)


def train_in_memory(plan: str) -> dict[str, Any]:
    os.environ["EXPERT_TEST_STAGE"] = "expert_test_training"
    return stage("train", plan)


def digest_of(folder: str) -> str:
    return _digest(Path(folder))


def learnt(run: str) -> None:
    from learnt import assert_gradients

    lines = (Path(run) / "events.jsonl").read_text().splitlines()
    bodies = [json.loads(line)["body"] for line in lines]
    assert_gradients([body["grad_norm"] for body in bodies if body["type"] == "progress"])


def data_plan(
    folder: str, base: str, data: str, changes: dict[str, Any] | None = None, stage_name: str = "pretokenize"
) -> str:
    """A plan that reads one file of rows with a base's tokenizer."""
    from plans import example_document

    path = Path(data)
    kind = {".json": "json", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}.get(
        path.suffix, "jsonl"
    )
    source = {"name": path.name, "format": kind, "weight": 1.0, "task": None}
    document = example_document(
        Path(folder),
        {
            "recipe.data.train": [source],
            "recipe.data.validation": [],
            "recipe.template": {"kind": "tokenizer", "source": None},
            "machine.paths.data": {path.name: data},
            "machine.paths.base": base,
            "machine.paths.home": str(Path(folder).parent / "home"),
            "machine.logging.trackers": [],
            **(changes or {}),
        },
    )
    document["request"] = (
        {"stage": "pretokenize", "force": False, "preview": 0}
        if stage_name == "pretokenize"
        else document["request"]
    )
    plan = Path(folder) / f"{stage_name}.json"
    plan.write_text(json.dumps(document))
    return str(plan)


def pretokenize(folder: str, base: str, data: str, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    return stage("pretokenize", data_plan(folder, base, data, changes))


def write_arrow(path: str, rows: list[dict[str, Any]], kind: str) -> None:
    """Hugging Face's stream format, or Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(rows)
    if kind == "parquet":
        pq.write_table(table, path)
        return
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def write_big_parquet(path: str) -> None:
    """One text of 600 MB in a file of some kilobytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"prompt": ["y" * 600_000_000], "completion": ["z"]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)


def generate(
    folder: str, base: str, adapter: str | None, changes: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What base and adapter answer to one prompt in a few tokens."""
    plan = Path(data_plan(folder, base, f"{folder}/train.jsonl", {**QUICK, **(changes or {})}, "generate"))
    document = json.loads(plan.read_text())
    document["request"] = {"stage": "generate", "adapter": adapter, "prompt": "total of 1"}
    plan.write_text(json.dumps(document))
    return stage("generate", str(plan))


QUICK = {
    "recipe.decoding": {
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "stop_sequences": [],
        "max_new_tokens": 4,
    }
}


def save_adapter(folder: str, base: str) -> None:
    """A LoRA adapter of that base whose numbers are not its initialisation."""
    import torch
    from peft import LoraConfig, get_peft_model
    from tiny import stirred
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
    stirred(get_peft_model(model, config)).save_pretrained(folder)


def evaluate(folder: str, base: str, adapter: str, home: str) -> dict[str, Any]:
    data = f"{folder}/train.jsonl"
    source = {"name": "train.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    changes = {
        **QUICK,
        "recipe.data.test": [source],
        "recipe.evaluation.scorer": "exact",
        "machine.paths.home": f"{folder}/{home}-home",
        "machine.paths.output": f"{folder}/{home}-out",
    }
    plan = Path(data_plan(folder, base, data, changes, home))
    document = json.loads(plan.read_text())
    document["request"] = {"stage": "evaluate", "adapter": adapter}
    plan.write_text(json.dumps(document))
    return stage("evaluate", str(plan))


def export(folder: str, base: str, adapter: str, name: str) -> dict[str, Any]:
    plan = Path(data_plan(folder, base, f"{folder}/train.jsonl", QUICK, name))
    document = json.loads(plan.read_text())
    target = f"{folder}/{name}-export"
    document["request"] = {"stage": "export", "adapter": adapter, "target": target, "merge": True}
    plan.write_text(json.dumps(document))
    return stage("export", str(plan))


def clock_jumps(folder: str) -> dict[str, Any]:
    """Cut at a time a year ahead, resumed at one a year back."""
    import time

    import pytest
    from scene import put_data, rows, train

    from expert_worker.errors import Interrupted
    from expert_worker.report import write_report

    place, now, year = Path(folder), time.time, 365 * 86_400.0
    recipe = {"recipe.schedule.duration": {"unit": "steps", "value": 6}, "recipe.saving.steps": 1}

    def stop_at_three(events: Any, event: Any) -> None:
        if event.body.type == "progress" and event.body.step == 3:
            events.stop.request(terminated=True)

    with pytest.MonkeyPatch.context() as patch:
        put_data(patch, rows(12))
        whole = train(place, recipe, output="whole")
        patch.setattr(time, "time", lambda: now() + year)
        with suppress(Interrupted):
            train(place, recipe, output="cut", listen=stop_at_three)
        patch.setattr(time, "time", lambda: now() - year)
        on = train(place, {**recipe, "request.resume": {"from": "newest"}}, output="cut")
    return {
        "whole": _digest(whole.output / "final"),
        "resumed": _digest(on.output / "final"),
        "report": write_report(on.output).stat().st_size,
    }
