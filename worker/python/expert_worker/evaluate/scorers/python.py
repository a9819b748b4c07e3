"""The expert's own scorer: a function in a Python file beside the manifest.

It runs in the sandbox: what it returns is checked, and an error names its line in the user's file.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from expert_worker.evaluate.verdict import Row, ScorerError, Verdict, failed, is_score, shortened

_MODULE = "expert_scorer"
RETURNS = "true or false, a number from 0 to 1, (number, note) or {'score': number, 'note': note}"


class PythonScorer:
    def __init__(self, file: str, function: str, source: str) -> None:
        self.file, self.name = file, function
        self._function, self._takes_row = self._loaded(source)

    def extract(self, text: str) -> str:
        return text.strip()

    def judge(self, row: Row, answer: str) -> Verdict:
        expected = str(row["completion"])
        try:
            given = (answer, expected, dict(row)) if self._takes_row else (answer, expected)
            return self._verdict(self._function(*given))
        except (Exception, SystemExit) as error:
            return failed(self._where(error))

    def _loaded(self, source: str) -> tuple[Callable[..., Any], bool]:
        module = ModuleType(_MODULE)
        module.__file__ = self.file
        # Dataclasses and annotations look their module up by name.
        sys.modules[_MODULE] = module
        try:
            # The user's own file, in the process that holds untrusted answers too.
            exec(compile(source.encode(), self.file, "exec"), module.__dict__)  # noqa: S102
        except (Exception, SystemExit) as error:
            raise ScorerError(self._where(error)) from None
        function = getattr(module, self.name, None)
        if not callable(function):
            raise ScorerError(f"{self.file} has no function {self.name}")
        return function, self._takes_row_of(function)

    def _takes_row_of(self, function: Callable[..., Any]) -> bool:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return True
        for count in (3, 2):
            try:
                signature.bind(*range(count))
            except TypeError:
                continue
            return count == 3
        raise ScorerError(
            f"{self._line_of(function)}: {self.name}{signature} does not take (answer, expected, row)"
        )

    def _line_of(self, function: Callable[..., Any]) -> str:
        code = getattr(function, "__code__", None)
        return f"{self.file}:{code.co_firstlineno}" if code else self.file

    def _verdict(self, value: Any) -> Verdict:
        score, note = value, None
        if isinstance(value, tuple | list) and len(value) == 2:
            score, note = value
        elif isinstance(value, dict) and value.keys() <= {"score", "note"} and "score" in value:
            score, note = value["score"], value.get("note")
        # A number of NumPy.
        score = score.item() if hasattr(score, "item") else score
        if not isinstance(score, int | float) or not is_score(score):
            shown = shortened(repr(value))[:80]
            return failed(
                f"{self._line_of(self._function)}: {self.name} returned {shown}; it must return {RETURNS}"
            )
        reason = "" if note is None else shortened(str(note))
        return Verdict(float(score), reason or ("" if score >= 1 else f"scored {score:g}"))

    def _where(self, error: BaseException) -> str:
        """The error with the last line of the user's file that led to it."""
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error, SyntaxError) and error.filename == self.file:
            return f"{self.file}:{error.lineno}: {type(error).__name__}: {error.msg}"
        if isinstance(error, ModuleNotFoundError):
            said += "; the file may import installed packages, but no other file of the expert's folder"
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self.file]
        return f"{self.file}:{lines[-1]}: {said}" if lines else f"{self.file}: {said}"
