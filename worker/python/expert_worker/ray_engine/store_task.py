"""`python -m expert_worker.ray_engine.store_task --cli PATH`: what a node runs in place of `expert-cli
ray-task` where the nodes share no file system.

It lays the expert's inputs and newest snapshot out below a work folder of this machine, each file at the path
that it has on the driver's, runs `expert-cli ray-task` there, and brings what that saves to the store. The
CLI and the worker know nothing of the store.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from expert_worker.crash import as_expert_error
from expert_worker.errors import ExpertError, Failed, Interrupted, Missing
from expert_worker.lease import LeaseLost, taken_over
from expert_worker.process.parent import exit_when_stdin_closes
from expert_worker.process.stdout import claim_stdout
from expert_worker.ray_engine.object_store import PATIENCE, ObjectStore
from expert_worker.ray_engine.run_folder import BESIDE, FINISHED, files_of
from expert_worker.ray_engine.shelf_inputs import Inputs, Local, fetch_cache, lay_out, share_cache
from expert_worker.ray_engine.stored_run import EVERY, Snapshot, StoredRun, Vanished
from expert_worker.ray_engine.task_folder import shelf_folder, task_folder
from expert_worker.storage import unanswered

_SLOW = 20.0
_TRIES, _PAUSE = 10, 0.2
_LAST_WORDS = ('{"trained"', '{"failed"', '"same_code"')


class Said:
    """Lines to the driver, with the paths of its machine."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self.root = b""

    def say(self, line: dict[str, Any]) -> None:
        self.say_text(json.dumps(line).encode())

    def say_text(self, text: bytes) -> None:
        data = memoryview(self.clean(text) + b"\n")
        with self._lock:
            while data:
                data = data[os.write(self._channel, data) :]

    def warn(self, code: str, message: str, hint: str | None = None) -> None:
        body = {"type": "warning", "code": code, "message": message, "hint": hint}
        self.say({"event": {"time": time.time(), "attempt": 0, "body": body}})

    def fail(self, error: ExpertError) -> None:
        self.say({"failed": error.document()})

    def clean(self, content: bytes) -> bytes:
        return content.replace(self.root, b"") if self.root else content


