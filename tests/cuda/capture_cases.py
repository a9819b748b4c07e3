"""Captures a few operations, and what a capture forbids, on the stand-in driver: a JSON object by case."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable

os.environ.pop("LD_PRELOAD", None)

import torch
from torch import Tensor

from expert_worker.process.leave import leave
from expert_worker.train.step_graph import Recorder

DEVICE = torch.device("cuda", 0)
DRIVER = ctypes.CDLL(None)
DRIVER.fakecuda_count.restype = ctypes.c_longlong
KINDS = {"K": "kernels", "G": "products", "B": "captures", "N": "captured", "P": "replays", "R": "replayed"}


def counts() -> dict[str, int]:
    return {name: int(DRIVER.fakecuda_count(ord(kind))) for kind, name in KINDS.items()}


class Waits(torch.autograd.Function):
    """Its backward pass runs on autograd's thread."""

    @staticmethod
    def forward(_ctx: object, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(_ctx: object, grad: Tensor) -> Tensor:
        grad.sum().item()
        return grad


weight = torch.nn.Parameter(torch.empty(64, 64, device=DEVICE))
weight.grad = torch.empty_like(weight)
x = torch.empty(32, 64, device=DEVICE)
side, other = torch.cuda.Stream(), torch.cuda.Stream()
pinned, arrived = torch.zeros(4).pin_memory(), torch.zeros(4, device=DEVICE)
early = torch.cuda.Event()
early.record(other)


def step() -> None:
    (x @ weight).relu().sum().backward()


def fork(join: bool) -> None:
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.add(1)
    if join:
        torch.cuda.current_stream().wait_stream(side)


def send() -> None:
    arrived.copy_(pinned, non_blocking=True)


CASES: dict[str, Callable[[], object]] = {
    "step": step,
    "fork and join": lambda: fork(True),
    "pinned copy": send,
    "pinning": lambda: (x.add(1), torch.ones(5).pin_memory()),
    "value": lambda: (step(), x.sum().item()),
    "value in backward": lambda: Waits.apply(x @ weight).sum().backward(),
    "wait for all": lambda: (step(), torch.cuda.synchronize()),
    "wait for a stream": lambda: (step(), torch.cuda.current_stream().synchronize()),
    "pageable copy": lambda: (step(), torch.ones(5).to(DEVICE, non_blocking=True)),
    "unjoined fork": lambda: fork(False),
    "event from outside": lambda: torch.cuda.current_stream().wait_event(early),
    "out of memory": lambda: (step(), torch.empty(100 << 30, device=DEVICE)),
}


def tried(case: Callable[[], object]) -> dict[str, object]:
    step()
    graph, before = torch.cuda.CUDAGraph(), counts()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            case()
    except RuntimeError as error:
        # As before it: the next capture and ordinary work succeed.
        step()
        return {"error": str(error).splitlines()[0]}
    after = counts()
    pinned.fill_(7)
    graph.replay()
    replayed = counts()
    return {
        "captured": {name: after[name] - before[name] for name in after},
        "replayed": {name: replayed[name] - after[name] for name in after},
        "arrived": arrived.tolist(),
    }


def replayed_and_freed(renewed: bool) -> str:
    """What torch says when it gives the memory of a replayed graph back: nothing where that is right."""
    record = Recorder(DEVICE)
    record(step)()
    if renewed:
        record.renew()
    try:
        torch.cuda.empty_cache()
    except RuntimeError as error:
        torch.cuda.synchronize()
        return str(error).splitlines()[0]
    return ""


found = {name: tried(case) for name, case in CASES.items()}
freed = {name: replayed_and_freed(name == "renewed") for name in ("renewed", "at once")}
print(json.dumps(found | {"freed": freed}))
leave(0)
