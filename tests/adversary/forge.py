"""A process that has the worker's libraries loaded and forks a child for each call.

Starting Python with torch costs seconds of processor time; most attacks are on what comes after. A child
either calls a function of these tests (`call`), or it is the worker of an `expert-cli` whose EXPERT_PYTHON is
`interpreter.py` beside this file (`-m expert_worker ...`). Each child has its own limits.
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    "peft",
    "bitsandbytes",
    "datasets",
    "transformers.models.qwen3",
    "transformers.models.llama",
    "transformers.models.auto.tokenization_auto",
    "expert_worker.__main__",
    "expert_worker.train.stage",
    "expert_worker.pretokenize.stage",
    "expert_worker.evaluate.stage",
    "expert_worker.export.stage",
    "expert_worker.generate.stage",
    "expert_worker.report",
)
GIB = 1 << 30
LONGEST = 1 << 16
# Begins a line of a child's output that holds the failure of its stage.
FAILED = "the stage failed: "


@dataclass(frozen=True)
class Ended:
    """How a call's child ended. `code` is negative where a signal ended it; `value` is what it returned."""

    code: int
    value: Any
    said: str
    seconds: float
    timed_out: bool = False


class Forge:
    """Started at the first use; one for the whole of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "forge.socket"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """For an expert-cli whose workers are this process's children."""
        self._start()
        return {
            "EXPERT_PYTHON": str(self._interpreter()),
            "ADVERSARY_FORGE": str(self._path),
            "ADVERSARY_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT / "worker/python"),
        }

    def _interpreter(self) -> Path:
        """`interpreter.py` run by this Python by its path: a `python3` of PATH may be slow to start."""
        path = self._folder / "interpreter"
        if not path.exists():
            text = Path(__file__).with_name("interpreter.py").read_text()
            path.write_text(f"#!{sys.executable} -IS\n{text}")
            path.chmod(0o755)
        return path

    def call(
        self,
        target: str,
        *arguments: Any,
        seconds: float = 60,
        memory: int = 4 * GIB,
        until: Callable[[], bool] = lambda: False,
    ) -> Ended:
        """`module:function` in a child, with JSON for arguments and result. It is killed when the time is
        over or `until` holds."""
        self._start()
        with tempfile.TemporaryFile() as said, socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self._path))
            request = {"call": target, "arguments": arguments, "memory": memory}
            nothing = os.open(os.devnull, os.O_RDWR)
            send(control, request, [nothing, said.fileno(), said.fileno()])
            os.close(nothing)
            began = time.monotonic()
            answer = _lines(control, began + seconds, until)
            spent = time.monotonic() - began
            said.seek(0)
            text = said.read().decode(errors="replace")
        if answer is None:
            return Ended(-signal.SIGKILL, None, text, spent, timed_out=True)
        return Ended(answer["code"], answer.get("value"), text, spent)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _start(self) -> None:
        running = os.environ.get("ADVERSARY_FORGE")
        if running:  # One that was started by hand: `python -m tests.adversary.forge SOCKET --stay`.
            self._path = Path(running)
        if self._process is not None or running:
            return
        paths = [ROOT / "worker/python", ROOT, ROOT / "tests/crash", ROOT / "tests/worker"]
        paths.append(ROOT / "tests/worker/train")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        command = [sys.executable, "-m", "tests.adversary.forge", str(self._path)]
        self._process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout and self._process.stdout.readline() == b"ready\n"


def send(control: socket.socket, request: dict[str, Any], handles: list[int]) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))
    control.sendmsg([b"\n"], [rights])
    control.sendall(json.dumps(request).encode() + b"\n")


def _lines(control: socket.socket, deadline: float, until: Callable[[], bool]) -> dict[str, Any] | None:
    text = b""
    control.settimeout(0.02)
    while not text.endswith(b"\n"):
        try:
            piece = control.recv(LONGEST)
        except TimeoutError:
            if time.monotonic() > deadline or until():
                return None
            continue
        if not piece:
            return {"code": -signal.SIGKILL}
        text += piece
    answer: dict[str, Any] = json.loads(text)
    return answer


# --- the process itself ----------------------------------------------------------------------------------


def serve(path: str, *, stays: bool = False) -> NoReturn:
    import ctypes

    if not stays:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # It ends with whoever started it.
    import torch

    torch.set_num_threads(1)
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for the middle ones.
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(16)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            control, _ = listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                _attend(control)
            control.close()


def _attend(control: socket.socket) -> NoReturn:
    """Forks the child, kills it where the asker goes away, and says how it ended."""
    handles = array.array("i")
    _, rights, _, _ = control.recvmsg(1, socket.CMSG_SPACE(3 * handles.itemsize))
    for _, _, content in rights:
        handles.frombytes(content)
    data = b""
    while not data.endswith(b"\n"):
        data += control.recv(LONGEST)
    request = json.loads(data)
    read_end, returned = os.pipe()
    middle = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        control.close()
        _live(request, handles.tolist(), returned, middle)
    os.close(returned)
    for handle in handles:
        os.close(handle)
    watched = os.pidfd_open(child)
    if "call" not in request:
        control.sendall(json.dumps({"pid": child}).encode() + b"\n")
    value = b""
    waiting = {control.fileno(), watched, read_end}
    while watched in waiting:
        ready, _, _ = select.select(list(waiting), [], [])
        if read_end in ready:
            piece = os.read(read_end, LONGEST)
            value += piece
            if not piece:
                waiting.discard(read_end)
        if control.fileno() in ready and not control.recv(LONGEST):
            os.kill(child, signal.SIGKILL)
            waiting.discard(control.fileno())
        if watched in ready:
            waiting.discard(watched)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    while read_end in waiting and (piece := os.read(read_end, LONGEST)):
        value += piece
    try:
        answer = {"code": code, "value": json.loads(value) if value else None}
        control.sendall(json.dumps(answer).encode() + b"\n")
    finally:
        os._exit(0)


def _live(request: dict[str, Any], streams: list[int], returned: int, middle: int) -> NoReturn:
    code = 97
    try:
        for place, handle in enumerate(streams):
            os.dup2(handle, place)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if "call" in request:
            resource.setrlimit(resource.RLIMIT_DATA, (request["memory"],) * 2)
            module, _, name = request["call"].partition(":")
            found = getattr(importlib.import_module(module), name)(*request["arguments"])
            _write(returned, json.dumps(found).encode())
            code = 0
        else:
            os.close(returned)
            resource.setrlimit(resource.RLIMIT_DATA, (8 * GIB,) * 2)
            code = _be_worker(request, middle)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _be_worker(request: dict[str, Any], middle: int) -> int:
    """As `python -m MODULE ARGUMENTS` with the asker's surroundings."""
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    if "EXPERT_PARENT_PID" in os.environ:
        os.environ["EXPERT_PARENT_PID"] = str(middle)
    os.chdir(request["folder"])
    for kind, limits in request["limits"]:
        resource.setrlimit(kind, tuple(limits))
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    _, module, *rest = request["words"]
    if module == "expert_worker":
        from expert_worker.__main__ import main

        return int(main(rest))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    serve(sys.argv[1], stays="--stay" in sys.argv)
