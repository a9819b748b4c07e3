"""The worker's Triton kernels, compiled without a card: what their machine code needs, as JSON.

`ahead_of_time.py 80 89`: for these compute capabilities.
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

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from expert_worker.train.fast.kernels.triton_code import loss

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
_USED = re.compile(r"REG:(\d+) STACK:(\d+)")
# An access to global memory, also one that copies into shared memory, and its modifiers.
_ACCESS = re.compile(r"\b(LDG|LDGSTS|STG)((?:\.\w+)*)")
ALIGNED = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class Variant:
    """A kernel as it is launched: the types of its arguments, and its constants."""

    kernel: Any
    arguments: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]
    # Numbers that are multiples of 16 in every base, for which Triton makes other code.
    multiples: frozenset[str] = frozenset()

    def compiled(self, capability: int) -> Any:
        names = self.kernel.arg_names
        types = {**self.arguments, **dict.fromkeys(self.constants, "constexpr")}
        signature = {name: types[name] for name in names}
        values = {(names.index(name),): value for name, value in self.constants.items()}
        aligned = {
            (names.index(name),): ALIGNED
            for name, kind in self.arguments.items()
            if kind.startswith("*") or name in self.multiples
        }
        source = ASTSource(self.kernel, signature, values, aligned)
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(self.options))


def figures(variant: Variant, capability: int, folder: Path) -> dict[str, int]:
    """`narrow`: loads and stores of global memory in the code that move less than 128 bits for a thread."""
    made = variant.compiled(capability)
    path = folder / f"{capability}.cubin"
    path.write_bytes(made.asm["cubin"])
    used = _USED.search(_run("cuobjdump", "--dump-resource-usage", path))
    assert used is not None
    code = _run("nvdisasm", path)
    accesses = [modifiers.split(".") for _, modifiers in _ACCESS.findall(code)]
    wide = sum("128" in modifiers or "256" in modifiers for modifiers in accesses)
    return {
        "registers": int(used[1]),
        "stack": int(used[2]),
        "shared": int(made.metadata.shared),
        "narrow": len(accesses) - wide,
    }


def _run(tool: str, *words: object) -> str:
    command = [str(TOOLS / tool), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _loss(kind: str, want_grad: bool) -> Variant:
    arguments = {"logits": f"*{kind}", "labels": "*i64", "losses": "*fp32", "words": "i32"}
    constants = {"ignored": -100, "want_grad": want_grad, "block": loss.BLOCK}
    return Variant(
        loss.row_losses, arguments, constants, {"num_warps": loss.WARPS}, multiples=frozenset({"words"})
    )


VARIANTS = {
    "loss and gradient, bf16": _loss("bf16", True),
    "loss and gradient, fp16": _loss("fp16", True),
    "loss, bf16": _loss("bf16", False),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        found = {
            f"{name}, sm_{capability}": figures(variant, int(capability), Path(folder))
            for capability in sys.argv[1:]
            for name, variant in VARIANTS.items()
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
