"""Every fast path against plain transformers + peft on this device: `equality.py DEVICE`.

The reference is the plain path in fp32. In fp32 the fast path must meet it; in bf16 it may be as far from it
as the plain path in bf16 is, and half as far again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from shapes import Shape
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen3ForCausalLM

from expert_worker.process.leave import leave
from expert_worker.train.fast.batch import IGNORED, PackedBatch, positions_of
from expert_worker.train.fast.compiler import compiler
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install, token_keys
from expert_worker.train.fast.group import GroupDecoder
from expert_worker.train.fast.kernels.choice import OPERATIONS
from expert_worker.train.fast.kernels.registry import Target

SMALL = Shape(1024, 256, 512, 2, 4, 2, 64)
LENGTHS = (70, 1, 33, 130, 22)
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
EXACT, ROOM, LEAST = 2e-4, 1.5, 1e-3

Found = tuple[float, dict[str, Tensor]]


def model_of(dtype: torch.dtype, device: torch.device, dora: bool, dropout: float, four_bits: bool) -> Any:
    torch.manual_seed(3)
    base = Qwen3ForCausalLM(SMALL.config()).to(dtype)
    base = quantized(base, dtype) if four_bits else base
    config = LoraConfig(
        r=8, lora_alpha=16, lora_dropout=dropout, use_dora=dora, target_modules=LINEARS, task_type="CAUSAL_LM"
    )
    model = get_peft_model(base.to(device), config, autocast_adapter_dtype=True)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                # Off its starting value, which often is zero; the same on every device.
                moved = torch.randn(parameter.shape, generator=draw) * 0.05
                parameter.data = parameter.data.float() + moved.to(parameter.device)
    return model.train()


def quantized(base: Any, dtype: torch.dtype) -> Any:
    from bitsandbytes.nn import Linear4bit, Params4bit

    for layer in base.model.layers:
        for block in (layer.self_attn, layer.mlp):
            for name, linear in list(block.named_children()):
                if not isinstance(linear, torch.nn.Linear):
                    continue
                small = Linear4bit(
                    linear.in_features, linear.out_features, bias=False, compute_dtype=dtype, quant_type="nf4"
                )
                small.weight = Params4bit(linear.weight.data, requires_grad=False, quant_type="nf4")
                setattr(block, name, small)
    return base


def batch_on(device: torch.device) -> PackedBatch:
    draw = torch.Generator().manual_seed(11)
    total = sum(LENGTHS)
    ids = torch.randint(1, SMALL.vocabulary, (total,), generator=draw)
    labels = torch.where(torch.rand(total, generator=draw) < 0.5, ids, IGNORED)
    keys = token_keys(1, 1, list(range(len(LENGTHS))), list(LENGTHS))
    return PackedBatch(ids, labels, positions_of(LENGTHS), LENGTHS, keys).to(device)


def plain(model: Any, place: Place, batch: PackedBatch) -> Found:
    """transformers' own forward, a document at a time."""
    total = torch.zeros((), device=batch.ids.device)
    for piece in batch.pieces(len(batch.lengths)):
        place.keys = piece.keys
        if len(piece.ids) < 2:
            continue
        logits = model(input_ids=piece.ids.unsqueeze(0)).logits[0, :-1].float()
        total = total + cross_entropy(logits, piece.labels[1:], ignore_index=IGNORED, reduction="sum")
    return taken(model, total)


def fast(model: Any, place: Place, batch: PackedBatch, **options: Any) -> tuple[Found, str]:
    decoder = FastDecoder(model, place, **options)
    return taken(model, decoder.loss(batch)), decoder.kernels.choices["attention"].chosen


def fused(fresh: Callable[[], tuple[Any, Place]], device: torch.device) -> tuple[Found, str]:
    """The second of two experts in one pass, whose adapters differ."""
    batch = batch_on(torch.device("cpu"))
    (other, _), (model, _) = pair = fresh(), fresh()
    with torch.no_grad():
        for parameter in other.parameters():
            if parameter.requires_grad:
                parameter.mul_(-0.5)
    decoder = GroupDecoder([FastDecoder(*one) for one in pair])
    losses = decoder.losses(PackedBatch.of_experts([batch, batch]).to(device))
    _, gradients = taken(model, losses.sum())
    return (float(losses[1].detach()), gradients), decoder.kernels.choices["attention"].chosen


def taken(model: Any, loss: Tensor) -> Found:
    loss.backward()  # type: ignore[no-untyped-call]
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad and p.grad is not None}
    gradients = {name: p.grad.detach().double().cpu() for name, p in trained.items()}
    model.zero_grad()
    return float(loss.detach()), gradients


