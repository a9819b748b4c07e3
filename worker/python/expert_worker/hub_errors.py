"""Why something of the Hugging Face Hub could not be fetched, in words: the Hub answers 401 to nearly every
request that it refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Literal

from expert_worker.errors import Missing

_STATUS = re.compile(r"\d{3} (Client|Server) Error")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
_TRUE = ("1", "ON", "YES", "TRUE")
_SIGN_IN = "run `hf auth login` or set HF_TOKEN"


def not_fetched(
    error: BaseException,
    message: str,
    name: str,
    *,
    hint: str,
    code: str,
    kind: Literal["model", "data set"] = "model",
) -> Missing:
    """`message` says what was not found; the reason follows it. `hint` is for reasons without one."""
    reason, better = _reason(error, name, kind)
    return Missing(f"{message}: {reason}", hint=better or hint, code=code)


def _reason(error: BaseException, name: str, kind: Literal["model", "data set"]) -> tuple[str, str | None]:
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, OfflineModeIsEnabled, RepositoryNotFoundError

    for each in _with_causes(error):
        # A kind of RepositoryNotFoundError.
        if isinstance(each, GatedRepoError):
            page = f"{constants.ENDPOINT}/{name if kind == 'model' else f'datasets/{name}'}"
            return (
                f"{name} is gated",
                f"Accept its terms at {page} with the account of your token; {_SIGN_IN}.",
            )
        if isinstance(each, RepositoryNotFoundError):
            return (
                f"there is no {kind} {name} on the Hub, or it is private",
                f"Check the name; for a private one {_SIGN_IN}.",
            )
        if isinstance(each, OfflineModeIsEnabled):
            variable = offline_variable()
            return f"{variable} is set", f"Unset {variable} to download it."
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not _STATUS.match(line)] or lines
    return (said[0] if said else type(error).__name__), None


def offline_variable() -> str:
    """The variable that forbids downloads, in the order in which the libraries of Hugging Face look."""
    is_set = (name for name in _OFFLINE if os.environ.get(name, "").upper() in _TRUE)
    return next(is_set, _OFFLINE[0])


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """`datasets` and `snapshot_download` raise errors of other kinds from those of the Hub."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__
