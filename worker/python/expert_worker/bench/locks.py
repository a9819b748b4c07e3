"""Whether a run's lock is held: by the operating system's word, which ends with the holder."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.platform == "win32":

    def is_held(path: Path) -> bool:
        """A region that another process has locked cannot be read."""
        try:
            path.read_bytes()
        except PermissionError:
            return True
        except OSError:
            return False
        return False

else:
    import fcntl

    def is_held(path: Path) -> bool:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False
