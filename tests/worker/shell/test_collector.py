import gc
import subprocess
import sys

import pytest

from expert_worker.collector import at_rest


def test_it_works_again_after_an_import_that_failed():
    with pytest.raises(ImportError), at_rest():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
    gc.unfreeze()  # These tests' own objects are to be taken apart at the end.


def test_what_was_imported_is_not_looked_at_again():
    code = """
import gc, os
from expert_worker.collector import at_rest
with at_rest():
    import torch
print(gc.get_freeze_count(), flush=True)
os._exit(0)
"""
    frozen = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert int(frozen.stdout.splitlines()[-1]) > 100_000