class Task:
    """One expert's training on this node."""

    def __init__(self, order: dict[str, Any], storage: dict[str, Any], cli: str, said: Said) -> None:
        self._order, self._storage, self._cli, self._said = order, storage, cli, said
        patience = (order["training"] or {}).get("stall_seconds") or PATIENCE
        self._store = ObjectStore(storage["url"], patience)
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping: int | None = None
        self._ending: ExpertError | None = None
        self._over = threading.Event()
        self._is_trained = threading.Event()
        self._has_saved = threading.Event()

    def stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopping = number
        self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def run(self) -> None:
        threading.Thread(target=self._watch_storage, daemon=True).start()
        self._refuse_other_store()
        self._shelf = shelf_folder()
        if self._order["training"] is None:
            last = self._converse(self._order)
            if last is not None:
                self._said.say_text(last)
            return
        self._inputs = Inputs(**self._storage["inputs"])
        training = self._order["training"]
        self._run = StoredRun(self._store, self._inputs.expert)
        holder = f"process {os.getpid()} on {os.uname().nodename if hasattr(os, 'uname') else 'a node'}"
        self._run.take(holder, training["succeeds"])
        self._run.sign()
        self._said.say({"lease": self._run.token})
        threading.Thread(target=self._keep_lease, daemon=True).start()
        with task_folder(self._shelf) as root:
            try:
                self._train(root)
            finally:
                self._over.set()

    def _refuse_other_store(self) -> None:
        self._store.demand_create()
        mark = self._storage["mark"]
        if self._store.read(f"marks/{mark}") != mark.encode():
            raise Missing(
                f"This node does not see what the driver has written to {self._store.url}",
                hint="Every node must reach the same store by this URL: file:// needs a folder that all see.",
                code="not-shared",
            )

    # --- training ---

    def _train(self, root: Path) -> None:
        self._said.root = json.dumps(str(root), ensure_ascii=False)[1:-1].encode()
        self._local = Local(self._inputs, root)
        lay_out(self._store, self._inputs.files, root, self._shelf / "objects")
        self._restore(root)
        fetch_cache(self._store, self._inputs, self._local.cache)
        if self._stopping is not None:
            raise self._interrupted()
        publisher = threading.Thread(target=self._publish_each, name="publisher", daemon=True)
        publisher.start()
        last = self._converse(self._ordered())
        self._is_trained.set()
        self._has_saved.set()
        publisher.join()
        if self._ending is not None:
            raise self._ending
        self._publish()
        share_cache(self._store, self._inputs, self._local.cache)
        self._said.say({"stored": self._run.token})
        self._run.release()
        if last is not None:
            self._said.say_text(last)

    def _restore(self, root: Path) -> None:
        """And makes it this token's: from here on no other task decides what is read."""
        incoming = root / "incoming"
        seed = self._inputs.seed
        # A task that was lost may have begun from it: then the store has it.
        is_new = FINISHED in seed and not self._run.has_held(seed[FINISHED]["sha256"])
        found = None if is_new else self._run.restore(incoming, self._warn_of_damage)
        if found is None and seed:
            lay_out(self._store, seed, incoming)
        beside = incoming / BESIDE
        for path in beside.iterdir() if beside.is_dir() else ():
            place = self._local.expert_dir / path.name
            if not place.exists():
                shutil.move(path, place)
        shutil.rmtree(beside, ignore_errors=True)
        self._local.run.parent.mkdir(parents=True, exist_ok=True)
        if incoming.is_dir():
            incoming.rename(self._local.run)
        else:
            self._local.run.mkdir()
        self._publish()

    def _warn_of_damage(self, text: str) -> None:
        self._said.warn("storage-damaged", text)

    def _ordered(self) -> dict[str, Any]:
        def here(path: str) -> str:
            return str(self._local.place(path))

        training = {**self._order["training"], "succeeds": None}
        options = dict(training["options"])
        options["manifest"] = here(options["manifest"])
        options["allow_path"] = [here(path) for path in options.get("allow_path") or []]
        if options.get("model") and Path(options["model"]).is_absolute():
            options["model"] = here(options["model"])
        return {**self._order, "training": {**training, "options": options}}

    def _converse(self, order: dict[str, Any]) -> bytes | None:
        """Passes on what the CLI says, except its last word."""
        command = [self._cli, "ray-task", "--python", sys.executable]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._stopping is not None:
            self._pass_on(self._stopping)
        last = None
        with self._process, self._process.stdin as orders:
            orders.write(json.dumps(order).encode() + b"\n")
            orders.flush()
            for raw in self._process.stdout:
                line = raw.rstrip(b"\n")
                if line.startswith(tuple(word.encode() for word in _LAST_WORDS)):
                    last = line
                elif not line.startswith(b'{"lease"'):
                    self._said.say_text(line)
                if b'"type":"checkpoint"' in line:
                    self._has_saved.set()
        return last

    # --- the store ---

    def _publish_each(self) -> None:
        """After each checkpoint, while training continues; several that wait are one snapshot."""
        while True:
            self._has_saved.wait()
            self._has_saved.clear()
            if self._is_trained.is_set():
                return
            try:
                self._run.forget(self._publish())
                self._said.say({"kept": self._run.token})
                share_cache(self._store, self._inputs, self._local.cache)
            except Exception as error:
                self._end(as_expert_error(error))
                return

    def _publish(self) -> Snapshot:
        for _ in range(_TRIES):
            try:
                return self._run.publish(files_of(self._local.run), self._local.beside(), self._said.clean)
            except (Vanished, FileNotFoundError):
                # A checkpoint was deleted while it was listed, verified or read.
                time.sleep(_PAUSE)
        raise Failed(
            f"The checkpoints in {self._local.run} change faster than they are copied", code="storage"
        )

    def _keep_lease(self) -> None:
        while not self._over.wait(EVERY):
            # Where the store does not answer, the publisher says so.
            with suppress(ExpertError):
                if not self._run.is_held():
                    self._end(taken_over())
                    return
                self._run.sign()

    def _end(self, error: ExpertError) -> None:
        """Training ends: at once where another task has the expert, else it saves first."""
        self._ending = error
        lost = isinstance(error, LeaseLost)
        self._pass_on(signal.SIGKILL if sys.platform != "win32" and lost else signal.SIGTERM)

    def _watch_storage(self) -> None:
        while not self._over.wait(1.0):
            for place in unanswered(_SLOW):
                self._said.warn(
                    "storage-slow",
                    f"{place} has not answered for {_SLOW:.0f} s",
                    "Training continues meanwhile; what it saves is sent once the store answers.",
                )

    def _interrupted(self) -> Interrupted:
        return Interrupted(
            "Stopped on request before anything was saved", terminated=self._stopping == signal.SIGTERM
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m expert_worker.ray_engine.store_task", description=__doc__
    )
    parser.add_argument("--cli", required=True)
    options = parser.parse_args()
    said = Said(claim_stdout())
    # Without a buffer, which would keep what it reads ahead from the thread that awaits the end.
    with open(0, "rb", buffering=0, closefd=False) as orders:
        order = json.loads(orders.readline())
    storage = order.pop("storage")
    exit_when_stdin_closes()  # The actor holds the other end.
    try:
        task = Task(order, storage, options.cli, said)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, task.stop)
        task.run()
    except BaseException as error:
        known = as_expert_error(error)
        said.fail(known)
        return int(known.exit_code)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
