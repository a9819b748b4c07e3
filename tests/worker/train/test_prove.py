"""Kernels against their references on this device, and what a run makes of the findings."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scene import put_data, train
from torch import Tensor

from expert_worker.prove import Asked, print_proof
from expert_worker.train.fast import prove as proving
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.kernels import verdicts
from expert_worker.train.fast.kernels.adapted_linear import on_card
from expert_worker.train.fast.kernels.attention import ATTENTION, Documents
from expert_worker.train.fast.kernels.attention.sdpa import SDPA_BY_DOCUMENT
from expert_worker.train.fast.kernels.choice import OPERATIONS
from expert_worker.train.fast.kernels.registry import Kernel
from expert_worker.train.fast.kernels.swiglu import SWIGLU
from expert_worker.train.fast.kernels.verdicts import Trial

CPU = torch.device("cpu")
FORMATS = proving.formats


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Two steps of a small model; a busy machine makes any of them slow."""
    monkeypatch.setattr(proving.Scene, "of", lambda _: proving.Scene(128, (30, 1, 61)))
    monkeypatch.setattr(proving, "STEPS", 2)
    monkeypatch.setattr(proving, "SLOWER", 50.0)
    monkeypatch.setattr(proving, "formats", lambda _: [torch.float32])


def with_kernel(monkeypatch: pytest.MonkeyPatch, function: Any, **settings: Any) -> None:
    monkeypatch.setattr(SWIGLU, "kernels", (Kernel("new", function, **settings), *SWIGLU.kernels))


def trial_of(name: str) -> Trial:
    return next(trial for trial in proving.prove(CPU) if trial.kernel == name)


def reference(gate: Tensor, up: Tensor) -> Tensor:
    result: Tensor = SWIGLU.kernels[-1].function(gate, up)
    return result


def test_every_kernel_that_runs_here_is_compared_and_right(monkeypatch):
    monkeypatch.setattr(proving, "formats", lambda _: [torch.float32, torch.bfloat16])
    threads, seen = torch.get_num_threads(), list[Trial]()
    found = proving.prove(CPU, report=seen.append)
    assert found == seen and torch.get_num_threads() == threads
    assert {trial.operation for trial in found} == OPERATIONS.keys() - set(proving.INSIDE)
    assert {trial.format for trial in found} == {"fp32", "bf16"}
    assert {trial.kernel for trial in found if trial.operation == "adapted_linear"} == {
        "fused_lora",
        "fused_dora",
    }
    assert not [trial for trial in found if trial.verdict != "right"]


