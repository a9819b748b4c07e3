"""A base that an export needs at its full size, beside a GPU that is too small for it or cannot be used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from plans import example_plan

from expert_worker.errors import Missing
from expert_worker.events import Events
from expert_worker.export import placement

COMPUTED = "the merged model is computed"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """One with as much free memory as a test says."""
    found = SimpleNamespace(free=2**31)
    monkeypatch.setattr(placement, "torch_device", lambda device: torch.device("cuda", device.index))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (found.free, 2**32))
    return found


@pytest.mark.parametrize(("free", "kind"), [(2**31, "cuda"), (2**30, "cpu")])
def test_a_base_that_is_too_large_for_the_gpu_is_computed_on_the_cpu(
    free: int, kind: str, gpu: SimpleNamespace, tmp_path: Path
) -> None:
    gpu.free = free
    events, memory = Events.in_memory()
    machine = example_plan(tmp_path, {"machine.device.kind": "cuda", "machine.dtype": "fp32"}).machine
    assert placement.where_it_fits(machine, 2**30, COMPUTED, events).device.kind == kind
    warned = [it.body.message for it in memory.events if it.body.type == "warning"]
    assert [("1.1 GB in fp32" in it, "1.1 GB are free" in it, COMPUTED in it) for it in warned] == (
        [] if kind == "cuda" else [(True, True, True)]
    )


def test_a_gpu_that_torch_cannot_use_is_refused_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    machine = example_plan(tmp_path, {"machine.device.kind": "cuda"}).machine
    with pytest.raises(Missing) as refused:
        placement.where_it_fits(machine, 2**30, COMPUTED, Events())
    assert refused.value.hint is not None and "--device cpu" in refused.value.hint
