"""Locates the base model: a folder, the Hub's cache, a download, or the embedded one."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from expert_worker.base.embedded import NAME, embedded
from expert_worker.checkpoint.files import sha256
from expert_worker.errors import BadInput, Missing
from expert_worker.events import Events
from expert_worker.hub_errors import not_fetched
from expert_worker.plan import Base, Paths

# Merged exports, which hold these weights, name their licence: it is in the model card and in a text of it.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "README.md", "LICENSE*"]
# Second copies of the weights, which transformers does not read.
COPY = "consolidated*.safetensors"
_COPIES = [COPY, "*/*.safetensors"]
_DOWNLOAD_BUDGET = 1800.0
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"


def locate(base: Base, paths: Paths, events: Events) -> Path:
    """A folder with config, tokenizer and safetensors; its digest is checked where one is demanded."""
    of_hub = paths.base is None and base.name != NAME
    if paths.base is not None:
        folder = Path(paths.base)
    elif of_hub:
        folder = _from_hub(base.name, events)
    else:
        folder = embedded(Path(paths.home), events)
    _check(folder, base.name, of_hub=of_hub)
    if base.sha256:
        _check_digest(folder, base.sha256, events)
    return folder


def weight_files(folder: Path) -> list[Path]:
    """Those that transformers reads; every safetensors file where it would find none."""
    return _named(folder) or sorted(folder.glob("*.safetensors"))


def _has_all_weights(folder: Path) -> bool:
    """As the CLI decides it before training (contract/src/resolve/tensors.rs)."""
    named = _named(folder)
    if named:
        return all(path.is_file() for path in named)
    # Shards may arrive before their index.
    return not weight_files(folder) and _is_pickled(folder)


def _named(folder: Path) -> list[Path]:
    """`model.safetensors`, or else the files of its index, as transformers looks for them. A folder may hold
    a second copy of its weights, such as the `consolidated.safetensors` of Mistral's."""
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    try:
        index = json.loads((folder / _INDEX).read_bytes())
        names = {str(name) for name in index["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    # Other files are never opened: the index may come from anyone.
    plain = all(name.endswith(".safetensors") and not set(name) & set("/\\:") for name in names)
    return sorted(folder / name for name in names) if plain else []


def _is_pickled(folder: Path) -> bool:
    return any(folder.glob("*.bin")) or any(folder.glob("*.pt"))


def _weights_digest(files: Sequence[Path]) -> str:
    """SHA-256 of the one weight file; of several, that of their digests in the order of their names."""
    digests = [_sha256(path) for path in files]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _check(folder: Path, name: str, *, of_hub: bool) -> None:
    if not (folder / "config.json").is_file():
        raise Missing(
            f"The base model {name} is not at {folder}: there is no config.json",
            hint="Name the folder that holds config.json and the safetensors files: as base_model in the "
            "manifest, or for serve with --base.",
            code="base-missing",
        )
    files = weight_files(folder)
    absent = [path.name for path in files if not path.is_file()]
    if files and not absent:
        return
    again = "Check the network and start again, which continues the download"
    copy = "Put the whole model into this folder, or choose another base."
    if absent:
        raise Missing(
            f"The base model in {folder} lacks {len(absent)} of its {len(files)} weight files, "
            f"such as {absent[0]}",
            hint=f"{again}, or choose another base." if of_hub else copy,
            code="base-missing",
        )
    if _is_pickled(folder):
        raise BadInput(
            f"The base model in {folder} is pickled (.bin), which can run code when it is read",
            hint="Use a safetensors version of it; the Hub has one for nearly every model.",
            code="base-pickled",
        )
    raise Missing(
        f"The base model in {folder} has no safetensors files",
        # Pickled weights are not downloaded. Without a network the Hub's client returns what it has.
        hint=f"{again}. If {name} has only pickled weights (.bin), choose another base." if of_hub else copy,
        code="base-missing",
    )


def _check_digest(folder: Path, wanted: str, events: Events) -> None:
    events.stage("verify base", 300.0, folder.name)
    files, every = weight_files(folder), sorted(folder.glob("*.safetensors"))
    found = _weights_digest(files)
    # Earlier versions digested a second copy of the weights too.
    if found != wanted.lower() and (every == files or _weights_digest(every) != wanted.lower()):
        raise BadInput(
            f"The base model in {folder} is not the one the manifest asks for: "
            f"its weights have sha256 {found}, the manifest says {wanted}",
            hint="Fetch the right weights, or correct base_model's sha256: that of the files that are read, "
            "without copies such as consolidated.safetensors.",
            code="base-digest",
        )


def _from_hub(name: str, events: Events) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    fetch = partial(snapshot_download, name, allow_patterns=_WANTED, ignore_patterns=_COPIES)
    # A snapshot without all weights was fetched for its tokenizer, or its download was interrupted.
    with suppress(LocalEntryNotFoundError, OSError):
        found = Path(fetch(local_files_only=True))
        if _has_all_weights(found):
            return found
    events.stage("download base", _DOWNLOAD_BUDGET, name)
    try:
        return Path(fetch())
    except Exception as error:  # The hub's client raises many kinds, all of which mean the same here.
        raise not_fetched(
            error,
            f"The base model {name} is neither in the Hugging Face cache nor can it be downloaded",
            name,
            hint=f"Check the network and HF_TOKEN, give a folder, or use the embedded base {NAME}.",
            code="base-missing",
        ) from None


def _sha256(path: Path) -> str:
    """A process asks for its base several times: gigabytes that have not changed are read once."""
    now = path.stat()
    return _sha256_of(path, (now.st_size, now.st_mtime_ns, now.st_ino))


@cache
def _sha256_of(path: Path, _stamp: tuple[int, int, int]) -> str:
    return sha256(path)
