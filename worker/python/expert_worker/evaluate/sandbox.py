"""Runs a scorer on model output in a child process that may hang, crash or be hostile.

Each child has a temporary folder and a minimal environment, and confines itself (`confinement`).
Its parent enforces processor time and memory; a child that exceeds a limit is killed, and a new one
continues. An answer is wrong if it ends a child that has judged no other answer, or computes too long.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import expert_worker
from expert_worker.errors import BadInput, Failed
from expert_worker.evaluate.confinement import Confinement, Limits
from expert_worker.evaluate.scorers import ChosenScorer
from expert_worker.evaluate.signals import sent_for_child
from expert_worker.evaluate.verdict import Row, Verdict, failed, is_score, score_of, shortened, wrong

LOOK_SECONDS = 0.1
LONGEST_LINE = 1 << 20
# The child writes one line for each question, and one at its start.
MOST_UNREAD = 4
KILL_ROUNDS = 50
KILL_PAUSE_SECONDS = 0.02
LINUX = sys.platform == "linux"
KEPT_VARIABLES = ("SYSTEMROOT", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
# One thread each: threads add up their processor time, and several would take the cores from the model.
THREAD_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class _Broken(Exception):
    """The child ended or was killed; the message says why."""


class _TooSlow(_Broken):
    """An answer alone is to blame: its time does not include that of earlier ones."""


class _NoVerdict(_TooSlow):
    """No verdict came, and the child did not compute: nobody knows whether the answer is right."""


def judge_all(
    scorer: ChosenScorer | str,
    rows: Sequence[Row],
    texts: Sequence[str | None],
    *,
    limits: Limits | None = None,
    each: Callable[[], None] = lambda: None,
    confined: Callable[[Confinement], None] = lambda _: None,
    with_result_keys: bool = False,
) -> list[Verdict]:
    """A verdict for each text, with its result key if asked for; None stands for the row's reference. `each`
    is called after every one, `confined` with what holds each child."""
    chosen = ChosenScorer(scorer) if isinstance(scorer, str) else scorer
    verdicts: list[Verdict] = []
    while len(verdicts) < len(rows):
        before = len(verdicts)
        try:
            left = _Questions(rows[before:], texts[before:], with_result_keys)
            for verdict in _one_child(chosen, left, limits or Limits(), confined):
                verdicts.append(verdict)
                each()
        except _Broken as broken:
            if len(verdicts) > before and not isinstance(broken, _TooSlow):
                # What earlier answers left in memory may be to blame: a fresh child is asked again.
                continue
            # An answer that breaks an engine is wrong; the expert's own function may be at fault itself.
            is_unknown = chosen.is_own or isinstance(broken, _NoVerdict)
            verdicts.append(failed(str(broken)) if is_unknown else wrong(str(broken)))
            each()
    return verdicts


@dataclass(frozen=True)
class _Questions:
    rows: Sequence[Row]
    texts: Sequence[str | None]
    with_result_keys: bool

    def documents(self) -> Iterator[dict[str, Any]]:
        for row, text in zip(self.rows, self.texts, strict=True):
            token = secrets.token_hex(8)
            yield {"token": token, "row": dict(row), "text": text, "with_result_key": self.with_result_keys}


def _one_child(
    scorer: ChosenScorer,
    questions: _Questions,
    limits: Limits,
    confined: Callable[[Confinement], None],
) -> Iterator[Verdict]:
    with _child() as child:
        lines = _lines(child)
        confined(_confinement(_first(child, lines, scorer, limits), scorer))
        for question in questions.documents():
            _send(child, question)
            yield _verdict(_next(child, lines, limits, _AnswerTime(child, limits)), question["token"])


def _verdict(line: bytes, token: str) -> Verdict:
    """The expert's own function runs in the child, and may write anything in place of it. A line without the
    question's token answers no question: taken as a verdict, it would move all later ones by a row.
    """
    try:
        said = json.loads(line)
        if said["token"] != token:
            raise ValueError(token)
        score, key = score_of(float(said["score"])), said["result_key"]
        if not is_score(score):
            raise ValueError(score)
        return Verdict(
            score,
            # Without halves of surrogate pairs, which no file can hold.
            shortened(str(said["reason"]).encode(errors="replace").decode()),
            bool(said["failed"]),
            None if key is None else str(key),
            bool(said["unparsed"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise _Broken("the engine wrote something else than a verdict") from None


def _first(
    child: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes], scorer: ChosenScorer, limits: Limits
) -> bytes:
    """What the child says to the scorer. A child that ends here would end again for the next answer."""
    try:
        _send(child, scorer.document())
        return _next(child, lines, limits, _StartTime(limits))
    except _Broken:
        return b""


class _StartTime:
    def __init__(self, limits: Limits) -> None:
        self._ends = time.monotonic() + limits.start_seconds

    def check(self) -> None:
        if time.monotonic() > self._ends:
            raise _TooSlow("the scorer did not start")


class _AnswerTime:
    def __init__(self, child: subprocess.Popen[bytes], limits: Limits) -> None:
        self._child, self._limits = child, limits
        self._computed = _processor_seconds(child)
        self._ends = time.monotonic() + limits.verdict_seconds

    def check(self) -> None:
        most = self._limits.answer_seconds
        if _processor_seconds(self._child) - self._computed > most:
            raise _TooSlow(f"the answer took longer than {most:g} s of processor time")
        if time.monotonic() > self._ends:
            raise _NoVerdict(f"no verdict came within {self._limits.verdict_seconds:g} s")


def _confinement(line: bytes, scorer: ChosenScorer) -> Confinement:
    """What the child says first."""
    try:
        said = json.loads(line)
        if "refused" in said:
            raise BadInput(
                f"The scorer cannot be used: {said['refused']}",
                hint="Correct the file that evaluation.scorer names.",
                code="scorer-failed",
            )
        found = said["confinement"]
        parts = {name: None if found[name] is None else str(found[name]) for name in ("files", "network")}
        return Confinement(**parts, missing=tuple(map(str, found["missing"])))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Failed(
            f"The scorer {scorer.title} did not start in its sandbox",
            hint="It may need a package that is missing (`expert-cli doctor`), too much memory or too long.",
            code="scorer-failed",
        ) from None


@contextmanager
def _child() -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryDirectory(prefix="expert-judge-", ignore_cleanup_errors=True) as folder:
        child = subprocess.Popen(
            [sys.executable, "-s", "-P", "-m", "expert_worker.evaluate.judge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=_bare_environment(folder),
            # Identifies what it starts, also once that has lost its parent.
            start_new_session=True,
        )
        try:
            yield child
        finally:
            _kill(child)


def _bare_environment(folder: str) -> dict[str, str]:
    """No secrets, no home: only what Python needs to find its packages."""
    packages = [
        str(Path(expert_worker.__file__).parents[1]),
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
    ]
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join(filter(None, packages)),
        "PYTHONUTF8": "1",
        "PYTHONHASHSEED": "0",
        "EXPERT_PARENT_PID": str(os.getpid()),
        "PATH": os.environ.get("PATH", ""),
        **dict.fromkeys(THREAD_POOLS, "1"),
        **dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), folder),
    }


def _lines(child: subprocess.Popen[bytes]) -> queue.SimpleQueue[bytes]:
    """The child's lines as they come; an empty one at its end, and where it writes what is too long or what
    nobody asked for. Windows cannot poll a pipe, hence a thread."""
    said: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        if child.stdout is not None:
            with suppress(ValueError, OSError):
                while line := child.stdout.readline(LONGEST_LINE):
                    if sent_for_child(line, child.pid):
                        continue
                    said.put(line)
                    if not line.endswith(b"\n") or said.qsize() > MOST_UNREAD:
                        break
        said.put(b"")

    threading.Thread(target=read, daemon=True, name="judge-reader").start()
    return said


def _send(child: subprocess.Popen[bytes], document: Mapping[str, Any]) -> None:
    if child.stdin is None:
        raise _Broken("the scorer takes no questions")
    try:
        child.stdin.write(json.dumps(document).encode() + b"\n")
        child.stdin.flush()
    except OSError:
        raise _Broken("the engine ended while it was asked") from None


def _next(
    child: subprocess.Popen[bytes],
    lines: queue.SimpleQueue[bytes],
    limits: Limits,
    allowed: _StartTime | _AnswerTime,
) -> bytes:
    while True:
        try:
            line = lines.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            line = None
        if line == b"":
            raise _Broken("the answer made the engine crash")
        if line is not None:
            return line
        allowed.check()
        if _resident(child) > limits.resident_bytes:
            raise _Broken("the answer needs too much memory")


def _processor_seconds(child: subprocess.Popen[bytes]) -> float:
    """Of the child alone: a compiler that it starts is limited by the scorer."""
    with suppress(psutil.Error):
        times = psutil.Process(child.pid).cpu_times()
        return float(times.user + times.system)
    return 0.0


def _resident(child: subprocess.Popen[bytes]) -> int:
    """Of the child and whatever it started."""
    with suppress(psutil.Error):
        return sum(map(_memory, [psutil.Process(child.pid), *_started_by(child)]))
    return 0


def _memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        # Pages that processes share count once.
        return int(process.memory_full_info().pss if LINUX else process.memory_info().rss)
    return 0


def _started_by(child: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Every process that the child started and that has not ended. On Linux none can leave its session."""
    found: set[psutil.Process] = set()
    with suppress(psutil.Error):
        found.update(psutil.Process(child.pid).children(recursive=True))
    if sys.platform != "win32":
        for process_id in psutil.pids():
            with suppress(OSError, psutil.Error):
                if process_id != child.pid and os.getsid(process_id) == child.pid:
                    found.add(psutil.Process(process_id))
    return [process for process in found if _is_alive(process)]


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _kill(child: subprocess.Popen[bytes]) -> None:
    """The child and whatever it started."""
    left = _started_by(child)
    child.kill()
    for _ in range(KILL_ROUNDS):
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        # A killed process may have started others before. The child's id stays taken until it is waited for.
        left = _started_by(child)
        if not left:
            break
        time.sleep(KILL_PAUSE_SECONDS)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
