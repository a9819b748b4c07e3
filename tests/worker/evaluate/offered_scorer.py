"""A scorer that misbehaves on demand. The sandbox's tests copy it into a package of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

from expert_worker.evaluate.verdict import RIGHT, Verdict, wrong


def hang() -> None:
    time.sleep(60)


def eat() -> None:
    held = bytearray(600 << 20)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(60)


def write() -> None:
    Path("big").write_bytes(bytes(64 << 20))


def files() -> None:
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
    assert len(held) == 200


def fail() -> None:
    raise ValueError("no such thing")


def noise() -> None:
    os.write(1, b"noise\n")


MISDEEDS = {
    "hang": hang,
    "crash": os.abort,
    "eat": eat,
    "write": write,
    "files": files,
    "raise": fail,
    "print": noise,
}


class Offered:
    def extract(self, text: str) -> str:
        return text

    def judge(self, row: object, answer: str) -> Verdict:
        if answer in MISDEEDS:
            MISDEEDS[answer]()
        if answer == "where":
            return wrong(str(Path.cwd()))
        if answer == "secret":
            return wrong(str(os.environ.get("EXPERT_SECRET_TOKEN")))
        if answer == "spawn":
            sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
            return wrong(str(subprocess.Popen(sleeper).pid))
        return wrong("no") if answer == "wrong" else RIGHT
