"""The driver of a shelf: submits a task per expert, passes on what they say, and submits lost ones again."""

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from expert_worker.errors import BadInput, ExpertError, Failed
from expert_worker.ray_engine import node

# A task that is lost this often without a step in between is not the cluster's fault.
_LOSSES = 3
_LOOK_SECONDS = 120.0


@dataclass
class _Task:
    """One expert, on whatever node it is."""

    number: int
    resources: dict[str, Any]
    order: dict[str, Any]
    actor: Any = None
    stopping: str | None = None
    losses: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Driver:
    def __init__(self, folder: Path, mark: str, cli: str, channel: int) -> None:
        """`mark` is a file that a node sees only where it sees the experts' folder."""
        self._channel = channel
        self._writing = threading.Lock()
        self._tasks: dict[int, _Task] = {}
        self._here: dict[str, Any] = {
            "folder": str(folder),
            "mark": mark,
            "content": (folder / mark).read_text(encoding="utf-8"),
            "environment": node.environment(),
            "cli": cli,
        }
        ray.cloudpickle.register_pickle_by_value(node)
        self._node = ray.remote(node.Node)

    def check_nodes(self, order: dict[str, Any]) -> int:
        """How many nodes there are. Every one that could be given a task must be able to train it."""
        nodes = [one for one in ray.nodes() if one["Alive"] and _computes(one["Resources"])]
        if not nodes:
            raise BadInput("No node of the Ray cluster offers a CPU or a GPU", code="no-nodes")
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
                message = f"The node cannot run a task: {_first_line(error)}"
                found = {"exit": 1, "code": "node-lost", "message": message, "hint": "`ray status` shows it."}
            if found is not None:
                refused.append((name, found))
        if refused:
            raise _refusal(refused)
        return len(nodes)

    def _look(self, node_id: str, order: dict[str, Any]) -> Any:
        there = NodeAffinitySchedulingStrategy(node_id, soft=False)
        actor = self._node.options(num_cpus=0, scheduling_strategy=there).remote(self._here)
        return actor.refusal.remote(json.dumps(order))

    def submit(self, number: int, resources: dict[str, Any], order: dict[str, Any]) -> None:
        task = _Task(number, resources, order)
        self._tasks[number] = task
        # In the caller's thread: nodes get tasks in the order in which they are submitted.
        has_begun = self._tried(task, self._begin)
        threading.Thread(
            target=self._follow, args=(task, has_begun), name=f"task-{number}", daemon=True
        ).start()

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

    def _follow(self, task: _Task, has_begun: bool) -> None:
        while has_begun:
            has_begun = self._tried(task, self._is_lost) and self._tried(task, self._begin)

    def _tried(self, task: _Task, step: Callable[[_Task], bool]) -> bool:
        try:
            return step(task)
        except Exception as error:
            self._say(
                task, None, _failed(Failed(f"The driver failed: {_first_line(error)}", code="ray-failed"))
            )
            return False

    def _begin(self, task: _Task) -> bool:
        """False where its end is said."""
        needs = task.resources
        if not any(_fits(needs, one["Resources"]) for one in ray.nodes() if one["Alive"]):
            self._say(task, None, _failed(_no_room(needs)))
            return False
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
            where = task.actor.name.remote()
            name = ray.get(where)
            self._say(task, name, {"remark": f"on node {name}"})
            lines = task.actor.run.options(num_returns="streaming").remote(json.dumps(task.order))
            for reference in lines:
                text = ray.get(reference)
                self._say_text(task, name, text)
                if text.startswith('{"lease"'):
                    # Should this task be lost, the next one need not wait until its lease expires.
                    task.order["training"]["succeeds"] = json.loads(text)["lease"]
                if text.startswith(('{"trained"', '{"failed"')):
                    return False
                if '"type":"progress"' in text:
                    task.losses = 0
        except RayError as error:
            reason = _first_line(error)
        finally:
            with suppress(RayError):
                ray.kill(task.actor)
            task.actor = None
        if task.stopping is not None:
            self._say(task, name, _interrupted(task))
            return False
        return self._lose(task, name, reason)

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
    wanted = {"CPU": needs["cpus"], "GPU": needs["gpus"], "memory": needs["memory"]}
    return all(has.get(name, 0) >= amount for name, amount in wanted.items() if amount)


def _no_room(needs: dict[str, Any]) -> ExpertError:
    gpus = f", {needs['gpus']:g} GPUs" if needs["gpus"] else ""
    memory = f", {needs['memory'] / 1e9:.1f} GB of memory" if needs["memory"] else ""
    return BadInput(
        f"No node of the Ray cluster has what the expert needs: {needs['cpus']} CPUs{gpus}{memory}",
        hint="`ray status` shows what the nodes have; --jobs N gives each expert fewer CPU threads.",
        code="no-room",
    )


def _refusal(refused: list[tuple[str, dict[str, Any]]]) -> ExpertError:
    first = refused[0][1]
    message = "\n".join(f"node {name}: {found['message']}" for name, found in refused)
    kind = next((kind for kind in ExpertError.__subclasses__() if int(kind.exit) == first["exit"]), Failed)
    return kind(message, hint=first["hint"], code=first["code"])


def _failed(error: ExpertError) -> dict[str, Any]:
    return {
        "failed": {
            "exit": int(error.exit_code),
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
        }
    }


def _interrupted(task: _Task) -> dict[str, Any]:
    from expert_worker.errors import Interrupted

    terminated = task.stopping == "terminate"
    return _failed(Interrupted("Stopped on request before anything was saved", terminated=terminated))


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
