"""The files of an adapter's folder, as peft names them."""

from pathlib import Path

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


def missing_file(folder: Path) -> str | None:
    """The name of the first file that the folder lacks; None if it is an adapter."""
    return next((name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()), None)
