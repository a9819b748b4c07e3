"""safetensors, written tensor by tensor: a checkpoint never holds a second copy of the state in memory."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import load

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def encode(tensors: Mapping[str, torch.Tensor]) -> Iterator[bytes | memoryview]:
    """The file's bytes, in chunks. Wide types first, so that every tensor is aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield _bytes_of(tensors[name])


def _bytes_of(tensor: torch.Tensor) -> bytes | memoryview:
    if tensor.numel() == 0:
        return b""
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def decode(path: Path) -> dict[str, torch.Tensor]:
    """Tensors with separate memory: the file may be deleted or replaced while they are in use."""
    return load(path.read_bytes())