class _NoGradient(torch.autograd.Function):
    """The right values, and gradients that are a tenth too large."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return reference(gate, up)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            out = reference(*leaves)
        return torch.autograd.grad(out, leaves, grad * 1.1)


def fails(_gate: Tensor, _up: Tensor) -> Tensor:
    raise RuntimeError("no kernel image is available\nsecond line")


def slow(gate: Tensor, up: Tensor) -> Tensor:
    time.sleep(0.2)
    return reference(gate, up)


@pytest.mark.parametrize(
    ("function", "verdict", "reason"),
    [
        (_NoGradient.apply, "differs", "its gradients differ by "),
        (lambda gate, up: reference(gate, up) * 2, "differs", "its loss differs by "),
        (lambda gate, up: reference(gate, up) / 0, "differs", "its loss differs by nan"),
        (fails, "fails", "it fails: RuntimeError: no kernel image is available"),
        (slow, "slower", "a step takes "),
    ],
)
def test_a_kernel_that_is_wrong_or_slow_is_found(monkeypatch, function, verdict, reason):
    with_kernel(monkeypatch, function)
    if verdict == "slower":
        monkeypatch.setattr(proving, "SLOWER", 3.0)
    trial = trial_of("new")
    assert trial.verdict == verdict and trial.reason.startswith(reason) and "\n" not in trial.reason
    json.dumps(trial.__dict__, allow_nan=False)


def test_a_kernel_that_saves_memory_is_not_given_up_for_speed(monkeypatch):
    with_kernel(monkeypatch, slow, saves_memory=True)
    monkeypatch.setattr(proving, "SLOWER", 3.0)
    trial = trial_of("new")
    assert trial.verdict == "right" and trial.seconds > 3 * trial.reference_seconds


def test_another_program_for_a_while(monkeypatch):
    """It takes the device while the kernel is measured, but not for ever."""
    calls = []

    def delayed(gate: Tensor, up: Tensor) -> Tensor:
        calls.append(None)
        return slow(gate, up) if len(calls) <= 8 else reference(gate, up)

    with_kernel(monkeypatch, delayed)
    monkeypatch.setattr(proving, "SLOWER", 3.0)
    assert trial_of("new").verdict == "right"


class Recorder:
    """In place of a capture: a replay computes again. It may fail, or be wrong."""

    def __init__(self, factor: float, fails: Exception | None) -> None:
        self._factor, self._fails = factor, fails
        self.engine: Any

    def renew(self) -> None:
        """It has no pool."""

    def __call__(self, function: Any) -> Any:
        if self._fails is not None:
            raise self._fails

        def replay() -> None:
            function()
            self.engine._loss.mul_(self._factor)

        return replay


def captured_trial(monkeypatch: pytest.MonkeyPatch, factor: float, fails: Exception | None) -> Trial:
    monkeypatch.setattr(proving, "formats", lambda _: [torch.bfloat16])
    monkeypatch.setattr(proving, "COMPILES", {"cpu"})
    monkeypatch.setattr(proving.compiler, "missing", lambda *_: "there is no compiler")
    monkeypatch.setattr(on_card, "DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr(proving.step_graph, "obstacle", lambda *_: None)
    monkeypatch.setattr(ATTENTION, "kernels", (SDPA_BY_DOCUMENT,))
    recorder, usual = Recorder(factor, fails), proving.step_graph.GraphEngine.__init__

    def made(self: Any, *settings: Any) -> None:
        recorder.engine = self
        usual(self, *settings, recorder)

    monkeypatch.setattr(proving.step_graph.GraphEngine, "__init__", made)
    monkeypatch.setattr(FastDecoder, "_context", with_boundaries(FastDecoder._context))
    (trial,) = [trial for trial in proving.prove(CPU) if trial.operation == verdicts.CAPTURED]
    return trial


NOT_PERMITTED = RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize(
    ("factor", "fails", "verdict"),
    [(1.0, None, "right"), (1.5, None, "differs"), (1.0, NOT_PERMITTED, "fails")],
)
def test_a_captured_step_is_tried_as_runs_would_replay_it(monkeypatch, factor, fails, verdict):
    trial = captured_trial(monkeypatch, factor, fails)
    assert (trial.format, trial.verdict) == ("bf16", verdict)
    assert (fails is not None) == ("operation not permitted" in trial.reason)


def with_boundaries(context: Any) -> Any:
    """A CPU's attention walks documents, whose lengths a captured batch has on the device."""

    def made(self: FastDecoder, batch: Any) -> Any:
        lengths = tuple(batch.documents.boundaries.diff().tolist())
        return replace(context(self, batch), documents=Documents(lengths, CPU))

    return made


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "right"), (1.01, "differs")])
def test_compiled_layers_are_tried_as_runs_would_compute_them(monkeypatch, factor, verdict):
    """By a compiler that makes every result too large."""

    def wrong(function):
        def call(*tensors):
            made = function(*tensors)
            return tuple(x * factor for x in made) if isinstance(made, tuple) else made * factor

        return call

    monkeypatch.setattr(proving, "formats", lambda _: [torch.float32, torch.bfloat16])
    monkeypatch.setattr(proving, "COMPILES", {"cpu"})
    monkeypatch.setattr(proving.compiler, "missing", lambda *_: None)
    monkeypatch.setattr(proving.compiler, "compiler", lambda _: wrong)
    (trial,) = [trial for trial in proving.prove(CPU) if trial.operation == verdicts.COMPILED]
    assert (trial.format, trial.verdict) == ("bf16", verdict)
    monkeypatch.setattr(proving.compiler, "missing", lambda *_: "there is no C compiler")
    (trial,) = [trial for trial in proving.prove(CPU) if trial.operation == verdicts.COMPILED]
    assert (trial.verdict, trial.reason) == ("fails", "there is no C compiler")


