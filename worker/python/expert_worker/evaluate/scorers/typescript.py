"""TypeScript is judged by its syntax tree, never run: it must say what an accepted answer says.

Where `tsc` is on PATH and works in the sandbox, a right tree is type-checked too, together with the
declarations in its row.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from itertools import chain
from pathlib import Path

from expert_worker.evaluate.answer import LONGEST, amid_prose, bodies, without_thoughts
from expert_worker.evaluate.confinement import Limits
from expert_worker.evaluate.scorers.typescript_tree import normal, parsed
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, failed, unparsed, wrong

MAX_LENGTH = 8_000
# Less than the parent waits for an answer and for a scorer: what takes longer is not the answer's fault.
CHECK_SECONDS = Limits.verdict_seconds / 2
START_SECONDS = Limits.start_seconds / 2
CHECKED = Path("checked.ts")
_DIAGNOSTIC = re.compile(r"\bTS\d+:")
FLAGS = (
    *("--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--pretty", "false"),
    # Of declarations in libraries only: 1.0 s instead of 2.6 s for an answer.
    "--skipLibCheck",
)


class TypescriptScorer:
    def __init__(self) -> None:
        self.tsc = shutil.which("tsc")
        # Why a compiler that is there is not used.
        self.unused = ""
        if self.tsc is not None:
            tried = self._compiled(self.tsc, "export {};\n", START_SECONDS)
            if not tried.correct:
                self.tsc = None
                self.unused = f"are judged without tsc, which does not work here ({tried.reason})"

    def extract(self, text: str) -> str:
        found, whole = bodies(text), without_thoughts(text)[:LONGEST]
        # Backticks may be part of a string.
        candidates = chain((found[0], whole), amid_prose(found[0]), found[1:])
        return next((it for it in candidates if parsed(it) is not None), found[0])

    def judge(self, row: Row, answer: str) -> Verdict:
        verdict = self._judge(row, answer)
        if not verdict.correct:
            return verdict
        if self.tsc is None:
            return verdict
        return self._compiled(
            self.tsc, f"{row.get('context') or ''}\n{answer}\nexport {{}};\n", CHECK_SECONDS
        )

    def judge_reference(self, row: Row) -> Verdict:
        """Without `tsc`, which takes about a second for each row."""
        verdict = self._judge(row, self.extract(str(row["completion"])))
        return replace(verdict, reason=self.unused) if verdict.correct else verdict

    def _judge(self, row: Row, answer: str) -> Verdict:
        reference = parsed(self.extract(str(row["completion"])))
        if reference is None:
            raise BadRow("the reference answer is not TypeScript")
        if not answer:
            return unparsed("no code in the answer")
        if len(answer) > MAX_LENGTH:
            return wrong(f"{len(answer)} characters are too long for an answer")
        tree = parsed(answer)
        if tree is None:
            return unparsed("the code does not parse")
        others = (parsed(self.extract(str(code))) for code in row.get("accepted") or ())
        if all(normal(tree) != normal(accepted) for accepted in (reference, *others)):
            return wrong("the code parses, but says something else")
        return RIGHT

    def result_key(self, row: Row, answer: str) -> object:
        """Its tree in the normal form: nothing is run."""
        del row
        return normal(parsed(answer)) if answer and len(answer) <= MAX_LENGTH else None

    def _compiled(self, tsc: str, code: str, seconds: float) -> Verdict:
        """Wrong only for what the compiler says about the code."""
        CHECKED.write_text(code, encoding="utf-8")
        try:
            done = subprocess.run(
                [tsc, *FLAGS, str(CHECKED)],
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return failed(f"tsc did not finish in {seconds:g} s")
        except OSError as error:
            return failed(f"tsc did not start: {error.strerror}")
        finally:
            CHECKED.unlink(missing_ok=True)
        if done.returncode == 0:
            return RIGHT
        said = f"tsc: {done.stdout or done.stderr or f'exit {done.returncode}'}"
        return wrong(said) if _DIAGNOSTIC.search(done.stdout) else failed(said)
