"""The few steps that `ablate` and `tune` measure."""

import subprocess
import sys
from pathlib import Path

import pytest
from plans import example_plan
from scene import DEFAULTS, put_data, save_base

from expert_worker.bench import stage
from expert_worker.errors import Failed
from expert_worker.events import Events

SHORT = {
    **DEFAULTS,
    "recipe.schedule.duration": {"unit": "steps", "value": 3},
    "recipe.saving.strategy": "no",
    "recipe.evaluation.strategy": "no",
    "request": {"stage": "bench", "limit_seconds": 100.0},
}


def measured(folder, monkeypatch, changes=None):
    put_data(monkeypatch)
    save_base(folder / "base")
    events, memory = Events.in_memory("bench")
    result = stage.run(example_plan(folder, {**SHORT, **(changes or {})}), events)
    return result, memory.events


def test_a_few_steps_are_trained_in_passing(tmp_path, monkeypatch):
    result, _ = measured(tmp_path, monkeypatch)
    assert result["ok"] and result["fits"] and len(result["losses"]) == 3 and result["tokens_per_second"] > 0
    assert result["tokens"] == sum(step["tokens"] for step in result["steps"][1:])
    assert result["peak_bytes"] >= result["peak_bytes_of_longest"] >= result["loaded_bytes"] * 0.5
    assert result["ready_seconds"] > 0 and result["applied"]["path"] == "fast"
    assert result["gpu_utilization"] is None
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [{"machine.fast_path": False}, {"machine.micro_batch": 1}, {"machine.checkpointing": "full"}],
)
def test_what_changes_only_the_way_changes_no_loss(tmp_path, monkeypatch, change):
    planned, _ = measured(tmp_path, monkeypatch)
    other, _ = measured(tmp_path, monkeypatch, change)
    assert other["losses"] == pytest.approx(planned["losses"], rel=1e-3)


def test_a_batch_that_had_to_be_split_does_not_fit(tmp_path, monkeypatch):
    from expert_worker.train.engine import FastEngine

    plain = FastEngine.backward

    def short_of_memory(self, batch, scale):
        if len(batch.lengths) > 3:
            raise MemoryError("out of memory")
        return plain(self, batch, scale)

    monkeypatch.setattr(FastEngine, "backward", short_of_memory)
    result, _ = measured(tmp_path, monkeypatch, {"machine.micro_batch": 4, "recipe.batch.rows_per_step": 4})
    assert result["fits"] is False and result["micro_batch"] < 4


def test_the_limit_does_not_count_download_and_tokenizing(tmp_path, monkeypatch):
    order = []

    def noted(name, function):
        monkeypatch.setattr(stage, name, lambda *given: [order.append(name), function(*given)][1])

    for name in ("locate", "open_dataset", "limited", "prepare"):
        noted(name, getattr(stage, name))
    measured(tmp_path, monkeypatch)
    assert order == ["locate", "open_dataset", "limited", "prepare"]


def test_what_takes_too_long_ends_with_its_reason(tmp_path):
    code = (
        "import time\n"
        "from expert_worker.events.sinks import Pipe\nfrom expert_worker.events import Events\n"
        "from expert_worker.bench.limit import limited\n"
        "events = Events([Pipe(1)], task='bench')\n"
        "with limited(0.05, events): time.sleep(60)\n"
    )
    worker = Path(__file__).parents[3] / "worker" / "python"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(worker)},
        check=False,
    )
    assert done.returncode == Failed.exit and '"bench-limit"' in done.stdout
    assert "not done within 0 seconds" in done.stdout
