"""TypeScript is judged by its syntax tree, never run: it must say what an accepted answer says.

Where `tsc` is on PATH, a right tree is type-checked too, together with the declarations in its row.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from expert_worker.evaluate.answer import LONGEST, unfenced
from expert_worker.evaluate.scorers.typescript_tree import normal, parsed
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, unparsed, wrong

MAX_LENGTH = 8_000
CHECK_SECONDS = 60
CHECKED = Path("checked.ts")
FLAGS = ("--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--pretty", "false")


class TypescriptScorer:
    def __init__(self) -> None:
        self.tsc = shutil.which("tsc")

    def extract(self, text: str) -> str:
        code, whole = unfenced(text), text[:LONGEST].strip()
        # Backticks may be part of a string.
        return whole if parsed(code) is None and parsed(whole) is not None else code

    def judge(self, row: Row, answer: str) -> Verdict:
        verdict = self._judge(row, answer)
        if not verdict.correct:
            return verdict
        return self._type_checked(f"{row.get('context') or ''}\n{answer}\nexport {{}};\n")

    def judge_reference(self, row: Row) -> Verdict:
        """Without `tsc`, which takes about a second for each row."""
        return self._judge(row, self.extract(str(row["completion"])))

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

    def _type_checked(self, code: str) -> Verdict:
        if self.tsc is None:
            return RIGHT
        CHECKED.write_text(code, encoding="utf-8")
        try:
            done = subprocess.run(
                [self.tsc, *FLAGS, str(CHECKED)],
                capture_output=True,
                text=True,
                timeout=CHECK_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return wrong("tsc did not finish")
        finally:
            CHECKED.unlink(missing_ok=True)
        return RIGHT if done.returncode == 0 else wrong(f"tsc: {done.stdout or done.stderr}")
