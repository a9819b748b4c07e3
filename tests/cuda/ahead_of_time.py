"""The worker's Triton kernels, compiled without a card: what their machine code needs, as JSON.

`ahead_of_time.py 80 REGEX`: for a compute capability, of the kernels whose names match.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from expert_worker.train.fast.kernels.triton_code import dequantize, dropout, heads, loss, mlp

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
_USED = re.compile(r"REG:(\d+) STACK:(\d+)")
# An access to global memory, also one that copies into shared memory, and its modifiers.
_ACCESS = re.compile(r"\b(LDGSTS|LDG|STG)\b((?:\.\w+)*)")
# Numbers that are multiples of 16 in nearly every base: Triton makes other code for them.
MULTIPLES = {"words", "width", "stride", "size", "numbers", "values_stride", "angle_stride"}
ALIGNED = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class Variant:
    """A kernel as it is launched: the types of its arguments, and its constants."""

    kernel: Any
    arguments: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]

    def compiled(self, capability: int) -> Any:
        names = self.kernel.arg_names
        types = {**self.arguments, **dict.fromkeys(self.constants, "constexpr")}
        signature = {name: types[name] for name in names}
        values = {(names.index(name),): value for name, value in self.constants.items()}
        aligned = {
            (names.index(name),): ALIGNED
            for name, kind in self.arguments.items()
            if kind.startswith("*") or name in MULTIPLES
        }
        source = ASTSource(self.kernel, signature, values, aligned)
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(self.options))


def figures(variant: Variant, capability: int, folder: Path) -> dict[str, int]:
    """`narrow`: loads and stores of global memory in the code that move less than 128 bits for a thread.
    `fused`: products that are rounded together with a sum, where a kernel asks for none."""
    made = variant.compiled(capability)
    path = folder / f"{capability}.cubin"
    path.write_bytes(made.asm["cubin"])
    used = _USED.search(_run("cuobjdump", "--dump-resource-usage", path))
    assert used is not None
    code = _run("nvdisasm", path)
    accesses = [modifiers.split(".") for _, modifiers in _ACCESS.findall(code)]
    wide = sum("128" in modifiers or "256" in modifiers for modifiers in accesses)
    found = {
        "registers": int(used[1]),
        "stack": int(used[2]),
        "shared": int(made.metadata.shared),
        "narrow": len(accesses) - wide,
    }
    if not variant.options["enable_fp_fusion"]:
        found["fused"] = len(re.findall(r"\bFFMA", code))
    return found


def _run(tool: str, *words: object) -> str:
    command = [str(TOOLS / tool), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _loss(kind: str, want_grad: bool) -> Variant:
    arguments = {"logits": f"*{kind}", "labels": "*i64", "losses": "*fp32", "words": "i32"}
    constants = {"ignored": -100, "want_grad": want_grad, "block": loss.BLOCK}
    return _variant(loss.row_losses, arguments, constants, loss.OPTIONS)


# What the kernels of dropout take; all have keys and columns.
PLACES = {
    dropout.project: ("x", "down", "out"),
    dropout.to_downs: ("back", "x"),
    dropout.through_downs: ("to_x", "back", "down"),
    dropout.drop_inputs: ("x", "out", "rest"),
}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
NUMBERS = ("tokens", "part_tokens", "rows", "width", "stride", "limit")


def _dropout(kernel: Any, kind: str, settings: Mapping[str, Any], rank: int = 16, **more: Any) -> Variant:
    arguments = {"keys": "*i32", "columns": "*i32", "parts": "*fp32", "factor": "fp32"}
    arguments |= dict.fromkeys(PLACES[kernel], f"*{kind}") | dict.fromkeys(NUMBERS, "i32")
    constants = {**dropout.ranks_of(rank, DTYPES[kind]), "precision": "ieee", **more}
    return _variant(kernel, arguments, constants, settings)


# Which arguments are numbers, and which are not of the format that is computed in.
WHOLE = ("first_key", "first_value", "heads", "values_stride", "angle_stride")
OTHERS = {"keys": "*i32", "columns": "*i32", "to_ups": "*fp32", "to_down": "*fp32"}


def _in_layer(kernel: Any, kind: str, settings: Mapping[str, Any], **constants: Any) -> Variant:
    """Kernels that add what LoRA adds. `constants`: without those of `settings`."""
    given = {"precision": "ieee", **constants}
    kinds = dict.fromkeys(kernel.arg_names, f"*{kind}") | OTHERS
    kinds |= dict.fromkeys((*NUMBERS, *WHOLE), "i32") | dict.fromkeys(("scale", "epsilon"), "fp32")
    arguments = {name: it for name, it in kinds.items() if name not in given and name not in settings}
    return _variant(kernel, arguments, given, settings)


def _mlp(kernel: Any, settings: Mapping[str, Any], rank: int, drops: bool = False) -> Variant:
    ranks = {"rank": rank, "out_rank": rank, "ranks": max(rank, 16)}
    return _in_layer(kernel, "bf16", settings, **ranks, drops=drops)


def _heads(kernel: Any, settings: Mapping[str, Any], rank: int, half: int, normed: bool) -> Variant:
    fewest = heads.FEWEST_BACK if kernel is heads.turn_back else 16
    sizes = {"rank": rank, "ranks": max(rank, fewest), "half": half, "halves": half}
    return _in_layer(kernel, "bf16", settings, **sizes, normed=normed)


def _dequantize(kind: str, through: Any, half: int, nested: bool) -> Variant:
    arguments = {
        "packed": "*u8",
        "scales": "*u8" if nested else "*fp32",
        "scale_codes": "*fp32",
        "scales_of_scales": "*fp32",
        "offset": "*fp32",
        "codes": "*fp32",
        "out": f"*{kind}",
        "numbers": "i32",
        "size": "i32",
    }
    constants = {"nested": nested, "scale_block": 256, "through": through, "half": half}
    constants["blocks"] = max(dequantize.BYTES // half, 1)
    return _variant(dequantize.unpack, arguments, constants, dequantize.OPTIONS)


def _variant(
    kernel: Any, arguments: Mapping[str, str], constants: Mapping[str, Any], settings: Mapping[str, Any]
) -> Variant:
    """Of all that are given, those that the kernel has."""
    names, given = kernel.arg_names, {**constants, **settings}
    return Variant(
        kernel,
        {name: kind for name, kind in arguments.items() if name in names},
        {name: value for name, value in given.items() if name in names},
        {name: value for name, value in settings.items() if name not in names},
    )


VARIANTS = {
    "loss and gradient, bf16": _loss("bf16", True),
    "loss and gradient, fp16": _loss("fp16", True),
    "loss, bf16": _loss("bf16", False),
    **{
        f"{name}, rank {rank}, {kind}": _dropout(kernel, kind, settings, rank, **more)
        for rank, kind in ((16, "bf16"), (256, "bf16"), (16, "fp32"), (256, "fp32"))
        for name, kernel, settings, more in (
            ("dropout before A", dropout.project, dropout.PROJECT, {}),
            ("gradient of A", dropout.to_downs, dropout.to_downs_blocks(DTYPES[kind]), {}),
            ("gradient through three A", dropout.through_downs, dropout.THROUGH, {"layers": 3}),
        )
    },
    **{
        f"{name}, rank {rank}, bf16{with_dropout}": _mlp(kernel, settings, rank, bool(with_dropout))
        for rank, with_dropout in ((16, ""), (16, ", dropout"), (32, ""), (32, ", dropout"))
        for name, kernel, settings in (
            ("activation", mlp.activate, mlp.ACTIVATE),
            ("gradient through activation", mlp.through_activation, mlp.BACK),
        )
    },
    **{
        f"{name} of {2 * half}, rank {rank}, bf16{with_norms}": _heads(
            kernel, settings, rank, half, bool(with_norms)
        )
        for half, rank, with_norms in ((64, 16, ", norms"), (64, 16, ""), (64, 32, ", norms"), (32, 16, ""))
        for name, kernel, settings in (
            ("heads", heads.turn, heads.TURN),
            ("gradient through heads", heads.turn_back, heads.BACK),
        )
    },
    "dropped and rest, bf16": _dropout(dropout.drop_inputs, "bf16", dropout.DROP, want_rest=True),
    "parts of a gradient": _variant(
        dropout.sum_parts,
        {"parts": "*fp32", "out": "*fp32", "count": "i32", "size": "i32"},
        {"keep": True},
        dropout.SUM,
    ),
    "4 bits to bf16": _dequantize("bf16", tl.bfloat16, 32, nested=True),
    "4 bits to fp32": _dequantize("fp32", tl.bfloat16, 32, nested=True),
    "4 bits of plain scales to bf16": _dequantize("bf16", tl.bfloat16, 32, nested=False),
    "4 bits in blocks of 4096 to bf16": _dequantize("bf16", tl.bfloat16, 2048, nested=True),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        capability, wanted = int(sys.argv[1]), re.compile(sys.argv[2])
        found = {
            f"{name}, sm_{capability}": figures(variant, capability, Path(folder))
            for name, variant in VARIANTS.items()
            if wanted.search(name)
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