def test_memory_that_runs_out_is_not_kept(monkeypatch, tmp_path):
    """Another program may hold it today; a finding would hold until the next proof."""

    def full(_gate: Tensor, _up: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with_kernel(monkeypatch, full)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    written = SimpleNamespace(write_raw=lambda _: None, close=lambda: None)
    with pytest.raises(torch.OutOfMemoryError):
        print_proof(Asked(tmp_path), written)
    assert not verdicts.place(tmp_path, CPU).exists()


def test_memory_that_runs_out_in_a_capture_is_not_kept(monkeypatch):
    with pytest.raises(RuntimeError, match="out of memory in the capture"):
        captured_trial(monkeypatch, 1.0, torch.OutOfMemoryError("CUDA out of memory"))


def test_a_run_leaves_out_what_this_device_refused(monkeypatch, tmp_path):
    with_kernel(monkeypatch, lambda gate, up: reference(gate, up) * 2)
    verdicts.keep(tmp_path, CPU, [trial_of("new")], "2026-01-02")
    refused = verdicts.refused(tmp_path, CPU, torch.float32)
    assert "its loss differs by" in refused.of("swiglu")["new"]
    assert not verdicts.refused(tmp_path, CPU, torch.bfloat16).reasons, "only in the format that was tried"
    put_data(monkeypatch)
    run = train(tmp_path / "run", {"machine.paths.home": str(tmp_path)})
    assert run.applied["kernels.swiglu"] == SWIGLU.kernels[1].name
    (warning,) = [body for body in run.of("warning") if body.code == "kernel-off"]
    assert (
        "not by new, on this device: its loss differs" in warning.message and "2026-01-02" in warning.message
    )


def test_a_plan_that_names_a_kernel_gets_it_all_the_same(tmp_path):
    name = SWIGLU.kernels[0].name
    found = verdicts.Refused({"swiglu": {name: "slow"}})
    assert SWIGLU.choose(proving_target(), name, found.of("swiglu")).name == name
    assert SWIGLU.choose(proving_target(), None, found.of("swiglu")).name != name
    everything = {kernel.name: "slow" for kernel in SWIGLU.kernels}
    assert SWIGLU.choose(proving_target(), None, everything).name == SWIGLU.kernels[-1].name


def proving_target() -> Any:
    from expert_worker.train.fast.kernels.registry import Target

    return Target(CPU, torch.float32)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"trials": [{"operation": 1}]}', '{"trials": [], "date": 1}']
)
def test_a_damaged_file_refuses_nothing(tmp_path, text):
    path = verdicts.place(tmp_path, CPU)
    path.parent.mkdir()
    path.write_text(text)
    assert not verdicts.refused(tmp_path, CPU, torch.float32).reasons


@pytest.mark.parametrize("has_bf16", [True, False])
def test_all_formats_that_a_run_may_ask_for_are_compared(monkeypatch, has_bf16):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_bf16)
    found = {verdicts.format_name(dtype) for dtype in FORMATS(torch.device("cuda"))}
    assert found == {"fp32", "fp16"} | ({"bf16"} if has_bf16 else set())
    assert FORMATS(CPU) == [torch.float32, torch.bfloat16]


def test_a_format_that_is_named_is_compared_on_any_device(monkeypatch, tmp_path):
    """Otherwise nothing is, and the next training compares again."""
    tried = []
    monkeypatch.setattr(proving, "prove", lambda _device, wanted, _report: tried.extend(wanted) or [])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    written = SimpleNamespace(write_raw=lambda _: None, close=lambda: None)
    print_proof(Asked(tmp_path, number_format="fp16"), written)
    assert tried == [torch.float16]


def test_another_torch_or_device_has_its_own_findings(monkeypatch, tmp_path):
    here = verdicts.place(tmp_path, CPU)
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert verdicts.place(tmp_path, CPU) != here


def test_findings_in_other_formats_stay(tmp_path):
    def found(number_format: str, verdict: str) -> Trial:
        return Trial("swiglu", "native", number_format, verdict, "why")

    first = [found("fp32", "differs"), found("bf16", "slower")]
    verdicts.keep(tmp_path, CPU, first, "2026-01-02")
    path = verdicts.keep(tmp_path, CPU, [found("bf16", "right")], "2026-01-03", "as its driver says")
    kept = json.loads(path.read_text())
    assert [(trial["format"], trial["verdict"]) for trial in kept["trials"]] == [
        ("fp32", "differs"),
        ("bf16", "right"),
    ]
    assert kept["named"] == "as its driver says" and kept["date"] == "2026-01-03"
