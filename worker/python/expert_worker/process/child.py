"""What a process of this package needs to start another."""

import os
import sys


def child_environment(**more: str) -> dict[str, str]:
    """The package is found where this process found it, however it was put on the path."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, **more}
