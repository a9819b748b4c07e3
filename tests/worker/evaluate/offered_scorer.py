"""A scorer that misbehaves on demand. The sandbox's tests copy it into a separate package."""

import asyncio
import ctypes
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from expert_worker.evaluate.verdict import RIGHT, Verdict, wrong


def hang() -> None:
    time.sleep(60)


def spin() -> None:
    while True:
        pass


def wait() -> None:
    """As on a machine that gives other programs its processor for a second."""
    time.sleep(1)


def eat() -> None:
    held = bytearray(600 << 20)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(60)


KEPT: list[bytes] = []


def keep() -> None:
    """As a scorer that keeps what earlier answers needed, and waits, so that its memory is looked at."""
    KEPT.append(b"x" * (120 << 20))
    time.sleep(0.3)


def write() -> None:
    Path("big").write_bytes(bytes(64 << 20))


def files() -> None:
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
    assert len(held) == 200


def fail() -> None:
    raise ValueError("no such thing")


def noise() -> None:
    os.write(1, b"noise\n")


def limit(process_id: int) -> None:
    import resource

    resource.prlimit(process_id, resource.RLIMIT_CORE, (0, 0))


ORPHAN = """
import subprocess, sys
sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
print(subprocess.Popen(sleeper, stdout=subprocess.DEVNULL).pid)
"""


# It stays, because memory is looked at only so often.
EATER = """
import time
held = bytearray(600 << 20)
held[::4096] = b"x" * len(held[::4096])
time.sleep(60)
"""


# Number, error and code of a signal that a program queued.
QUEUED = struct.pack("=iii116x", 0, 0, -1)
NUMBERS = {
    "x86_64": {"tgkill": 234, "rt_sigqueueinfo": 129},
    "aarch64": {"tgkill": 131, "rt_sigqueueinfo": 138},
}


def signal_by(call: str, *arguments: int | bytes) -> None:
    if ctypes.CDLL(None, use_errno=True).syscall(NUMBERS[platform.machine()][call], *arguments) < 0:
        raise OSError(ctypes.get_errno(), call)


def own_file(process_id: int) -> None:
    import fcntl

    fcntl.fcntl(0, fcntl.F_SETOWN, process_id)


def end_group() -> None:
    with subprocess.Popen(["/bin/sleep", "60"], process_group=0) as sleeper:
        os.killpg(sleeper.pid, signal.SIGKILL)


def orphan() -> str:
    """The id of a process whose parent has ended."""
    return subprocess.check_output([sys.executable, "-c", ORPHAN], text=True).strip()


def reach(what: str) -> str:
    """What a hostile answer would try; the error's name, or "done"."""
    tries = {
        "socket": lambda: socket.socket().close(),
        "local socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "accounts": lambda: Path("/etc/passwd").read_bytes(),
        "parent's secrets": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "parent": lambda: os.kill(os.getppid(), 0),
        "parent by its thread": lambda: signal_by("tgkill", os.getppid(), os.getppid(), 0),
        "parent by a queued signal": lambda: signal_by("rt_sigqueueinfo", os.getppid(), 0, QUEUED),
        "parent by a descriptor": lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0),
        "parent by a file's owner": lambda: own_file(os.getppid()),
        "itself": lambda: os.kill(os.getpid(), 0),
        "every process": lambda: os.kill(-1, 0),
        "a program's time limit": lambda: subprocess.run(["/bin/sleep", "60"], timeout=0.1, check=False),
        "a program's group": end_group,
        "parent's priority": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
        "parent's limits": lambda: limit(os.getppid()),
        "parent's processors": lambda: os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0)),
        "session": lambda: subprocess.run(["/bin/true"], check=True, start_new_session=True),
        "datagrams": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        "pair": asyncio.new_event_loop,
        "own limits": lambda: limit(0),
        "other process": lambda: subprocess.run(
            [sys.executable, "-c", "print(open('/etc/passwd').read())"], check=True, capture_output=True
        ),
        "libraries": lambda: Path(os.__file__).read_bytes(),
        "own folder": lambda: Path("note").write_text("mine"),
        "null": lambda: Path(os.devnull).write_text("x"),
    }
    try:
        if what.startswith("read "):
            Path(what.removeprefix("read ")).read_bytes()
        elif what.startswith("list "):
            list(Path(what.removeprefix("list ")).iterdir())
        elif what.startswith("write "):
            Path(what.removeprefix("write ")).write_text("theirs")
        elif what.startswith("truncate "):
            os.truncate(what.removeprefix("truncate "), 0)
        elif what.startswith("empty by reading "):
            os.open(what.removeprefix("empty by reading "), os.O_RDONLY | os.O_TRUNC)
        elif what.startswith("empty by neither "):
            os.open(what.removeprefix("empty by neither "), os.O_ACCMODE | os.O_TRUNC)
        elif what.startswith("open up "):
            Path(what.removeprefix("open up ")).chmod(0o666)
        elif what.startswith("take "):
            os.chown(what.removeprefix("take "), os.getuid(), os.getgid())
        elif what.startswith("date "):
            os.utime(what.removeprefix("date "), (0, 0))
        elif what.startswith("label "):
            os.setxattr(what.removeprefix("label "), "user.note", b"theirs")
        elif what.startswith("remove "):
            Path(what.removeprefix("remove ")).unlink()
        else:
            tries[what]()
    except Exception as error:
        return type(error).__name__
    return "done"


MISDEEDS = {
    "hang": hang,
    "spin": spin,
    "wait": wait,
    "crash": os.abort,
    "eat": eat,
    "keep": keep,
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
        if answer.startswith("try "):
            return wrong(reach(answer.removeprefix("try ")))
        if answer == "where":
            return wrong(str(Path.cwd()))
        if answer.startswith("variable "):
            return wrong(str(os.environ.get(answer.removeprefix("variable "))))
        if answer == "spawn":
            sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
            return wrong(str(subprocess.Popen(sleeper).pid))
        if answer == "orphan":
            return wrong(orphan())
        if answer == "others eat":
            subprocess.run([sys.executable, "-c", EATER], check=False)
        return wrong("no") if answer == "wrong" else RIGHT
