"""What would be uploaded, and the upload: one commit in a model repository."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    get_session,
    hf_raise_for_status,
)
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RepositoryNotFoundError

from expert_worker.errors import BadInput, ExpertError, Failed, Missing
from expert_worker.hub_errors import offline_variable

_REFUSED = (401, 403)
_CARD = "README.md"
_EXPERT = "expert.json"
# The names that exports of any form write, except the model card, which people edit, and the expert's
# licence. The modules that write them load torch, so a test compares this list with them.
_WRITTEN = frozenset(
    {
        "LICENSE.base",
        "Modelfile",
        "adapter_config.json",
        "adapter_model.safetensors",
        "adapters.safetensors",
        "added_tokens.json",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "grammar.gbnf",
        "grammar.json",
        "merges.txt",
        "model.safetensors",
        "model.safetensors.index.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
        _EXPERT,
    }
)
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_GGUF = re.compile(r"(?P<model>.+?)(\.(Q8_0|Q4_1))?\.gguf")


@dataclass(frozen=True)
class Uploaded:
    url: str
    """Of the commit."""
    deleted: list[str]


def files_of(folder: Path) -> list[Path]:
    """Every file, in the order of their names. A link might lead to anything, so it is refused."""
    found = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    for path in found:
        if path.is_symlink() or not path.is_file():
            raise BadInput(
                f"{path} is not a plain file", hint="Replace it by the file itself.", code="not-a-file"
            )
    if not found:
        raise BadInput(f"There is nothing to upload in {folder}", code="nothing-to-push")
    return found


def push(folder: Path, repository: str, *, private: bool) -> Uploaded:
    """All files in one commit, in a repository that is made where there is none. What an earlier export left
    there is deleted in the same commit."""
    if huggingface_hub.get_token() is None:
        raise Missing(
            "There is no token for the Hugging Face Hub",
            hint="Set HF_TOKEN to a token that may write, or run `hf auth login`.",
            code="no-token",
        )
    additions = [
        CommitOperationAdd(path_in_repo=path.relative_to(folder).as_posix(), path_or_fileobj=path)
        for path in files_of(folder)
    ]
    api = HfApi()
    with _failures_in_words(folder, repository):
        # Before the repository is made: the commit refuses a card with wrong metadata.
        _check_card(api, folder)
        api.create_repo(repository, private=private, exist_ok=True)
        found = api.model_info(repository)
        # A repository that is there keeps its visibility.
        if private and not found.private:
            raise BadInput(
                f"{repository} is public on the Hub, and --private was asked for",
                hint="Make it private in its settings on the Hub, or name another repository.",
                code="public-repository",
            )
        deleted = _left_by_others(folder, repository, [it.rfilename for it in found.siblings or []])
        commit = api.create_commit(
            repository,
            [*additions, *(CommitOperationDelete(path_in_repo=name) for name in deleted)],
            commit_message="Upload an expert",
            repo_type="model",
            # What is deleted was decided by the files of this commit.
            parent_commit=found.sha,
        )
    return Uploaded(str(commit.commit_url), deleted)


def deleted_by_upload(folder: Path, repository: str) -> list[str] | None:
    """None where the repository cannot be read; without a token nobody is asked."""
    if huggingface_hub.get_token() is None:
        return None
    try:
        found = HfApi().model_info(repository, timeout=10.0)
    except RepositoryNotFoundError:
        return []
    except Exception:  # The errors of the library's HTTP client change with its version.
        return None
    return _left_by_others(folder, repository, [it.rfilename for it in found.siblings or []])


def _left_by_others(folder: Path, repository: str, held: Iterable[str]) -> list[str]:
    """Files of another form, or of an earlier export, change what programs load: transformers applies an
    adapter that is beside merged weights, and takes model.safetensors before shards. Programs that read GGUF
    take the file that their user names: those of other quantizations stay."""
    uploaded = {path.relative_to(folder).as_posix() for path in files_of(folder)}
    held = set(held)
    stays = any(map(_GGUF.fullmatch, uploaded))
    left = sorted(
        name
        for name in held - uploaded
        if _is_written(name, _expert_name(folder)) and not (stays and _GGUF.fullmatch(name))
    )
    if left and _EXPERT not in held:
        raise BadInput(
            f"{repository} holds {', '.join(left)}, and no {_EXPERT} that shows that expert-cli wrote them",
            hint="Name another repository, or delete these files on the Hub first.",
            code="repository-in-use",
        )
    return left


def _is_written(name: str, expert: str | None) -> bool:
    gguf = _GGUF.fullmatch(name)
    if gguf:
        return gguf["model"] in ("base", expert)
    return name in _WRITTEN or _SHARD.fullmatch(name) is not None


def _expert_name(folder: Path) -> str | None:
    try:
        document = json.loads((folder / _EXPERT).read_bytes())
    except (OSError, ValueError):
        return None
    return document.get("name") if isinstance(document, dict) else None


def _check_card(api: HfApi, folder: Path) -> None:
    path = folder / _CARD
    if not path.is_file():
        return
    try:
        refusal = _refusal(api, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        refusal = str(error)
    if refusal is not None:
        raise BadInput(
            f"The Hub refuses the model card {path}: {' '.join(refusal.split())}",
            hint="Change the lines at its beginning, then run the command again.",
            code="bad-card",
        )


def _refusal(api: HfApi, card: str) -> str | None:
    """Of the Hub that is uploaded to. `ModelCard.validate` of huggingface_hub 1.5 asks huggingface.co,
    whatever HF_ENDPOINT says."""
    response = get_session().post(
        f"{api.endpoint}/api/validate-yaml",
        json={"repoType": "model", "content": card},
        headers={"Accept": "text/plain"},
    )
    if response.status_code == 400:
        return response.text
    hf_raise_for_status(response)
    return None


@contextmanager
def _failures_in_words(folder: Path, repository: str) -> Iterator[None]:
    try:
        yield
    except ExpertError:
        raise
    except OfflineModeIsEnabled as error:
        raise Missing(
            f"{offline_variable()} is set, so nothing is uploaded",
            hint="Unset it to upload.",
            code="offline",
        ) from error
    except Exception as error:  # The errors of the library's HTTP client change with its version.
        raise _in_words(error, folder, repository) from error


def _in_words(error: Exception, folder: Path, repository: str) -> ExpertError:
    lines = str(error).strip().splitlines()
    reason = lines[-1] if lines else type(error).__name__
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if status in _REFUSED:
        return BadInput(
            f"The Hub does not let this token write to {repository} (status {status}): {reason}",
            hint="Check the name, and that the token in HF_TOKEN or of `hf auth login` may write there.",
            code="push-refused",
        )
    return Failed(
        f"The upload to {repository} failed: {reason}",
        hint=f"The export is in {folder}; `hf upload {repository} {folder}` uploads it too.",
        code="push-failed",
    )
