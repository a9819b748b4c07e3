"""The interpreter that expert-cli starts: asks the forge for a child and waits in its place until it ends."""

import array
import ctypes
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

words = sys.argv[1:]
if len(words) < 2 or words[0] != "-m" or words[1:3] == ["expert_worker", "warm"]:
    python = os.environ["ADVERSARY_PYTHON"]
    os.execv(python, [python, *words])
# As a worker does: it ends with the command line that started it.
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.environ.get("EXPERT_PARENT_PID", str(os.getppid())) != str(os.getppid()):
    os._exit(1)
control = socket.socket(socket.AF_UNIX)
control.connect(os.environ["ADVERSARY_FORGE"])
limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)}
request = {
    "words": words,
    "environment": dict(os.environ),
    "folder": str(Path.cwd()),
    "limits": list(limits.items()),
}
rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
control.sendmsg([b"\n"], [rights])
control.sendall(json.dumps(request).encode() + b"\n")
answers = control.makefile()
child = json.loads(answers.readline())["pid"]
# Its standard streams are the child's alone: the asker must see their end.
nothing = os.open(os.devnull, os.O_RDWR)
for place in range(3):
    os.dup2(nothing, place)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(child, number))
code = json.loads(answers.readline() or '{"code": -9}')["code"]
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
