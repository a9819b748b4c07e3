"""The files of an adapter's folder, as peft names them."""

from pathlib import Path

from expert_worker.checkpoint.files import sha256
from expert_worker.errors import BadInput
from expert_worker.record_reader import read_json

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
# What a run writes beside its adapter, with the digests of the files.
EXPERT = "expert.json"


def check_adapter(folder: Path, named_by: str = "--adapter") -> None:
    """Its files are there, and are those of the run where that has recorded them. `named_by` is the option or
    the key that names the folder."""
    name = next((name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()), None)
    if name is not None:
        raise BadInput(
            f"{folder} is not an adapter: it has no {name}",
            hint=f"Train first, or name a run's final/ folder or one of its checkpoints with {named_by}.",
            code="no-adapter",
        )
    _refuse_damaged(folder, named_by)


def _refuse_damaged(folder: Path, named_by: str) -> None:
    recorded = (read_json(folder / EXPERT) or {}).get("files")
    for name in (CONFIG, WEIGHTS):
        digest = recorded.get(name) if isinstance(recorded, dict) else None
        wanted = digest.get("sha256") if isinstance(digest, dict) else None
        if not isinstance(wanted, str):
            continue
        if sha256(folder / name) != wanted:
            raise BadInput(
                f"{folder / name} is damaged or was changed: {EXPERT} beside it has another digest",
                hint=f"Restore the file, or train again; {named_by} names a checkpoint of the run.",
                code="adapter-damaged",
            )
