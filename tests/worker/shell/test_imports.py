import gc
import subprocess
import sys

import pytest

from expert_worker.imports import quick_imports


def test_it_works_again_after_an_import_that_failed():
    finders = list(sys.meta_path)
    with pytest.raises(ImportError), quick_imports():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
    assert sys.meta_path == finders
    gc.unfreeze()  # These tests' own objects are to be taken apart at the end.


def test_torch_is_not_scanned_again_and_inductor_is_loaded_only_when_bitsandbytes_compiles():
    code = """
import gc, os, sys
from expert_worker.imports import quick_imports
compiled = []
def compile(function, **options):
    compiled.append(function.__name__)
    return function
with quick_imports():
    import torch
    torch.compile = compile
    import bitsandbytes
print(gc.get_freeze_count())
print(compiled, "torch._inductor.compile_fx" in sys.modules, torch.compile is compile)
weights, moment, none = torch.ones(8), torch.zeros(8), (None, None)
numbers = (0.0, 0.0, 0.9, 0.999, 0.0, 0.0, 1e-8, 0.0, 1, 0.1, 1.0)
ops = sys.modules["bitsandbytes.backends.default.ops"]
numbers += (ops.name2optimizer_id["momentum"],)
ops._optimizer_update_32bit(torch.ones(8), weights, moment, *none, *numbers)
print(compiled, round(weights[0].item(), 6), flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert "pip install" not in done.stderr, "bitsandbytes advises on processors with AVX512-BF16"
    printed = done.stdout.splitlines()
    assert int(printed[-3]) > 100_000
    assert printed[-2] == "[] False True"
    assert printed[-1] == "['_optimizer_update_32bit'] 0.9"
