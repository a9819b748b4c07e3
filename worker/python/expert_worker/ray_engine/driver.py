"""The driver of a shelf: submits a task per expert, passes on what they say, and submits lost ones again."""

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from expert_worker.crash import as_expert_error
from expert_worker.errors import BadInput, ExpertError, Failed, Interrupted, first_line
from expert_worker.ray_engine import node
from expert_worker.ray_engine.shelf_store import ShelfStore

# A task that is lost this often without a step in between is not the cluster's fault.
_LOSSES = 3
_LOOK_SECONDS = 120.0
_ROUND = 2.0
_ENDS = ('{"trained"', '{"failed"')
# Of a task with a store: a snapshot there has a checkpoint of its run.
_KEPT = '{"kept"'


@dataclass
class _Task:
    """One expert, on whatever node it is."""

    number: int
    resources: dict[str, Any]
    order: dict[str, Any]
    # Its paths, where a store has what it is trained of.
    paths: dict[str, Any] | None = None
    # The token by which the task has left its run in the store.
    stored: int | None = None
    actor: Any = None
    stopping: str | None = None
    losses: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Driver:
    def __init__(self, shelf: dict[str, Any], store: ShelfStore | None, channel: int) -> None:
        """`shelf` is the first line of the CLI: its `mark` is a file that a node sees only where it sees the
        experts' folder. Without a folder the nodes share `store`."""
        self._channel = channel
        self._store = store
        self._node_seconds = float(shelf["node_seconds"])
        self._writing = threading.Lock()
        self._tasks: dict[int, _Task] = {}
        self._starts = ThreadPoolExecutor(1, thread_name_prefix="starts")
        # What each node that was there at the start has; some may be lost by now.
        self._known: list[dict[str, float]] = []
        folder, mark = shelf["folder"], shelf["mark"]
        self._here: dict[str, Any] = {
            "folder": folder,
            "mark": mark,
            "content": Path(folder, mark).read_text(encoding="utf-8") if folder else None,
            "environment": node.environment(),
            "cli": shelf["cli"],
        }
        ray.cloudpickle.register_pickle_by_value(node)
        self._node = ray.remote(node.Node)

    def check_nodes(self, order: dict[str, Any]) -> dict[str, Any]:
        """How many nodes there are, and those with a GPU. Every one that could be given a task must be able
        to train it."""
        nodes = [one for one in ray.nodes() if one["Alive"] and _computes(one["Resources"])]
        self._known = [one["Resources"] for one in nodes]
        if not nodes:
            raise BadInput("No node of the Ray cluster offers a CPU or a GPU", code="no-nodes")
        if self._store is not None:
            order = self._store.for_check(order)
        looks = [(_name(one), self._look(one["NodeID"], order)) for one in nodes]
        refused = []
        for name, look in looks:
            try:
                found = ray.get(look, timeout=_LOOK_SECONDS)
            except GetTimeoutError:
                message = f"The node does not answer within {_LOOK_SECONDS:.0f} s"
                found = {
                    "exit": 1,
                    "code": "node-silent",
                    "message": message,
                    "hint": "`ray status` shows it.",
                }
            except RayError as error:
                message = f"The node cannot run a task: {first_line(error)}"
                found = {"exit": 1, "code": "node-lost", "message": message, "hint": "`ray status` shows it."}
            if found is not None:
                refused.append((name, found))
        if refused:
            raise _refusal(refused)
        with_gpu = [_name(one) for one in nodes if one["Resources"].get("GPU", 0) > 0]
        return {"nodes": len(nodes), "with_gpu": with_gpu}

    def _look(self, node_id: str, order: dict[str, Any]) -> Any:
        there = NodeAffinitySchedulingStrategy(node_id, soft=False)
        actor = self._node.options(num_cpus=0, scheduling_strategy=there).remote(self._here)
        return actor.refusal.remote(json.dumps(order))

    def submit(
        self,
        number: int,
        resources: dict[str, Any],
        order: dict[str, Any],
        paths: dict[str, Any] | None = None,
    ) -> None:
        task = _Task(number, resources, order, paths)
        self._tasks[number] = task
        self._starts.submit(self._start, task)

    def _start(self, task: _Task) -> None:
        """One task after the other: nodes get them in the order in which they are submitted."""
        if self._tried(task, self._send) and self._tried(task, self._begin):
            threading.Thread(
                target=self._follow, args=(task,), name=f"task-{task.number}", daemon=True
            ).start()

    def _send(self, task: _Task) -> bool:
        """What the task needs, to the store of nodes that share no folder."""
        if self._store is not None and task.paths is not None and task.stopping is None:
            self._say(task, None, {"remark": "sends its data to the store"})
            task.order = self._store.for_task(task.order, task.paths)
        return True

    def stop(self, number: int, word: str) -> None:
        """The task saves and ends; one that waits for a node ends at once."""
        task = self._tasks.get(number)
        if task is None:
            return
        with task.lock:
            task.stopping = word
            if task.actor is not None:
                task.actor.stop.remote(word)
        threading.Thread(target=self._end_if_waiting, args=(task,), daemon=True).start()

    def _end_if_waiting(self, task: _Task) -> None:
        """An actor that no node has room for never answers."""
        with suppress(RayError):
            actor = task.actor
            if actor is not None and not ray.wait([actor.name.remote()], timeout=5.0)[0]:
                ray.kill(actor)

    def _follow(self, task: _Task) -> None:
        while self._tried(task, self._is_lost) and self._tried(task, self._begin):
            pass

    def _tried(self, task: _Task, step: Callable[[_Task], bool]) -> bool:
        try:
            return step(task)
        except ExpertError as error:
            self._say(task, None, _failed(error))
        except Exception as error:
            self._say(
                task, None, _failed(Failed(f"The driver failed: {first_line(error)}", code="ray-failed"))
            )
        return False

    def _begin(self, task: _Task) -> bool:
        """False where its end is said. Ray has a task wait that no node has room for."""
        needs = task.resources
        if not self._has_room(needs) and not any(_fits(needs, known) for known in self._known):
            raise _no_room(needs)
        task.stored = None
        with task.lock:
            if task.stopping is None:
                task.actor = self._node.options(
                    num_cpus=needs["cpus"],
                    num_gpus=needs["gpus"],
                    memory=needs["memory"] or None,
                    max_concurrency=2,
                ).remote(self._here)
        if task.actor is None:
            self._say(task, None, _interrupted(task))
            return False
        return True

    def _is_lost(self, task: _Task) -> bool:
        """Until it ends: whether it is to be submitted again."""
        name = None
        reason = "it ended without a last word"
        self._say(task, None, {"remark": "waits for a node"})
        try:
            name = self._await_node(task)
            self._say(task, name, {"remark": f"on node {name}"})
            lines = task.actor.run.options(num_returns="streaming").remote(json.dumps(task.order))
            for reference in lines:
                text = ray.get(reference)
                if text.startswith('{"stored"'):
                    task.stored = json.loads(text)["stored"]
                if self._has_kept(text):
                    # Should this task be lost, the next one continues what `--fresh` began.
                    task.order["training"]["run"]["fresh"] = False
                if text.startswith(_KEPT):
                    continue
                if text.startswith(_ENDS):
                    self._bring(task, fails=text.startswith('{"trained"'))
                self._say_text(task, name, text)
                if text.startswith('{"lease"'):
                    # Should this task be lost, the next one need not wait until its lease expires.
                    task.order["training"]["succeeds"] = json.loads(text)["lease"]
                if text.startswith(_ENDS):
                    return False
                if '"type":"progress"' in text:
                    task.losses = 0
        except RayError as error:
            reason = first_line(error)
        finally:
            with suppress(RayError):
                ray.kill(task.actor)
            task.actor = None
        if task.stopping is not None:
            self._say(task, name, _interrupted(task))
            return False
        return self._lose(task, name, reason)

    def _has_kept(self, text: str) -> bool:
        """Whether another node finds a checkpoint of this run from now on."""
        return text.startswith(_KEPT) or (self._store is None and '"type":"checkpoint"' in text)

    def _await_node(self, task: _Task) -> str:
        """The node that Ray gives the task to. Where the last one with room is lost, a new one may come."""
        where = task.actor.name.remote()
        since = None
        while not ray.wait([where], timeout=_ROUND)[0]:
            if self._has_room(task.resources):
                since = None
            elif since is None:
                since = time.monotonic()
                remark = (
                    f"no node that is left has {_words(task.resources)}: waits for one, "
                    f"{self._node_seconds:g} s at most (EXPERT_NODE_TIMEOUT)"
                )
                self._say(task, None, {"lost": remark})
            elif time.monotonic() - since >= self._node_seconds:
                raise _no_node_came(task.resources, self._node_seconds)
        return str(ray.get(where))

    def _has_room(self, needs: dict[str, Any]) -> bool:
        return any(_fits(needs, one["Resources"]) for one in ray.nodes() if one["Alive"])

    def _bring(self, task: _Task, *, fails: bool) -> None:
        """What the task has left in the store. A task that failed has its own reason to report."""
        if self._store is None or task.stored is None or task.paths is None:
            return
        try:
            self._store.bring(task.paths, task.stored, lambda text: self._say(task, None, {"remark": text}))
        except (ExpertError, OSError) as error:
            if fails:
                raise as_expert_error(error) from error

    def _lose(self, task: _Task, name: str | None, reason: str) -> bool:
        """Whether it is tried again."""
        task.losses += 1
        where = f"node {name}" if name else "a node"
        if task.losses >= _LOSSES:
            message = (
                f"The task was lost {_LOSSES} times without a step in between, at last with {where}: {reason}"
            )
            hint = "The logs of Ray on that node say more; another start resumes from the newest checkpoint."
            self._say(task, None, _failed(Failed(message, hint=hint, code="task-lost")))
            return False
        self._say(
            task,
            None,
            {"lost": f"{where} was lost ({reason}): the expert resumes from its newest checkpoint"},
        )
        return True

    def _say(self, task: _Task, name: str | None, line: dict[str, Any]) -> None:
        self._say_text(task, name, json.dumps(line))

    def _say_text(self, task: _Task, name: str | None, line: str) -> None:
        self.write(f'{{"task":{{"id":{task.number},"node":{json.dumps(name)},"line":{line}}}}}')

    def write(self, text: str) -> None:
        data = memoryview(text.encode() + b"\n")
        with self._writing:
            while data:
                data = data[os.write(self._channel, data) :]


