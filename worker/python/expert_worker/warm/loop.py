"""One request a message on the control socket: a stage, its plan, and handles for the child's streams."""

import array
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from expert_worker.errors import Missing
from expert_worker.events.models import Task
from expert_worker.process import bind_to_parent
from expert_worker.warm.fork import hand_over
from expert_worker.warm.ready import Readiness

_LONGEST = 1 << 16
_STREAMS = 3
# The streams, and the run's lock where the stage has a run.
_HANDLES = (_STREAMS, _STREAMS + 1)


@dataclass(frozen=True)
class Request:
    stage: Task
    plan: Path
    # Standard input, output and error of the child.
    streams: list[int]
    run_lock: int | None

    def close(self) -> None:
        self.close_streams()
        if self.run_lock is not None:
            os.close(self.run_lock)

    def close_streams(self) -> None:
        for handle in self.streams:
            os.close(handle)


def serve() -> int:
    """Until the CLI closes its end, by ending or because nothing is left to train."""
    if sys.platform != "linux":
        raise Missing("A warm parent needs Linux", hint="Run the stage without it.")
    bind_to_parent(reads_stdin=True)
    control = _claim_control()
    readiness = Readiness()
    readiness.import_libraries()
    while (request := _receive(control)) is not None:
        readiness.load_base_of(request.stage, request.plan)
        answer = {"pid": hand_over(request, control, readiness)} if readiness.may_fork() else {"pid": None}
        request.close()
        try:
            control.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            break
    return 0


def _claim_control() -> socket.socket:
    """The socket came as standard input, which children must not find there."""
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    return control


def _receive(control: socket.socket) -> Request | None:
    if sys.platform != "linux":
        raise AssertionError("only for Linux")
    handles = array.array("i")
    data, ancillary, _, _ = control.recvmsg(_LONGEST, socket.CMSG_SPACE(max(_HANDLES) * handles.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            handles.frombytes(content[: len(content) - len(content) % handles.itemsize])
    if not data or len(handles) not in _HANDLES:
        return None
    asked = json.loads(data)
    streams, lock = handles[:_STREAMS].tolist(), handles[_STREAMS:].tolist()
    return Request(asked["stage"], Path(asked["plan"]), streams, lock[0] if lock else None)
