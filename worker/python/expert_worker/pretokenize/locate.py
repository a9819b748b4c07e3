"""Where the base's tokenizer files are, found without torch and without weights where that is possible."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from expert_worker.events import Events
from expert_worker.hub_errors import not_fetched
from expert_worker.plan import Base, Paths

_WANTED = ["tokenizer*.json", "special_tokens_map.json", "*.jinja", "config.json", "generation_config.json"]
_DOWNLOAD_BUDGET = 600.0
_EMBEDDED = "smollm2-135m-instruct"


def tokenizer_folder(base: Base, paths: Paths, events: Events) -> Path:
    if paths.base is not None:
        return Path(paths.base)
    if base.name != _EMBEDDED:
        return _from_hub(base.name, events)
    converted = Path(paths.home) / "bases" / _EMBEDDED
    if (converted / "config.json").is_file():
        return converted
    from expert_worker.base import locate

    return locate(base, paths, events)


def _from_hub(name: str, events: Events) -> Path:
    from huggingface_hub import snapshot_download

    # A snapshot without a tokenizer was fetched for its config.json, or its download was interrupted.
    with suppress(Exception):
        found = Path(snapshot_download(name, allow_patterns=_WANTED, local_files_only=True))
        if (found / "tokenizer.json").is_file():
            return found
    events.stage("download tokenizer", _DOWNLOAD_BUDGET, name)
    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED))
    except Exception as error:  # The hub's client raises many kinds, all of which mean the same here.
        raise not_fetched(
            error,
            f"The tokenizer of {name} is not in the Hugging Face cache and cannot be downloaded",
            name,
            hint=f"Check the network and HF_TOKEN, give a folder, or use the embedded base {_EMBEDDED}.",
            code="base-missing",
        ) from None
