"""How torch, transformers, peft and bitsandbytes are imported in seconds less."""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def quick_imports() -> Iterator[None]:
    """Without garbage collection, which would scan every object of torch and transformers repeatedly; later
    collections skip the imported objects. And without inductor, see `_CompilesAtFirstCall`."""
    quiet_bitsandbytes()
    gc.disable()
    finder = _CompilesAtFirstCall()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        gc.freeze()
        gc.enable()


def quiet_bitsandbytes() -> None:
    """Before it is imported: at import it advises to install a package that would load code from a hub."""
    logging.getLogger("bitsandbytes").setLevel(logging.CRITICAL)


class _CompilesAtFirstCall(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """bitsandbytes wraps its plain kernels in `torch.compile` at import, which loads all of inductor: a fifth
    of a stage's start. Here each is compiled when it is first called, which few runs ever do."""

    _MODULE = "bitsandbytes.backends.default.ops"

    def __init__(self) -> None:
        self._loader: importlib.abc.Loader | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        self._loader, spec.loader = spec.loader, self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        import torch

        assert self._loader is not None
        module.__loader__ = self._loader
        compile_now = torch.compile
        torch.compile = _compile_later(compile_now)
        try:
            self._loader.exec_module(module)
        finally:
            torch.compile = compile_now


def _compile_later(compile_now: Callable[..., Any]) -> Callable[..., Any]:
    def compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        compiled: list[Callable[..., Any]] = []

        def call(*arguments: Any, **named: Any) -> Any:
            if not compiled:
                compiled.append(compile_now(function, **options))
            return compiled[0](*arguments, **named)

        return call

    return compile