def apart(one: Found, other: Found) -> float:
    """The larger of the losses' and the gradients' relative distance."""
    assert one[1].keys() == other[1].keys()
    joined = [torch.cat([it[1][name].flatten() for name in sorted(one[1])]) for it in (one, other)]
    gradients = float((joined[0] - joined[1]).norm() / joined[1].norm().clamp_min(1e-12))
    return max(abs(one[0] - other[0]) / max(abs(other[0]), 1e-9), gradients)


def ways(device: torch.device, dtype: torch.dtype, dora: bool) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        "as trained": {},
        "checkpointing full": {"checkpointing": "full"},
        "checkpointing selective": {"checkpointing": "selective"},
    }
    for operation in OPERATIONS.values():
        fused = ["fused_dora" if dora else "fused_lora", "module"]
        names = fused if operation.name == "adapted_linear" else operation.names(Target(device, dtype))
        found |= {f"{operation.name}: {name}": {"kernels": {operation.name: name}} for name in names[1:]}
    return found


def compiles(kind: str, device: torch.device) -> bool:
    """Compiling takes longer than all other checks of a kind together: once for each precision."""
    return device.type == "cuda" and kind == "lora"


def check(kind: str, dtype_name: str, device: torch.device) -> list[dict[str, Any]]:
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype_name]
    dora, dropout = kind.startswith("dora"), 0.1 if "dropout" in kind else 0.0
    four_bits, batch = kind == "qlora", batch_on(device)

    def fresh(of: torch.dtype) -> tuple[Any, Place]:
        model, place = model_of(of, device, dora, dropout, four_bits), Place()
        install(model, place)
        return model, place

    reference = plain(*fresh(torch.float32), batch)
    allowed = EXACT
    if dtype_name == "bf16":
        allowed = max(LEAST, ROOM * apart(plain(*fresh(dtype), batch), reference))
    rows = []
    options = ways(device, dtype, dora)
    if compiles(kind, device):
        options["compiled"] = {"compiled": compiler("inductor")}
    tried: dict[str, Callable[[], tuple[Found, str]]] = {
        name: lambda given=given: fast(*fresh(dtype), batch, **given) for name, given in options.items()
    }
    if not dora:
        tried["beside another expert"] = lambda: fused(partial(fresh, dtype), device)
    for name, compute in tried.items():
        try:
            found, way = compute()
            row: dict[str, Any] = {"apart": apart(found, reference), "attention": way}
        except Exception as error:
            row = {"apart": None, "why": f"{type(error).__name__}: {error}".split("\n", 1)[0]}
        ok = row["apart"] is not None and row["apart"] <= allowed
        rows.append({"kind": kind, "dtype": dtype_name, "way": name, "allowed": allowed, "ok": ok, **row})
    return rows


def peak_operations(device: torch.device) -> float:
    """Multiplications and additions a second of one large bf16 product: what this card really reaches."""
    size, rounds = (8192, 20) if device.type == "cuda" else (256, 3)
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / _seconds(lambda: a @ a, rounds, device)


def copied_bytes(device: torch.device) -> float:
    """Bytes read and written per second by a large copy on this device."""
    size, rounds = (1 << 30, 20) if device.type == "cuda" else (1 << 24, 3)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / _seconds(lambda: target.copy_(source), rounds, device)


def launch_seconds(device: torch.device) -> float:
    """Of one small operation after another: what the host needs for each launch."""
    number = torch.zeros(1, device=device)
    return _seconds(lambda: number.add_(1), 1000, device)


def multiplies(device: torch.device) -> bool:
    """Whether a product on this device is right. Where it is not, no figure here is a measurement."""
    a = torch.arange(4096.0).remainder(7).reshape(64, 64)
    return bool((a.to(device) @ a.to(device)).cpu().equal(a @ a))


def _seconds(operation: Callable[[], Any], rounds: int, device: torch.device) -> float:
    """Of one call: the best of three series."""
    operation()
    found = []
    for _ in range(3):
        wait(device)
        began = time.perf_counter()
        for _ in range(rounds):
            operation()
        wait(device)
        found.append((time.perf_counter() - began) / rounds)
    return min(found)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    device = torch.device(sys.argv[1])
    # As in training; it compiles a kernel for every length.
    torch.backends.cuda.enable_cudnn_sdp(False)
    kinds = ("lora with dropout", "dora", "dora with dropout", "qlora", "lora")
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "multiplies": multiplies(device),
        "peak_operations": peak_operations(device),
        "copied_bytes": copied_bytes(device),
        "launch_seconds": launch_seconds(device),
        "checks": [],
    }
    # The caller reads the last line, also of a run that it ends for want of time.
    print(json.dumps(found), flush=True)
    # What is compiled comes last.
    for kind in kinds:
        for dtype in ("bf16", "fp32"):
            found["checks"] += check(kind, dtype, device)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
    leave(0)
