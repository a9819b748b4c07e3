"""`export --mlx`: the adapter under the names and in the shapes that mlx-lm loads.

There, a module adds `scale * (x @ lora_a) @ lora_b`: both matrices are PEFT's transposed. `m` is the
magnitude of DoRA.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.base import load_base
from expert_worker.base.adapter import load_adapter, read_config
from expert_worker.checkpoint import files
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.export import folders
from expert_worker.export.cards import write_mlx_card
from expert_worker.export.forms import without_form
from expert_worker.file_modes import as_readable_as_others
from expert_worker.plan import Machine, Recipe
from expert_worker.run_record.card import public_name
from expert_worker.run_record.expert import describe_export
from expert_worker.run_record.inference import CHAT_TEMPLATE

MLX_WEIGHTS = "adapters.safetensors"
_PARTS = {"lora_A": "lora_a", "lora_B": "lora_b", "lora_magnitude_vector": "m"}
_MERGED = "Export the whole model with --merge; mlx_lm.convert reads it."
_LAYER = re.compile(r"(?:.*\.)?layers\.\d+\.")


def fill_with_mlx(recipe: Recipe, machine: Machine, events: Events, adapter: Path, folder: Path) -> float:
    config = read_config(adapter)
    check_kind(config)
    if (scaling := recipe.base.rope_scaling) is not None:
        raise BadInput(
            f"Training scaled the base's rotary embedding ({scaling.kind}); mlx-lm would not",
            hint="Export the whole model with --merge; its config.json has the scaling.",
            code="rope-not-mlx",
        )
    loaded = load_base(recipe.base, machine, events, as_stored=True)
    folders.begin(events, "write", detail=MLX_WEIGHTS)
    arrays = mlx_arrays(load_file(adapter / WEIGHTS))
    save_file(arrays, folder / MLX_WEIGHTS, metadata={"format": "mlx"})
    as_readable_as_others(folder)
    layers = int(loaded.config.num_hidden_layers)
    about = mlx_config(config, arrays, public_name(recipe.base.name), layers)
    (folder / CONFIG).write_bytes(files.json_bytes(about))
    folders.copy_companions(recipe, machine.paths, events, loaded, adapter, folder, with_tokenizer=False)
    write_mlx_card(folder, recipe, mlx_command)
    describe_export(folder, adapter)
    folders.begin(events, "compare logits", quiet_budget=300.0)
    model = load_adapter(loaded, adapter)
    original = folders.logits(model)
    _put_back(model, folder)
    found = folders.difference(original, folders.logits(model))
    folders.demand_equal(found, torch.float32, "The adapter for MLX")
    return found


def check_kind(config: Mapping[str, Any]) -> None:
    if config.get("peft_type") != "LORA":
        raise without_form(config, "MLX", ", which loads LoRA, rsLoRA and DoRA", _MERGED, "adapter-not-mlx")
    for name in ("rank_pattern", "alpha_pattern", "modules_to_save"):
        if config.get(name):
            raise BadInput(
                f"{name} of {CONFIG} has no form in MLX, which has one rank and one scale for all modules",
                hint=_MERGED,
                code="adapter-not-mlx",
            )


def mlx_arrays(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    found = {}
    for key, tensor in weights.items():
        module, _, part = key.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".")
        # mlx-lm leaves out what is not in a layer, such as an adapter on the head.
        if part not in _PARTS or not _LAYER.match(module):
            raise BadInput(
                f"The adapter's tensor {key} has no form in MLX",
                hint="Export the whole model with --merge; mlx_lm.convert reads it.",
                code="adapter-not-mlx",
            )
        found[f"{module}.{_PARTS[part]}"] = tensor.T.contiguous() if tensor.dim() == 2 else tensor
    return found


def mlx_config(
    config: Mapping[str, Any], arrays: Mapping[str, torch.Tensor], base: str, layers: int
) -> dict[str, Any]:
    """mlx-lm changes the modules named here, relative to their layer, and loads the arrays into them."""
    rank, alpha = int(config["r"]), float(config["lora_alpha"])
    modules = {_LAYER.sub("", key.rpartition(".")[0]) for key in arrays}
    return {
        "fine_tune_type": "dora" if config.get("use_dora") else "lora",
        "model": base,
        "num_layers": layers,
        "lora_parameters": {
            "rank": rank,
            "scale": alpha / (math.sqrt(rank) if config.get("use_rslora") else rank),
            "dropout": 0.0,
            "keys": sorted(modules),
        },
    }


def _put_back(model: Any, folder: Path) -> None:
    """What MLX would read from the files becomes the model's adapter."""
    arrays, parameters = load_file(folder / MLX_WEIGHTS), files.read_json(folder / CONFIG)["lora_parameters"]
    for name, module in model.named_modules():
        if "default" not in getattr(module, "lora_A", {}):
            continue
        place = name.removeprefix("base_model.model.")
        module.scaling["default"] = parameters["scale"]
        parts = {"lora_a": module.lora_A["default"], "lora_b": module.lora_B["default"]}
        for part, inner in parts.items():
            inner.weight.data = arrays[f"{place}.{part}"].T.to(inner.weight)
        if f"{place}.m" in arrays:
            magnitude = module.lora_magnitude_vector["default"].weight
            magnitude.data = arrays[f"{place}.m"].to(magnitude)


def mlx_command(target: Path, base: str) -> str:
    """The template is text on this command line; a shell reads it from the file."""
    server = shlex.join(["mlx_lm.server", "--model", base, "--adapter-path", str(target)])
    return f'{server} --chat-template "$(cat {shlex.quote(str(target / CHAT_TEMPLATE))})"'
