"""Each kernel of the fast path against the reference of its operation on this device: loss, gradients, speed.

Small decoders with LoRA and DoRA train one step on a packed batch, also with dropout and on a base in 4 bits,
for the kernels inside adapted layers. The other operations take their references, so that a difference is the
kernel's. In a 16-bit format, it may be twice as far from fp32 as the reference.

The speed is a reason not to use a kernel only where it does without memory that plans do not count, and where
the kernel is slower each time that both are measured: other programs may be using the device too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from expert_worker import memory_errors
from expert_worker.events import Events
from expert_worker.train import step_graph
from expert_worker.train.engine import FastEngine
from expert_worker.train.fast import compiler
from expert_worker.train.fast.batch import PackedBatch, positions_of
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import CounterDropout, Place, install, token_keys
from expert_worker.train.fast.kernels.adapted_linear import ADAPTED_HEADS, ADAPTED_LINEAR, ADAPTED_MLP
from expert_worker.train.fast.kernels.choice import OPERATIONS
from expert_worker.train.fast.kernels.dequantize import DEQUANTIZE
from expert_worker.train.fast.kernels.dropout import DROPOUT
from expert_worker.train.fast.kernels.verdicts import (
    CAPTURED,
    COMPILED,
    COMPILER,
    GRAPH,
    Refused,
    Trial,
    format_name,
    refused_of,
)
from expert_worker.train.objective import SupervisedFineTuning

# Sums in another order.
EXACT = 1e-4
# Of the reference's own distance from fp32.
TIMES_IN_16_BITS = 2.0
# A kernel that needs this many times the reference's step is not used.
SLOWER = 1.25
STEPS = 5
# How often both are measured again where it seems slower.
AGAIN = 4
# Where runs compile and capture by default, in 16 bits. The tests add the CPU.
COMPILES = {"cuda"}
_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class Scene:
    """The model and the batch: small on a CPU, large enough on a GPU that its kernels matter."""

    width: int
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, device: torch.device) -> Scene:
        small = device.type == "cpu"
        return cls(256, (150, 64, 9, 289)) if small else cls(1024, (1300, 700, 9, 2087))


@dataclass(frozen=True)
class Part:
    """A model, and the operations that are tried on it."""

    operations: tuple[str, ...]
    dora: bool = False
    dropout: float = 0.0
    quantized: bool = False


# What adapted layers use, or are part of. Their own reference, a module of peft, does not and is not.
INSIDE = (DROPOUT.name, DEQUANTIZE.name, ADAPTED_HEADS.name, ADAPTED_MLP.name)
PARTS = (
    Part(tuple(name for name in OPERATIONS if name not in INSIDE)),
    # The other operations do not see the adapter.
    Part((ADAPTED_LINEAR.name,), dora=True),
    Part((ADAPTED_HEADS.name, ADAPTED_MLP.name)),
    Part((DROPOUT.name, ADAPTED_HEADS.name, ADAPTED_MLP.name), dropout=0.1),
    Part((DROPOUT.name,), dropout=0.1, dora=True),
    Part((DEQUANTIZE.name,), quantized=True),
)


@dataclass(frozen=True)
class _Step:
    loss: Tensor
    gradients: Tensor
    seconds: float


def formats(device: torch.device) -> list[torch.dtype]:
    """Those that a run on this device may use: a manifest may ask for fp16 on a GPU that has bf16, too."""
    if device.type != "cuda":
        return [torch.float32, torch.bfloat16]
    bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    return [torch.float32, *([torch.bfloat16] if bf16 else []), torch.float16]


def prove(
    device: torch.device,
    wanted: Sequence[torch.dtype] | None = None,
    report: Callable[[Trial], None] = lambda _: None,
) -> list[Trial]:
    """Every kernel that runs on `device`, in the wanted formats; in every one that it has by default."""
    found = []
    scene = Scene.of(device)
    exact_products, threads = torch.backends.cuda.matmul.allow_tf32, torch.get_num_threads()
    torch.backends.cuda.matmul.allow_tf32 = False
    if device.type == "cpu":
        # Threads that wait for each other would measure what else this machine does.
        torch.set_num_threads(1)
    try:
        for dtype in formats(device) if wanted is None else wanted:
            of_kernels = [
                trial for part in PARTS for trial in _reported(_trials(scene, device, dtype, part), report)
            ]
            found += [*of_kernels, *_reported(_whole(scene, device, dtype, of_kernels), report)]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = exact_products
        torch.set_num_threads(threads)
    return found


def _reported(trials: Iterable[Trial], report: Callable[[Trial], None]) -> Iterator[Trial]:
    for trial in trials:
        report(trial)
        yield trial


def _trials(scene: Scene, device: torch.device, dtype: torch.dtype, part: Part) -> Iterator[Trial]:
    model, batch, references = _model(scene, device, dtype, part), _batch(scene, device), _references()
    if set(part.operations) <= set(INSIDE):
        del references[ADAPTED_LINEAR.name]
    others = {name: _others(model, name, references) for name in part.operations}
    if not any(others.values()):
        return
    exact, plain, accepted = _expected(model, batch, references, dtype)
    for name, kernels in others.items():
        for kernel in kernels:
            tried = _decoder(model, {**references, name: kernel})
            again = None if saves_memory(name, kernel) else _again(_decoder(model, references), batch)
            trial = _trial(tried, batch, exact, accepted, plain.seconds, again)
            yield Trial(operation=name, kernel=kernel, format=format_name(dtype), **trial)


def saves_memory(operation: str, kernel: str) -> bool:
    return any(it.saves_memory for it in OPERATIONS[operation].kernels if it.name == kernel)


def _again(decoder: FastDecoder, batch: PackedBatch) -> Callable[[], float]:
    """The seconds of a step without the kernel, measured again."""
    return lambda: _step(decoder, batch).seconds


def _whole(
    scene: Scene, device: torch.device, dtype: torch.dtype, of_kernels: Sequence[Trial]
) -> Iterator[Trial]:
    """Layers as runs compute them, without the kernels that were not found right: compiled, and captured."""
    if device.type not in COMPILES or dtype == torch.float32:
        return
    model, batch = _model(scene, device, dtype, PARTS[0]), _batch(scene, device)
    exact, _, accepted = _expected(model, batch, _references(), dtype)
    refused = refused_of(of_kernels, dtype)
    trial = _compiled(model, batch, exact, accepted, refused)
    yield Trial(operation=COMPILED, kernel=COMPILER, format=format_name(dtype), **trial)
    wrapper = compiler.compiler(COMPILER) if trial["verdict"] == "right" else None
    made = FastDecoder(model, Place(), flash=True, compiled=wrapper, refused=refused)
    trial = _captured(model, made, scene, exact, accepted, device)
    yield Trial(operation=CAPTURED, kernel=GRAPH, format=format_name(dtype), **trial)


def _references() -> dict[str, str]:
    return {name: operation.kernels[-1].name for name, operation in OPERATIONS.items()}


def _expected(
    model: Any, batch: PackedBatch, references: dict[str, str], dtype: torch.dtype
) -> tuple[_Step, _Step, float]:
    """A step in fp32 and one in `dtype`, by references, and how far a kernel may be from the first."""
    exact = _step(_decoder(deepcopy(model).float(), references), batch, 1)
    plain = _step(_decoder(model, references), batch)
    if dtype == torch.float32:
        return exact, plain, EXACT
    own = max(_apart(plain.loss, exact.loss), _apart(plain.gradients, exact.gradients))
    return exact, plain, TIMES_IN_16_BITS * own + EXACT


def _compiled(
    model: Any, batch: PackedBatch, exact: _Step, accepted: float, refused: Refused
) -> dict[str, Any]:
    """The layers as runs compute them, compiled, beside the same uncompiled."""
    if lacks := compiler.missing(batch.ids.device, COMPILER):
        return {"verdict": "fails", "reason": lacks}
    usual = _again(FastDecoder(model, Place(), flash=True, refused=refused), batch)
    wrapper = compiler.compiler(COMPILER)
    made = FastDecoder(model, Place(), flash=True, compiled=wrapper, refused=refused)
    return _trial(made, batch, exact, accepted, usual(), usual)


def _captured(
    model: Any, decoder: FastDecoder, scene: Scene, exact: _Step, accepted: float, device: torch.device
) -> dict[str, Any]:
    """A micro-batch that is replayed, in the shape of a larger one, beside the same uncaptured."""
    engine = FastEngine(model, decoder, SupervisedFineTuning(), device, None)
    if reason := step_graph.obstacle(engine, device):
        return {"verdict": "fails", "reason": reason}
    batch = _host_batch(scene)
    usual = _again(decoder, batch.to(device))
    uncaptured = usual()
    larger = _host_batch(Scene(scene.width, (*scene.lengths, sum(scene.lengths) // 16)))
    graphs = step_graph.GraphEngine(engine, max(scene.lengths), device, Events([]))

    def replayed() -> Tensor:
        loss = graphs.backward(batch, 1.0)
        if graphs.given_up is not None:
            raise RuntimeError(graphs.given_up)
        return loss

    graphs.backward(larger, 1.0)
    return _tried(lambda: _timed(replayed, decoder, device), exact, accepted, uncaptured, usual)


def _others(model: Any, name: str, references: dict[str, str]) -> list[str]:
    """None for an operation that no layer uses here."""
    choice = _decoder(model, references).kernels.choices.get(name)
    return [kernel for kernel in choice.others if kernel != references[name]] if choice else []


def _trial(
    decoder: FastDecoder,
    batch: PackedBatch,
    exact: _Step,
    accepted: float,
    usual: float,
    again: Callable[[], float] | None,
) -> dict[str, Any]:
    return _tried(lambda: _step(decoder, batch), exact, accepted, usual, again)


def _tried(
    run: Callable[[], _Step],
    exact: _Step,
    accepted: float,
    usual: float,
    again: Callable[[], float] | None,
) -> dict[str, Any]:
    """`usual`: seconds of a step without it. `again` measures them; None where the speed does not matter."""
    try:
        found = run()
    except Exception as error:
        if memory_errors.ran_out(error):
            # Other programs may hold it now: this says nothing about the kernel, and nothing is kept.
            raise
        words = str(error).strip().splitlines() or [""]
        return {"verdict": "fails", "reason": f"it fails: {type(error).__name__}: {words[0][:200]}"}
    loss, gradients = _apart(found.loss, exact.loss), _apart(found.gradients, exact.gradients)
    right, seconds = loss <= accepted and gradients <= accepted, found.seconds
    if right and again is not None:
        usual, seconds = _best_of_both(run, again, usual, seconds)
    measured = {
        "loss_apart": loss if isfinite(loss) else None,
        "gradients_apart": gradients if isfinite(gradients) else None,
        "accepted": accepted,
        "seconds": seconds,
        "reference_seconds": usual,
    }
    if not right:  # NaN is not.
        what, apart = ("gradients differ", gradients) if loss <= accepted else ("loss differs", loss)
        reason = f"its {what} by {apart:.1e}, and {accepted:.1e} is accepted"
        return {**measured, "verdict": "differs", "reason": reason}
    if again is not None and seconds > SLOWER * usual:
        reason = f"a step takes {seconds / usual:.2f} times as long as without it"
        return {**measured, "verdict": "slower", "reason": reason}
    return {**measured, "verdict": "right"}


def _best_of_both(
    run: Callable[[], _Step], again: Callable[[], float], usual: float, seconds: float
) -> tuple[float, float]:
    """Of a step without the kernel and one with it, measured again where that seems slower."""
    for _ in range(AGAIN):
        if seconds <= SLOWER * usual:
            break
        usual, seconds = again(), run().seconds
    return usual, seconds


def _decoder(model: Any, kernels: dict[str, str]) -> FastDecoder:
    return FastDecoder(model, _place(model), flash=True, kernels=kernels)


def _place(model: Any) -> Place:
    """That of its dropout."""
    found = [module.place for module in model.modules() if isinstance(module, CounterDropout)]
    return found[0] if found else Place()


def _step(decoder: FastDecoder, batch: PackedBatch, steps: int = STEPS) -> _Step:
    def computed() -> Tensor:
        loss = decoder.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return _timed(computed, decoder, batch.ids.device, steps)


def _timed(
    run: Callable[[], Tensor], decoder: FastDecoder, device: torch.device, steps: int = STEPS
) -> _Step:
    """The best time of several: other programs only add to it."""
    trained = [parameter for parameter in _parameters(decoder) if parameter.requires_grad]
    seconds = []
    for _ in range(steps):
        for parameter in trained:
            parameter.grad = None
        _wait(device)
        began = time.perf_counter()
        loss = run()
        _wait(device)
        seconds.append(time.perf_counter() - began)
    gradients = [parameter.grad.double().flatten() for parameter in trained if parameter.grad is not None]
    return _Step(loss.detach(), torch.cat(gradients).cpu(), min(seconds))


def _parameters(decoder: FastDecoder) -> Sequence[torch.nn.Parameter]:
    return list(decoder.body.parameters())


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _apart(one: Tensor, other: Tensor) -> float:
    one, other = one.double().cpu(), other.double().cpu()
    return float((one - other).norm() / other.norm().clamp_min(1e-12))


def _model(scene: Scene, device: torch.device, dtype: torch.dtype, part: Part) -> Any:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, Qwen3Config

    with torch.random.fork_rng():
        torch.manual_seed(3)
        kind: Any = AutoModelForCausalLM
        base = kind.from_config(
            Qwen3Config(
                vocab_size=2048,
                hidden_size=scene.width,
                intermediate_size=3 * scene.width,
                num_hidden_layers=2,
                num_attention_heads=scene.width // 64,
                num_key_value_heads=scene.width // 128,
                head_dim=64,
                tie_word_embeddings=True,
            ),
            dtype=dtype,
        )
        if part.quantized:
            base = _quantized(base, dtype).to(device)
        settings: dict[str, Any] = {"target_modules": _LINEAR, "task_type": "CAUSAL_LM"}
        settings |= {"use_dora": part.dora, "lora_dropout": part.dropout}
        adapter = LoraConfig(r=16, lora_alpha=32, **settings)
        model = get_peft_model(base, adapter, autocast_adapter_dtype=True)
        install(model, Place())
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.02)
    return model.to(device).train()


def _quantized(base: Any, dtype: torch.dtype) -> Any:
    """In NF4, as runs load it; the weights are quantized when they come to a device."""
    import bitsandbytes

    kinds: Any = bitsandbytes.nn

    for block in base.model.layers:
        for parent in (block.self_attn, block.mlp):
            for name, linear in parent.named_children():
                if isinstance(linear, torch.nn.Linear):
                    shape = linear.in_features, linear.out_features
                    made = kinds.Linear4bit(*shape, False, compute_dtype=dtype, quant_type="nf4")
                    made.weight = kinds.Params4bit(linear.weight.data, requires_grad=False, quant_type="nf4")
                    setattr(parent, name, made)
    return base


def _batch(scene: Scene, device: torch.device) -> PackedBatch:
    return _host_batch(scene).to(device)


def _host_batch(scene: Scene) -> PackedBatch:
    generator = torch.Generator().manual_seed(11)
    total = sum(scene.lengths)
    ids = torch.randint(1, 2048, (total,), generator=generator)
    labels = torch.where(torch.rand(total, generator=generator) < 0.3, ids, -100)
    keys = token_keys(3, 0, list(range(len(scene.lengths))), list(scene.lengths))
    return PackedBatch(ids, labels, positions_of(scene.lengths), scene.lengths, keys=keys)
