"""Errors that a stage raises when it cannot continue. `__main__` turns each into a `failed` event and an
exit code.
"""

import errno
from typing import ClassVar

from expert_worker.exit import Exit

_STORAGE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM})


class ExpertError(Exception):
    """A failure in words for the user: `message` says what and where, `hint` what to do next."""

    exit: ClassVar[Exit] = Exit.FAILED
    default_code: ClassVar[str] = "failed"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.default_code

    @property
    def exit_code(self) -> Exit:
        return self.exit


class Failed(ExpertError):
    """The work itself went wrong: training diverged, a check did not hold."""


class BadInput(ExpertError):
    """Manifest, plan or data must be fixed by the user."""

    exit = Exit.BAD_INPUT
    default_code = "bad-input"


class Missing(ExpertError):
    """This machine lacks something: a package, a device, a base model."""

    exit = Exit.MISSING
    default_code = "missing"


class Storage(ExpertError):
    """A disk is full or a folder cannot be written."""

    exit = Exit.STORAGE
    default_code = "storage"


class Interrupted(ExpertError):
    """The user requested a stop; progress is saved."""

    default_code = "interrupted"

    def __init__(self, message: str, *, terminated: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.terminated = terminated

    @property
    def exit_code(self) -> Exit:
        return Exit.TERMINATED if self.terminated else Exit.INTERRUPTED


def storage_error(error: OSError, doing: str) -> ExpertError:
    """An operating system's refusal in our words; `doing` is what was tried, such as "write a checkpoint"."""
    where = f" {error.filename}" if error.filename else ""
    reason = error.strerror or str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Storage(
            f"Cannot {doing}: {reason}{where}", hint="Free some space or choose another folder with -o."
        )
    if error.errno == errno.EFBIG:
        return Storage(
            f"Cannot {doing}: {reason}{where}", hint="Raise the limit of file sizes (ulimit -f shows it)."
        )
    if error.errno in _STORAGE_ERRNOS:
        return Storage(
            f"Cannot {doing}: {reason}{where}", hint="Make the folder writable or choose another with -o."
        )
    return Failed(f"Cannot {doing}: {reason}{where}")
