"""The files of an adapter's folder, as peft names them."""

from pathlib import Path

from expert_worker.errors import BadInput

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


def check_adapter(folder: Path) -> None:
    name = next((name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()), None)
    if name is not None:
        raise BadInput(
            f"{folder} is not an adapter: it has no {name}",
            hint="Train first, or name a run's final/ folder or one of its checkpoints with --adapter.",
            code="no-adapter",
        )
