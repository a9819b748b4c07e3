"""A Ray cluster of several nodes on one machine, each with processes, an address, a session and a work
folder, and a shelf of experts on a tiny base that they share."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from command import manifest_of, rows_of, save_base, surroundings, write_rows

STEPS = 12
EXPERTS = ("ash", "birch")
FOUR = (*EXPERTS, "cedar", "dogwood")
# Addresses of this process alone: two clusters with the same ones would want the same ports.
_NET = f"127.{20 + os.getpid() % 200}.{os.getpid() // 200 % 250}"
UNSHARE = ["unshare", "--mount", *([] if os.name == "nt" or os.geteuid() == 0 else ["--map-root-user"])]
HEAD, SECOND, THIRD, FOURTH = (f"{_NET}.{number}" for number in range(2, 6))
PATIENCE = 300.0
# How soon a node, or the head, counts as lost.
QUICK = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    # Ray gives its workers 15, so that beside other work they would hardly run.
    "RAY_worker_niceness": "0",
}
# One for all: it holds what training has measured of the processor, which decides how it rounds.
HOME = Path(tempfile.gettempdir()) / f"expert-ray-home-{os.getpid()}"


class Shelf:
    def __init__(self, folder: Path, cli: Path, experts: Sequence[str] = EXPERTS, **settings: object) -> None:
        self.folder, self.cli, self.experts = folder, cli, experts
        self.logs = folder
        save_base(folder / "base")
        for number, name in enumerate(experts):
            place = folder / "experts" / name
            place.mkdir(parents=True)
            write_rows(place / "train.jsonl", rows_of(number))
            changes = {"max_steps": STEPS, "save_total_limit": 2, **settings}
            (place / "manifest.json").write_text(json.dumps(manifest_of(name, "../../base", **changes)))

    def start(self, *more: str, device: str = "cpu") -> subprocess.Popen[bytes]:
        command = [self.cli, "train", "--all", "experts", "--device", device, "--no-evaluate", "--json"]
        with (self.logs / "out").open("wb") as out, (self.logs / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, *more], env=environment(), cwd=self.folder, stdout=out, stderr=log
            )

    def finish(self, *more: str, code: int = 0) -> dict[str, Any]:
        return self.result(self.start(*more), code)

    def ended(self, process: subprocess.Popen[bytes]) -> int:
        """The exit code."""
        try:
            return process.wait(600)
        finally:
            process.kill()

    def result(self, process: subprocess.Popen[bytes], code: int = 0) -> dict[str, Any]:
        ended = self.ended(process)
        assert ended == code, f"exit {ended}: {self.said()}"
        found: dict[str, Any] = json.loads((self.logs / "out").read_text())
        return found

    def said(self) -> str:
        return (self.logs / "log").read_text() + (self.logs / "out").read_text()

    def steps(self, expert: str) -> int:
        manifest = json.loads((self.folder / "experts" / expert / "manifest.json").read_text())
        steps: int = manifest["training"]["config"]["max_steps"]
        return steps

    def run(self, expert: str) -> Path:
        return self.folder / "experts" / expert / "weights" / "base"

    def adapter(self, expert: str) -> bytes:
        return (self.run(expert) / "final" / "adapter_model.safetensors").read_bytes()

    def assert_same(self, other: "Shelf") -> None:
        for expert in self.experts:
            assert self.adapter(expert) == other.adapter(expert), f"{expert} differs"

    def checkpoint(self, expert: str) -> int:
        """The newest one's step."""
        found = self.run(expert).glob("checkpoint-*/state.json")
        return max((int(path.parent.name.rpartition("-")[2]) for path in found), default=0)

    def await_checkpoint(self, expert: str, step: int) -> None:
        """Or one after it: old ones are deleted."""
        wait_for(lambda: self.checkpoint(expert) >= step, self.said)

    def events(self, expert: str) -> list[dict[str, Any]]:
        """What the run has on record, each with the number of its attempt."""
        path = self.run(expert) / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def environment(**more: str) -> dict[str, str]:
    return {**surroundings(1), "EXPERT_HOME": str(HOME), **QUICK, "RAY_USAGE_STATS_ENABLED": "0", **more}


class Cluster:
    """Every node is a session of the operating system: all of its processes can be killed or paused."""

    def __init__(self) -> None:
        # Paths of sockets are short.
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = f"{HEAD}:{_free_port()}"

    def add(
        self, ip: str, *, cpus: int = 1, gpus: int = 0, hide: Path | None = None, **variables: str
    ) -> None:
        """The first node is the head. A node's address is its name; it sees nothing in the folder `hide`."""
        place = self.folder / ip.rpartition(".")[2]
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        work, home = place / "work", place / "home"
        work.mkdir()
        # With what the first run has measured of the processor, which the nodes share.
        shutil.copytree(HOME, home) if HOME.exists() else home.mkdir()
        head = ip == HEAD
        port = self.address.rpartition(":")[2]
        role = (
            ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={place / 'ray'}"]
            if head
            else [f"--address={self.address}", f"--temp-dir={place / 'ray'}"]
        )
        command = [
            str(Path(sys.executable).with_name("ray")), "start", *role, f"--node-ip-address={ip}",
            f"--num-cpus={cpus}", f"--num-gpus={gpus}", "--object-store-memory=80000000", "--block",
            "--disable-usage-stats",
        ]  # fmt: skip
        if hide is not None:
            covered = f'mount -t tmpfs none "{hide}" && exec "$@"'
            command = [*UNSHARE, "sh", "-c", covered, "sh", *command]
        with (place / "log").open("wb") as log:
            self._nodes[ip] = subprocess.Popen(
                command,
                env=environment(TMPDIR=str(work), EXPERT_HOME=str(home), **variables),
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for(lambda: b"Ray runtime started" in (place / "log").read_bytes(), (place / "log").read_text)

    def processes(self, ip: str) -> list[int]:
        """Also those that left the node's process group, such as workers."""
        leader = self._nodes[ip].pid
        return [pid for pid, session in _sessions() if session == leader]

    def workers(self, ip: str) -> list[int]:
        """The processes that train."""
        return [pid for pid in self.processes(ip) if b"expert_worker\0train" in _command(pid)]

    def worker(self, ip: str) -> int:
        found = self.workers(ip)
        assert len(found) == 1, [_command(pid) for pid in self.processes(ip)]
        return found[0]

    def lives(self, pid: int) -> bool:
        return pid in [living for living, _ in _sessions()]

    def signal(self, ip: str, number: int) -> None:
        for pid in self.processes(ip):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, ip: str) -> None:
        while self.processes(ip):
            self.signal(ip, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._nodes[ip].wait(0.1)
        del self._nodes[ip]

    def close(self) -> None:
        for ip in list(self._nodes):
            self.kill(ip)
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for(holds: Any, said: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


def _sessions() -> list[tuple[int, int]]:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):  # it may end at any time
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    found.append((int(place.name), int(fields[3])))
    return found


def driver_of(cli: int) -> int:
    """The process that the command talks to."""
    children = b" ".join(path.read_bytes() for path in Path(f"/proc/{cli}/task").glob("*/children"))
    found = [int(pid) for pid in children.split() if b"expert_worker.ray_engine\0" in _command(int(pid))]
    assert len(found) == 1, [_command(int(pid)) for pid in children.split()]
    return found[0]


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _free_port() -> int:
    """Below the ports that Ray gives to its workers."""
    for port in range(6400, 6500):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HEAD, port))
            return port
    raise RuntimeError("no free port")
