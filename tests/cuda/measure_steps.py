"""Trains a few steps with the project's own stage on the stand-in driver: a JSON object for each trial.

`measure_steps.py TRIALS`: a JSON file with a list of plan, base and settings. A base is a folder with a
config only. Its weights are made on the device, where no kernel ever touches them: a base of 8 billion
weights needs no memory of the host.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# ptxas, which Triton starts, does not run with it.
os.environ.pop("LD_PRELOAD", None)
ROOT = Path(__file__).parents[2]
PLACES = ("worker/python", "benches/train", "benches/gpu")
sys.path[:0] = [str(ROOT / place) for place in PLACES]

import torch  # noqa: E402
import torch._dynamo.utils  # noqa: E402
from data import PackedRows, documents  # noqa: E402
from op_trace import OpTrace  # noqa: E402
from shapes import Case, Shape  # noqa: E402

from expert_worker.bench import stage as bench  # noqa: E402
from expert_worker.events import Events  # noqa: E402
from expert_worker.plan import load_plan  # noqa: E402
from expert_worker.process.leave import leave  # noqa: E402
from expert_worker.train import session, trainer  # noqa: E402
from expert_worker.train.dataset import Dataset  # noqa: E402
from expert_worker.train.fast.decoder import FastDecoder  # noqa: E402

# Libraries keep tables such as the values of NF4; the allocator reserves 2 MiB for them.
CONSTANTS = 2 << 20
KINDS = {
    "K": "kernels",
    "G": "products",
    "S": "waits",
    "C": "copies",
    "M": "allocations",
    "B": "captures",
    "P": "replays",
    "R": "replayed",
}
KEPT = ("recovered", "warning", "failed")


def base_on_device(folder: str, plan_base: Any, machine: Any, *_: Any, **__: Any) -> Any:
    """In place of `load_base`."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    device = torch.device("cuda", machine.device.index)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    if plan_base.quantization == "int4":
        _quantize(model, device)
    for module in model.modules():
        for held, made in ((module._parameters, _parameter), (module._buffers, torch.Tensor)):
            for name, tensor in held.items():
                if tensor is not None and tensor.is_meta:
                    empty = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
                    held[name] = made(empty) if made is _parameter else empty
    if config.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight
    model.config.name_or_path = plan_base.name
    return model.requires_grad_(False).eval()


def _parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor, requires_grad=False)


def _quantize(model: Any, device: torch.device) -> None:
    from bitsandbytes.nn import Linear4bit, Params4bit

    for layer in model.model.layers:
        for block in (layer.self_attn, layer.mlp):
            for name, linear in list(block.named_children()):
                if not isinstance(linear, torch.nn.Linear):
                    continue
                shape = (linear.out_features, linear.in_features)
                made = Linear4bit(
                    linear.in_features,
                    linear.out_features,
                    bias=False,
                    compute_dtype=torch.bfloat16,
                    quant_type="nf4",
                    device="meta",
                )
                whole = torch.empty(shape, dtype=torch.bfloat16, device=device)
                weight = Params4bit(whole, requires_grad=False, quant_type="nf4")
                made.weight = weight._quantize(device)
                setattr(block, name, made)


def _wait() -> None:
    torch.ones(1, device="cuda").item()


def _launch() -> None:
    number = torch.ones(1, device="cuda")
    for _ in range(100):
        number.add_(1)


def _hold() -> None:
    HELD.append(torch.empty(100 << 20, dtype=torch.uint8, device="cuda"))


def _mix() -> None:
    torch.ones(2, device="cuda") + torch.ones(2)


def _wait_in_graph() -> None:
    if torch.cuda.is_current_stream_capturing():
        _wait()


# What the tests of this harness do to a step, to see that it is found.
FAULTS = {"wait": _wait, "launches": _launch, "memory": _hold, "device": _mix}
# The same in every forward pass.
FAULTS_WITHIN = {"wait in graph": _wait_in_graph}
HELD: list[torch.Tensor] = []


