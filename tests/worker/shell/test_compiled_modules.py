"""`doctor` says where Python compiles torch and transformers at every start."""

import importlib.util
import sys
from pathlib import Path

import pytest

from expert_worker import probe


def test_compiled_modules_that_may_not_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert probe._uncompiled() is None, "the next start keeps them"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    assert probe._uncompiled() == {
        "reason": "PYTHONDONTWRITEBYTECODE is set",
        "packages": str(Path(spec.origin).parents[1]),
    }
    kept = Path(importlib.util.cache_from_source(spec.origin))
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert probe._uncompiled() is None
