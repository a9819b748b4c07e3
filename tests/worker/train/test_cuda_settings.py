"""What is set for CUDA, as far as a machine without it can tell: torch keeps most settings by itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from plans import example_plan

from expert_worker.events import Events
from expert_worker.train import precision
from expert_worker.train.fast.attention import kernel

GIB = 1 << 30


@pytest.fixture
def limits(monkeypatch):
    """A device of 24 GiB that remembers its limit; what torch had before is put back."""
    held: dict[int, float] = {}
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    benchmark = torch.backends.cudnn.benchmark
    device = SimpleNamespace(total_memory=24 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: device)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, at: held.update({at: share})
    )
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda at: held[at])
    yield held
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
    torch.backends.cudnn.benchmark = benchmark


def prepared(folder, changes) -> dict:
    gpu = {"kind": "cuda", "index": 1, "name": "a GPU", "memory_bytes": 24 * GIB}
    events, memory = Events.in_memory()
    precision.prepare(example_plan(folder, {"machine.device": gpu, **changes}), events)
    return {e.body.key: (e.body.value, e.body.note) for e in memory.events if e.body.type == "applied"}


@pytest.mark.parametrize("wanted", [True, False])
def test_tf32_is_read_back_from_torch(tmp_path, limits, wanted):
    applied = prepared(tmp_path, {"recipe.precision.tf32": wanted})
    assert applied["tf32"] == (wanted, "TF32 enabled" if wanted else None)
    assert torch.backends.cuda.matmul.allow_tf32 is torch.backends.cudnn.allow_tf32 is wanted


def test_memory_is_capped_below_what_the_device_has(tmp_path, limits, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    applied = prepared(tmp_path, {})
    assert list(limits) == [1]
    assert applied["memory_limit_bytes"][0] == pytest.approx(24 * GIB - (512 << 20), rel=1e-6)
    assert applied["allocator"][0] == "expandable_segments:True"


@pytest.mark.parametrize(("capability", "way"), [((9, 0), "torch_varlen"), ((7, 5), "sdpa_by_document")])
def test_a_gpu_without_flash_attention_attends_document_by_document(capability, way, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert kernel(torch.device("cuda", 0), torch.float16, flash=False) == way
    assert kernel(torch.device("cuda", 0), torch.float32, flash=False) == "sdpa_by_document"
