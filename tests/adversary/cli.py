"""expert-cli run on a terminal or through pipes, with a time limit, and what of its output is a fault."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adversary.attempt import DOCUMENTED

ROOT = Path(__file__).parents[2]
# What is kept for a base, such as the check of its tokenizer, is paid once where this is set.
SHARED_HOME: Path | None = None
# How much longer than on an idle machine a command may take until "no end" is concluded.
PATIENCE = float(os.environ.get("ADVERSARY_PATIENCE", "4"))
# What no text from outside may bring to a terminal: OSC, a screen cleared or asked, BEL, C1, bidi marks.
RAW = re.compile(
    rb"\x1b\]|\x1b\[2J|\x1b\[6n|\x1b\[\?1049|\x1bP|\x1b_|\x1bc|\x07|\x08"
    rb"|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
)
# Rust's and Python's own words for what nobody foresaw.
UNFORESEEN = re.compile(rb"panicked at|Traceback \(most recent|unforeseen|RUST_BACKTRACE|PanicException")


@dataclass(frozen=True)
class Said:
    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def all(self) -> bytes:
        return self.out + self.err

    @property
    def text(self) -> str:
        return self.all.decode(errors="replace")

    @property
    def document(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


def binary() -> Path:
    named = os.environ.get("EXPERT_CLI")
    return Path(named) if named else ROOT / "target/release/expert-cli"


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "EXPERT_PYTHON") if name in os.environ}
    return {
        "EXPERT_PYTHON": str(ROOT / ".venv/bin/python"),
        **kept,
        "HOME": str(folder),
        "EXPERT_HOME": str(SHARED_HOME or folder / "expert-home"),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TERM": "xterm-256color",
        **(more or {}),
    }


def run(
    *words: object,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
    seconds: float = 60,
    stdin: bytes | None = None,
) -> Said:
    """Through pipes; standard output and error are files, so that nothing waits for a reader."""
    seconds *= PATIENCE
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [str(binary()), *map(str, words)],
            cwd=cwd,
            env=environment(home or cwd, env),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AssertionError(f"no end within {seconds:g} s: {' '.join(map(str, words))}"[:300]) from None
        for file in (out, err):
            file.seek(0)
        return Said(process.returncode, out.read(), err.read(), time.monotonic() - began)


def on_terminal(
    *words: object,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
    seconds: float = 60,
) -> Said:
    seconds *= PATIENCE
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, b"\x28\x00\x78\x00\x00\x00\x00\x00")
    began = time.monotonic()
    process = subprocess.Popen(
        [str(binary()), *map(str, words)],
        cwd=cwd,
        env=environment(home or cwd, env),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(follower)
    shown = b""
    try:
        while True:
            left = began + seconds - time.monotonic()
            if left <= 0:
                os.killpg(process.pid, signal.SIGKILL)
                raise AssertionError(f"no end within {seconds:g} s: {' '.join(map(str, words))}"[:300])
            if select.select([leader], [], [], min(left, 0.2))[0]:
                try:
                    piece = os.read(leader, 1 << 16)
                except OSError:  # The other end is closed.
                    break
                if not piece:
                    break
                shown += piece
            elif process.poll() is not None:
                break
        return Said(process.wait(10), shown, b"", time.monotonic() - began)
    finally:
        os.close(leader)
        if process.poll() is None:
            process.kill()
            process.wait()


def check(said: Said, codes: Iterable[int] = DOCUMENTED, *, data: bool = False) -> Said:
    """A documented end, in words, and nothing raw on the terminal. `data`: standard output is not for one."""
    tail = said.text[-300:]
    assert said.code in set(codes), f"exit {said.code}: {tail}"
    assert said.code in DOCUMENTED, f"exit {said.code}: {tail}"
    found = RAW.search(said.err if data else said.all)
    assert not found, f"raw {found.group()!r} in the output" if found else ""
    found = UNFORESEEN.search(said.all)
    assert not found, (
        f"unforeseen: {said.all[max(0, found.start() - 100) : found.end() + 200]!r}" if found else ""
    )
    if said.code:
        assert said.all.strip(), f"exit {said.code} without a word"
    return said
