"""The programs that a run compares, in the order of tables and pictures."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec

_ASK = "import importlib.metadata as found, sys; print(found.version(sys.argv[1]))"


@dataclass(frozen=True)
class Program:
    """`key` is its name in a result file, and that of its package."""

    key: str
    label: str
    script: str
    # Distinguishable with colour blindness.
    colour: str

    def python(self, named: str | None) -> str | None:
        """The Python to run it with: the named one, or this one if the package is installed here."""
        return named or (sys.executable if find_spec(self.key) else None)

    def refused_by(self, python: str) -> str | None:
        """Why this Python cannot run it."""
        try:
            done = subprocess.run(
                [python, "-c", _ASK, self.key], capture_output=True, text=True, check=False, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{python} does not run: {error}"
        return f"{python} has no {self.label}: name a Python that has" if done.returncode else None


OURS = Program("ours", "expert-cli", "ours.py", "#1a7f4b")
TRL = Program("trl", "TRL", "with_trl.py", "#4a90d9")
UNSLOTH = Program("unsloth", "Unsloth", "with_unsloth.py", "#c2570c")
AXOLOTL = Program("axolotl", "Axolotl", "with_axolotl.py", "#8e5bb5")
# What they need of torch and transformers is not what we need, nor what the other needs.
SEPARATE = (UNSLOTH, AXOLOTL)
OTHERS = (TRL, *SEPARATE)
