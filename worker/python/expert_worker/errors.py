"""Errors that a stage raises when it cannot continue. `__main__` turns each into a `failed` event and an
exit code.
"""

import errno
import os
import re
from pathlib import Path
from typing import Any, ClassVar

from expert_worker.exit import Exit

# No more can be written.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
# Something else than a folder is in the way.
_NO_FOLDER = frozenset({errno.EEXIST, errno.ENOTDIR})


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

    def document(self) -> dict[str, Any]:
        return {
            "exit": int(self.exit_code),
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }


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


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def storage_error(error: OSError, doing: str, elsewhere: str = "with -o") -> ExpertError:
    """An operating system's refusal in our words. `doing` is what was tried, such as "write a checkpoint";
    `elsewhere` says how another folder is named, where only one option does."""
    if _may_not_be_read(error):
        return BadInput(
            f"Cannot read {error.filename}: {error.strerror or error}",
            hint="Make it readable for your user.",
            code="unreadable",
        )
    where = f"{error.filename}: " if error.filename else ""
    message = f"Cannot {doing}: {where}{error.strerror or error}"
    if error.errno in FULL | _REFUSED:
        choice = "" if error.errno == errno.EFBIG else f", or choose another folder {elsewhere}".rstrip()
        return Storage(message, hint=f"{remedy(error)}{choice}.")
    if error.errno in _NO_FOLDER:
        return Storage(message, hint=f"Choose another folder {elsewhere}".rstrip() + ".")
    return Failed(message)


def _may_not_be_read(error: OSError) -> bool:
    """Whether it is of a file that is there and closed to this user, not of a folder to write into."""
    path = error.filename
    is_refused = error.errno in _REFUSED and isinstance(path, str)
    return is_refused and Path(path).is_file() and not os.access(path, os.R_OK)


def system_error(error: BaseException) -> OSError | None:
    """The operating system's refusal in an exception of a native library."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found is not None else None


def remedy(error: OSError) -> str:
    """What makes a write possible that the system refused."""
    if error.errno == errno.EFBIG:
        return "Raise the limit of file sizes (ulimit -f shows it)"
    return "Free some space" if error.errno in FULL else "Make the folder writable"
