"""Who may read the files of a folder."""

import os
from pathlib import Path


def as_readable_as_others(folder: Path) -> None:
    """safetensors writes files that only their owner reads; all others are as the user's umask has them. That
    is read from a new file: to ask for the umask sets it, for every thread, until it is set back."""
    if os.name != "posix":
        return
    probe = folder / f".mode.{os.getpid()}"
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        mode = os.fstat(handle).st_mode & 0o777
    finally:
        os.close(handle)
        probe.unlink()
    for path in sorted(folder.glob("*.safetensors")):
        path.chmod(mode)
