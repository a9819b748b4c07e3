"""Runs a program in this process, which has loaded the stand-in driver: `preloaded.py PROGRAM [ARGUMENTS]`.

The programs that it starts do not load the driver: ptxas, which Triton starts, does not run with it. A
program that COMPUTED names has values (computed.py).
"""

import os
import runpy
import sys
from contextlib import ExitStack
from pathlib import Path

os.environ.pop("LD_PRELOAD", None)
place = str(Path(__file__).parent)
values = ExitStack()
# In place of this program's folder.
sys.path[0] = str(Path(sys.argv[1]).parent)
del sys.argv[0]
if Path(sys.argv[0]).name in os.environ.get("COMPUTED", "").split():
    sys.path.append(place)
    from computed import Computed

    values.enter_context(Computed())
with values:
    runpy.run_path(sys.argv[0], run_name="__main__")
