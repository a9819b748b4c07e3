"""The settings for CUDA, tested without CUDA: torch stores most of them by itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from plans import example_plan
from scene import put_data, rows, train

from expert_worker.events import Events
from expert_worker.memory_errors import ran_out
from expert_worker.train import memory, precision
from expert_worker.train.fast import decoder
from expert_worker.train.fast.kernels.attention import ATTENTION, Documents, cuda
from expert_worker.train.fast.kernels.registry import Target

GIB = 1 << 30


@pytest.fixture
def limits(monkeypatch):
    """A device of 24 GiB, 20 of them free, that remembers its limit; what torch had before is put back."""
    held: dict[int, float] = {}
    current: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (20 * GIB, 24 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: 1 * GIB)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    benchmark = torch.backends.cudnn.benchmark
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, at: held.update({at: share})
    )
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda at: held[at])
    yield SimpleNamespace(held=held, current=current)
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
    torch.backends.cudnn.benchmark = benchmark


def prepared(folder, changes) -> dict:
    events, memory = Events.in_memory()
    plan = example_plan(folder, changes)
    threads = plan.machine.threads.compute
    precision.prepare(
        plan.recipe.precision, torch.device("cuda", 1), threads, events, plan.machine.device.memory_bytes
    )
    return {e.body.key: (e.body.value, e.body.note) for e in memory.events if e.body.type == "applied"}


@pytest.mark.parametrize("wanted", [True, False])
def test_tf32_is_read_back_from_torch(tmp_path, limits, wanted):
    applied = prepared(tmp_path, {"recipe.precision.tf32": wanted})
    assert applied["tf32"] == (wanted, "TF32 enabled" if wanted else None)
    assert torch.backends.cuda.matmul.allow_tf32 is torch.backends.cudnn.allow_tf32 is wanted


@pytest.mark.parametrize(("system", "reserve"), [("linux", GIB // 2), ("win32", GIB)])
def test_memory_is_capped_below_what_is_free(tmp_path, limits, monkeypatch, system, reserve):
    """Other programs hold some of it, and this process's own part is not free."""
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setattr("sys.platform", system)
    applied = prepared(tmp_path, {})
    assert list(limits.held) == [1] and limits.current == [1]
    assert applied["memory_limit_bytes"][0] == pytest.approx(21 * GIB - reserve, rel=1e-6)
    assert applied["allocator"][0] == "expandable_segments:True"


@pytest.mark.parametrize(
    ("wanted", "limit"), [(GIB, GIB), (6 * GIB, 6 * GIB), (24 * GIB, 21 * GIB - GIB // 2)]
)
def test_memory_is_capped_by_the_plan_too(tmp_path, limits, monkeypatch, wanted, limit):
    """--max-memory."""
    monkeypatch.setattr("sys.platform", "linux")
    applied = prepared(tmp_path, {"machine.device.memory_bytes": wanted})
    assert applied["memory_limit_bytes"][0] == pytest.approx(limit, rel=1e-6)


class Refused(Exception):
    """NVML's errors derive from no error of Python's but this."""


def test_utilization_is_asked_for_until_it_is_refused(monkeypatch):
    asked, clock = [], [0.0]

    def answer(device):
        asked.append(clock[0])
        if len(asked) == 3:
            raise Refused("Not Supported")
        return 40 + len(asked)

    monkeypatch.setattr(torch.cuda, "utilization", answer)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    measured = memory.Utilization(torch.device("cuda", 0))
    found = []
    for second in range(0, 30, 2):
        clock[0] = float(second)
        found.append(measured.now())
    assert asked == [0.0, 6.0, 12.0]
    assert found == [41.0] * 3 + [42.0] * 3 + [None] * 9
    assert memory.Utilization(torch.device("cpu")).now() is None and len(asked) == 3


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", True),
        ("NCCL error: Failed to CUDA malloc 4194304 bytes", True),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED", False),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_a_full_device_is_distinguished_from_other_errors(words, known):
    assert ran_out(RuntimeError(words)) is known


def test_torch_says_on_a_cpu_that_memory_ran_out():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50, dtype=torch.uint8)
    assert ran_out(caught.value)
    assert ran_out(torch.OutOfMemoryError("x")) and ran_out(MemoryError()) and not ran_out(RuntimeError("x"))


@pytest.mark.parametrize(("capability", "kernel"), [((9, 0), "torch_varlen"), ((7, 5), "sdpa_by_document")])
def test_a_gpu_without_flash_attention_attends_document_by_document(capability, kernel, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    gpu = torch.device("cuda", 0)
    assert ATTENTION.choose(Target(gpu, torch.float16)).name == kernel
    assert ATTENTION.choose(Target(gpu, torch.float32)).name == "sdpa_by_document"


@pytest.mark.parametrize("wanted", [False, True])
def test_flash_attention_reaches_the_choice_of_a_kernel(tmp_path, wanted, monkeypatch):
    targets = []

    def recorded(*given):
        targets.append(Target(*given))
        return targets[-1]

    monkeypatch.setattr(decoder, "Target", recorded)
    put_data(monkeypatch, rows(4))
    one_step = {"recipe.schedule.duration": {"unit": "steps", "value": 1}}
    train(tmp_path, {"machine.flash_attention": wanted, **one_step})
    assert [target.flash_attention for target in targets] == [wanted]


def _old(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size=(-1, -1)):
    """As torch 2.11 has it, which sees by the shapes that queries share keys."""
    assert window_size == (-1, 0) and max_q == max_k == 3
    return query + 0 * scale


def _new(query, key, value, *places, scale=None, window_size=(-1, -1), enable_gqa=False):
    assert enable_gqa == (query.shape[1] != key.shape[1])
    return _old(query, key, value, *places, scale=scale, window_size=window_size)


@pytest.mark.parametrize("varlen_attn", [_old, _new])
@pytest.mark.parametrize("key_heads", [1, 4])
def test_the_call_of_torch_s_attention_follows_its_version(monkeypatch, varlen_attn, key_heads):
    from torch.nn.attention import varlen

    monkeypatch.setattr(varlen, "varlen_attn", varlen_attn)
    monkeypatch.setattr(cuda, "_asks_for_fewer_keys", cuda._asks_for_fewer_keys.__wrapped__)
    query, key = torch.ones(5, 4, 8), torch.ones(5, key_heads, 8)
    documents = Documents((3, 2), torch.device("cpu"))
    assert cuda.torch_varlen(query, key, key, documents, 0.5).equal(query)


def test_torch_s_attention_gets_heads_of_a_width_that_it_takes(monkeypatch):
    from torch.nn.attention import varlen

    def whole(q, k, v, scale):
        heads = (it.transpose(0, 1) for it in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(*heads, scale=scale).transpose(0, 1)

    def strict(query, key, value, *places, scale=None, window_size=(-1, -1)):
        assert query.shape[-1] % 8 == key.shape[-1] % 8 == value.shape[-1] % 8 == 0
        return whole(query, key, value, scale)

    monkeypatch.setattr(varlen, "varlen_attn", strict)
    q, k, v = torch.randn(3, 5, 2, 100, generator=torch.Generator().manual_seed(0))
    found = cuda.torch_varlen(q, k, v, Documents((5,), torch.device("cpu")), 0.1)
    torch.testing.assert_close(found, whole(q, k, v, 0.1))