class Meter:
    """Counts one step: what the driver was asked for, where the host waited, and the allocator's peak."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._driver = ctypes.CDLL(None)
        self._driver.fakecuda_count.restype = ctypes.c_longlong
        self.found: dict[str, Any] = {}
        self.started, self.size = False, {"tokens": 0, "supervised": 0}
        self._waits: Counter[str] = Counter()
        fault = settings["fault"] or ""
        self._fault, self._within = FAULTS.get(fault, lambda: None), FAULTS_WITHIN.get(fault, lambda: None)
        self._measured = settings["measured"]
        self._captures = self._count()["captures"]
        self._trace = OpTrace() if settings["traced"] else None

    @contextmanager
    def installed(self) -> Iterator[None]:
        accumulate, embed = trainer.GradientAccumulator.accumulate, FastDecoder._embed
        meter = self

        def accumulated(self: Any, step: int, *rest: Any, **named: Any) -> Any:
            # From one step's launches to the next one's: a step's figures may be read in between.
            if step == meter._measured + 1 and meter.started and not meter.found:
                meter._end()
            if step == meter._measured and not meter.started:
                meter._start()
                meter._fault()
            result = accumulate(self, step, *rest, **named)
            # Not the result itself: its loss is on the device, where the next trial starts with nothing.
            meter.size = {"tokens": result.tokens, "supervised": result.supervised}
            return result

        def embedded(self: Any, batch: Any) -> Any:
            meter._within()
            return embed(self, batch)

        FastDecoder._embed = embedded  # type: ignore[method-assign]
        trainer.GradientAccumulator.accumulate = accumulated  # type: ignore[method-assign]
        try:
            yield
        finally:
            trainer.GradientAccumulator.accumulate = accumulate  # type: ignore[method-assign]
            FastDecoder._embed = embed  # type: ignore[method-assign]

    def captures(self) -> int:
        """Of the whole trial."""
        return self._count()["captures"] - self._captures

    def _start(self) -> None:
        self.started = True
        torch.cuda.reset_peak_memory_stats()
        if self._settings["others_take"]:
            torch.cuda.empty_cache()
            self._driver.fakecuda_others_take(ctypes.c_ulonglong(int(self._settings["others_take"] * 2**30)))
        warnings.simplefilter("always")
        warnings.showwarning = self._waited  # type: ignore[assignment]
        torch.cuda.set_sync_debug_mode("warn")
        if self._trace:
            self._trace.__enter__()
        self._counts = self._count()
        self._cpu = time.process_time()

    def _end(self) -> None:
        cpu, counts = time.process_time() - self._cpu, self._count()
        if self._trace:
            self._trace.__exit__(None, None, None)
        torch.cuda.set_sync_debug_mode("default")
        memory = torch.cuda.memory_stats()
        self.found = {
            **{name: counts[name] - self._counts[name] for name in counts},
            "cpu_seconds": cpu,
            **self.size,
            "peak_allocated": memory["allocated_bytes.all.peak"],
            "peak_reserved": memory["reserved_bytes.all.peak"],
            "retries": memory["num_alloc_retries"],
            "waited": dict(self._waits),
            "traced": self._trace.found() if self._trace else None,
        }

    def _count(self) -> dict[str, int]:
        return {name: int(self._driver.fakecuda_count(ord(kind))) for kind, name in KINDS.items()}

    def _waited(self, message: Any, *_: Any, **__: Any) -> None:
        import traceback

        if "called a synchronizing CUDA operation" not in str(message):
            return
        places = [
            f"{Path(frame.filename).name}:{frame.name}"
            for frame in traceback.extract_stack()
            if "expert_worker" in frame.filename
        ]
        self._waits[places[-1] if places else "elsewhere"] += 1


class Kept:
    """The events that a test looks at."""

    def __init__(self) -> None:
        self.applied: dict[str, Any] = {}
        self.others: list[dict[str, Any]] = []

    def write(self, event: Any, line: bytes) -> None:
        del event
        body = json.loads(line)["body"]
        if body["type"] == "applied":
            self.applied[body["key"]] = body["value"]
        elif body["type"] in KEPT:
            self.others.append(body)

    def close(self) -> None:
        """Nothing to close."""


def rows_of(base: str, settings: dict[str, Any]) -> PackedRows:
    vocabulary = json.loads((Path(base) / "config.json").read_text())["vocab_size"]
    case = Case("", "", "", 0.0, settings["rows"], settings["length"], settings["steps"])
    return PackedRows(documents(case, Shape(vocabulary, 0, 0, 0, 0, 0, 0)), settings["length"])


def measured(path: str, base: str, settings: dict[str, Any]) -> dict[str, Any]:
    plan = load_plan(Path(path))
    session.load_base = partial(base_on_device, base)  # type: ignore[assignment]
    meter, kept = Meter(settings), Kept()
    compiled = torch._dynamo.utils.counters
    torch._dynamo.reset()
    compiled.clear()
    gc.collect()
    torch.cuda.empty_cache()
    reserved = torch.cuda.memory_reserved()
    assert reserved <= CONSTANTS, f"{reserved} bytes are still reserved after the trial before"
    data = Dataset("0" * 64, rows_of(base, settings), None, {})
    with meter.installed():
        result = bench.measure(plan, Events([kept]), data)
    return {
        "fits": result.fits,
        "micro_batch": result.micro_batch,
        "peak_bytes": result.peak_bytes,
        "kernels_chosen": {name: kind.chosen for name, kind in result.kernels.items()},
        "applied": kept.applied,
        "events": kept.others,
        "step": meter.found,
        "captures": meter.captures(),
        "graphs": compiled["stats"]["unique_graphs"],
        "kept": compiled["inductor"]["fxgraph_cache_hit"],
    }


def main() -> None:
    for trial in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps(measured(**trial)), flush=True)
        HELD.clear()


if __name__ == "__main__":
    main()
    leave(0)
