"""What the native reader raises, in words."""

from __future__ import annotations

from expert_worker._native import NativeError
from expert_worker.errors import ExpertError, Failed, Interrupted
from expert_worker.pretokenize.broken_rows import bad_rows
from expert_worker.pretokenize.coder import template_endless


def in_words(error: NativeError) -> ExpertError:
    code, message, problems, total = error.args
    if code == "bad_rows":
        return bad_rows(problems, total)
    if code == "template_endless":
        return template_endless(message)
    if code == "interrupted":
        return Interrupted("Stopped while building the token cache; nothing of it is kept")
    return Failed(
        f"The token cache could not be built: {message}", code=f"pretokenize-{code.replace('_', '-')}"
    )
