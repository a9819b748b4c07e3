"""Processes that a launcher starts, on one machine: torchrun's agents on the loopback, or processes with the
same variables, as Slurm and Kubernetes start them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import SAMPLE, find_cli, manifest_of, rows_of, save_base, surroundings, write_rows
from defaults import ROOT
from safetensors.torch import load_file
from tiny import apart

STEPS = 12
DOCUMENTED = ROOT / "docs" / "several-processes.md"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):  # it may end at any time
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for known in found:  # Grows meanwhile.
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


@dataclass
class Ranks:
    """Processes of one launch. `said` is what each has written, on both streams."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def said(self, number: int) -> str:
        return (self.folder / f"rank-{number}.log").read_text()

    def below(self, number: int, words: bytes) -> list[int]:
        """The processes that this one has started, and theirs, whose command has the words."""
        found = []
        for pid in descendants(self.processes[number].pid):
            with suppress(OSError):  # it may end at any time
                if words in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def kill_node(self, number: int) -> None:
        """As a machine that loses its power."""
        pids = [self.processes[number].pid, *descendants(self.processes[number].pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.processes[number].wait()

    def finish(self) -> list[int]:
        return [process.wait(timeout=900) for process in self.processes]


@dataclass
class Expert:
    folder: Path
    cli: Path
    launches: int = 0
    started: list[Ranks] = field(default_factory=list)

    def environment(self, **more: str) -> dict[str, str]:
        known = surroundings(1) | {"EXPERT_HOME": str(self.folder / "home")}
        kept = {name: value for name, value in known.items() if name not in LAUNCHERS}
        return {name: value for name, value in kept.items() if not name.startswith("SLURM_")} | more

    def words(self, output: str, *more: str) -> list[str]:
        place = self.folder / output
        manifest = self.folder / "manifest.json"
        return [str(self.cli), "train", "-m", str(manifest), "-o", str(place), "--device", "cpu", *more]

    def alone(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self.environment(**environment), capture_output=True, text=True, check=False
        )

    def ranks(
        self,
        output: str,
        *more: str,
        count: int = 2,
        other: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ranks:
        """Processes that a launcher has numbered; `other` is rank 1's command, where it is another."""
        port = free_port()
        launched = self._launch()
        for number in range(count):
            words = other if other and number == 1 else self.words(output, *more)
            variables = {**rank_variables(number, port, count), **(environment or {})}
            self._start(launched, number, words, variables)
        return launched

    def torchrun(
        self, output: str, *more: str, nodes: str = "2", restarts: int = 0, **environment: str
    ) -> Ranks:
        """Two agents with a process each, as on two machines, by the line of docs/several-processes.md."""
        launched, port = self._launch(), free_port()
        shown = re.search(r"^torchrun (.*\\\n.*)$", DOCUMENTED.read_text(), re.MULTILINE)
        assert shown is not None
        line = shlex.split(shown[1].replace("\\\n", ""))
        agent = line[: line.index("expert-cli")]
        for option, value in (
            ("--nnodes", nodes),
            ("--nproc-per-node", "1"),
            ("--rdzv-endpoint", f"127.0.0.1:{port}"),
        ):
            agent[agent.index(option) + 1] = value
        options = line[line.index("-o") + 2 :]
        started = Path(sys.executable).with_name("torchrun")
        launched.words = [
            str(started), "--max-restarts", str(restarts), *agent, *self.words(output, *options, *more)
        ]  # fmt: skip
        launched.variables = environment
        self.start_agent(launched, 0)
        # The first one has the store, so that a test can end the node that has it.
        while not listens(port):
            assert launched.processes[0].poll() is None, launched.said(0)[-3000:]
            time.sleep(0.05)
        self.start_agent(launched, 1)
        return launched

    def start_agent(self, launched: Ranks, number: int) -> None:
        self._start(launched, number, launched.words, launched.variables)

    def _launch(self) -> Ranks:
        self.launches += 1
        folder = self.folder / f"launch-{self.launches}"
        folder.mkdir()
        self.started.append(Ranks(folder))
        return self.started[-1]

    def _start(self, launched: Ranks, number: int, words: list[str], more: dict[str, str]) -> None:
        with (launched.folder / f"rank-{number}.log").open("a") as log:
            process = subprocess.Popen(words, env=self.environment(**more), stdout=log, stderr=log, text=True)
        launched.processes[number:] = [process, *launched.processes[number + 1 :]]


def rank_variables(number: int, port: int, count: int = 2) -> dict[str, str]:
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {"RANK": str(number), "WORLD_SIZE": str(count), "LOCAL_RANK": str(number), **meeting}


@contextmanager
def expert_in(folder: Path) -> Iterator[Expert]:
    cli = find_cli()
    if cli is None:
        pytest.skip("expert-cli is not built: make setup")
    save_base(folder / "base")
    write_rows(folder / "train.jsonl", rows_of())
    manifest = manifest_of("expert-tiny", "./base", SAMPLE, max_steps=STEPS, bf16=False, fp16=False)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    expert = Expert(folder, cli)
    try:
        yield expert
    finally:
        for launched in expert.started:
            for process in launched.processes:
                process.kill()


def adapters_apart(one: Path, other: Path) -> float:
    first, second = (load_file(run / "final" / "adapter_model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    return max(apart(first[name], second[name]) for name in first)


def newest(run: Path) -> int:
    steps = [path.name.removeprefix("checkpoint-") for path in run.glob("checkpoint-*")]
    return max((int(step) for step in steps if step.isdecimal()), default=0)


def await_checkpoint(launched: Ranks, run: Path, step: int) -> None:
    while newest(run) < step:
        assert all(process.poll() is None for process in launched.processes), launched.said(0)[-3000:]
        time.sleep(0.02)
