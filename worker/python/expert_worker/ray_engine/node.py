"""What runs on a node. Ray copies this module there by value, so it imports nothing but the standard library:
a node without the worker, or with another version of it, is refused in words.
"""

import importlib.metadata
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WORKER = "expert-worker"
_STOPS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM}


def environment() -> dict[str, str]:
    """Python, and the packages that the worker requires: their versions decide the bytes of an adapter."""
    found = {"Python": platform.python_version()}
    try:
        required = importlib.metadata.requires(_WORKER) or []
    except importlib.metadata.PackageNotFoundError:
        return found
    for requirement in [_WORKER, *(one for one in required if "extra ==" not in one)]:
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


class Node:
    """A process on a node. Its methods run in two threads, so that `stop` reaches a task that is running."""

    def __init__(self, here: dict[str, Any]) -> None:
        """`here`: the driver's environment, its CLI, and its folder with a file that every node must see; no
        folder where orders name an object store, which `store_task` looks at."""
        self._here = here
        self._process: subprocess.Popen[str] | None = None
        self._stopping: signal.Signals | None = None

    def refusal(self, order: str) -> dict[str, Any] | None:
        """Why this node cannot train the shelf. `order` asks the CLI to compare the code."""
        refused = self._not_shared() or self._other_packages()
        if refused is not None:
            return refused
        last = [json.loads(line) for line in self.run(order)][-1:]
        return next((line["failed"] for line in last if "failed" in line), None)

    def run(self, order: str) -> Iterator[str]:
        """Each line that the CLI says. It ends with this process, for its standard input closes then."""
        refused = self._not_shared() or self._other_packages()
        cli = self._cli()
        if refused is None and cli is None:
            refused = _refused(
                "node-without-cli", "There is no expert-cli on this node", "Install expert-cli on every node."
            )
        if refused is not None or cli is None:
            yield json.dumps({"failed": refused})
            return
        command = [cli, "ray-task", "--python", sys.executable]
        if self._here["folder"] is None:
            command = [sys.executable, "-m", "expert_worker.ray_engine.store_task", "--cli", cli]
        if sys.platform != "win32":
            # Ray's threads block SIGINT, and a program inherits what the thread that starts it blocks.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS.values())
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._stopping is not None:
            self._process.send_signal(self._stopping)
        with self._process, self._process.stdin as orders:
            orders.write(order + "\n")
            orders.flush()
            for line in self._process.stdout:
                yield line.rstrip("\n")

    def name(self) -> str:
        """As the cluster calls the node."""
        import ray

        return str(ray.util.get_node_ip_address())

    def stop(self, word: str) -> None:
        self._stopping = _STOPS[word]
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self._stopping)

    def _cli(self) -> str | None:
        """Beside this Python, where the driver has it, or on the PATH. Another version refuses itself."""
        places = [Path(sys.executable).with_name("expert-cli"), Path(self._here["cli"])]
        found = (str(place) for place in places if os.access(place, os.X_OK) and place.is_file())
        return next(found, None) or shutil.which("expert-cli")

    def _not_shared(self) -> dict[str, Any] | None:
        folder, name, content = self._here["folder"], self._here["mark"], self._here["content"]
        if folder is None:
            return None
        try:
            seen = Path(folder, name).read_text(encoding="utf-8") == content
        except OSError:
            seen = False
        if seen:
            return None
        return _refused(
            "not-shared",
            f"This node does not see the driver's folder {folder}",
            "Mount the folder with the experts at this path on every node.",
        )

    def _other_packages(self) -> dict[str, Any] | None:
        ours, theirs = environment(), self._here["environment"]
        names = [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
        if not names:
            return None
        each = ", ".join(
            f"{name} {ours.get(name, 'absent')} (driver: {theirs.get(name, 'absent')})" for name in names
        )
        return _refused(
            "node-differs",
            f"This node has other packages than the driver: {each}",
            "Install the same packages on every node: requirements/worker.lock pins them.",
        )


def _refused(code: str, message: str, hint: str) -> dict[str, Any]:
    return {"exit": 3, "code": code, "message": message, "hint": hint}