def _computes(resources: dict[str, float]) -> bool:
    return resources.get("CPU", 0) > 0 or resources.get("GPU", 0) > 0


def _name(one: dict[str, Any]) -> str:
    return str(one["NodeManagerAddress"])


def _fits(needs: dict[str, Any], has: dict[str, float]) -> bool:
    asked = {"CPU": needs["cpus"], "GPU": needs["gpus"], "memory": needs["memory"]}
    return all(has.get(name, 0) >= amount for name, amount in asked.items() if amount)


def _words(needs: dict[str, Any]) -> str:
    gpus = f", {needs['gpus']:g} GPUs" if needs["gpus"] else ""
    memory = f", {needs['memory'] / 1e9:.1f} GB of memory" if needs["memory"] else ""
    return f"{needs['cpus']} CPUs{gpus}{memory}"


def _no_room(needs: dict[str, Any]) -> ExpertError:
    return BadInput(
        f"No node of the Ray cluster has what the expert needs: {_words(needs)}",
        hint="`ray status` shows what the nodes have; --jobs N gives each expert fewer CPU threads.",
        code="no-room",
    )


def _no_node_came(needs: dict[str, Any], seconds: float) -> ExpertError:
    return Failed(
        f"Every node that has {_words(needs)} was lost, and no other came within {seconds:g} s",
        hint="Start a node with `ray start --address HOST:PORT` and repeat the command, which resumes each "
        "expert from its newest checkpoint. EXPERT_NODE_TIMEOUT sets how long it waits.",
        code="nodes-lost",
    )


def _refusal(refused: list[tuple[str, dict[str, Any]]]) -> ExpertError:
    first = refused[0][1]
    message = "\n".join(f"node {name}: {found['message']}" for name, found in refused)
    kind = next((kind for kind in ExpertError.__subclasses__() if int(kind.exit) == first["exit"]), Failed)
    return kind(message, hint=first["hint"], code=first["code"])


def _failed(error: ExpertError) -> dict[str, Any]:
    return {"failed": error.document()}


def _interrupted(task: _Task) -> dict[str, Any]:
    terminated = task.stopping == "terminate"
    return _failed(Interrupted("Stopped on request before anything was saved", terminated=terminated))
