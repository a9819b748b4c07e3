"""Whether a base's config.json fits its weights, before anything of the sizes that it names is allocated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from expert_worker.errors import BadInput

# At most as large as the largest dimension of any tensor.
_DIMENSIONS = ("hidden_size", "n_embd", "vocab_size")
_LAYERS = ("num_hidden_layers", "n_layer")


def check_sizes(config: Any, folder: Path) -> None:
    widest, tensors = 0, 0
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 (not a mapping)
                    tensors += 1
                    widest = max(widest, *file.get_slice(name).get_shape(), 0)
        except (SafetensorError, OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"{path} cannot be read: {(str(error).strip().splitlines() or [type(error).__name__])[0]}",
                hint="The file is damaged or was not fetched to its end: fetch it again.",
                code="base-unreadable",
            ) from None
    # GGUF blocks and other packed weights have other dimensions.
    if getattr(config, "quantization_config", None) is not None:
        return
    for names, most, what in ((_DIMENSIONS, widest, "its largest tensor has"), (_LAYERS, tensors, "it has")):
        for name in names:
            size = getattr(config, name, None)
            if isinstance(size, int) and not isinstance(size, bool) and not 0 < size <= most:
                unit = "as largest dimension" if most is widest else "tensors"
                raise BadInput(
                    f"config.json in {folder} sets {name} to {size:,}, but {what} {most:,} {unit}",
                    hint="Use the config.json that belongs to these weights.",
                    code="base-unreadable",
                )
