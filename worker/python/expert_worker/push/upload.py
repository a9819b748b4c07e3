"""What would be uploaded, and the upload: one commit in a model repository."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from expert_worker.errors import BadInput, ExpertError, Failed, Missing

_REFUSED = (401, 403)


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


def push(folder: Path, repository: str, *, private: bool) -> str:
    """All files in one commit, in a repository that is made where there is none. Returns the commit's URL."""
    if huggingface_hub.get_token() is None:
        raise Missing(
            "There is no token for the Hugging Face Hub",
            hint="Set HF_TOKEN to a token that may write, or run `hf auth login`.",
            code="no-token",
        )
    operations = [
        CommitOperationAdd(path_in_repo=path.relative_to(folder).as_posix(), path_or_fileobj=path)
        for path in files_of(folder)
    ]
    api = HfApi()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        # A repository that is there keeps its visibility.
        if private and not api.model_info(repository).private:
            raise BadInput(
                f"{repository} is public on the Hub, and --private was asked for",
                hint="Make it private in its settings on the Hub, or name another repository.",
                code="public-repository",
            )
        commit = api.create_commit(
            repository, operations, commit_message="Upload an expert", repo_type="model"
        )
    except ExpertError:
        raise
    except OfflineModeIsEnabled as error:
        raise Missing(
            "HF_HUB_OFFLINE is set, so nothing is uploaded", hint="Unset it to upload.", code="offline"
        ) from error
    except Exception as error:  # The errors of the library's HTTP client change with its version.
        raise _in_words(error, folder, repository) from error
    return str(commit.commit_url)


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
