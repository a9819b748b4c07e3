"""Nodes get tasks in the order in which they are submitted, however long each takes to begin, and a lost
task is submitted again by the right order.
"""

import copy
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import MagicMock

import pytest

pytest.importorskip("ray")

from ray.exceptions import RayError

from expert_worker.ray_engine import driver as module
from expert_worker.ray_engine.driver import Driver, _Task


class _Slow(Driver):
    """Takes longest to begin with the first task; no cluster is there."""

    def __init__(self) -> None:
        self._tasks, self._store = {}, None
        self._starts = ThreadPoolExecutor(1)
        self.begun: list[int] = []
        self.ended = threading.Semaphore(0)

    def _begin(self, task):
        time.sleep(0.02 * (4 - task.number))
        self.begun.append(task.number)
        return True

    def _is_lost(self, task):
        self.ended.release()
        return False


def test_tasks_begin_in_the_order_in_which_they_are_submitted():
    driver = _Slow()
    for number in range(4):
        driver.submit(number, {}, {})
    for _ in range(4):
        assert driver.ended.acquire(timeout=10)
    assert driver.begun == [0, 1, 2, 3]


class _Losing(Driver):
    """Each of its tasks says these lines, and its node is lost."""

    def __init__(self, store: object, lines: list[str]) -> None:
        self._store, self._lines = store, lines
        self.orders: list[dict] = []
        self.said: list[str] = []

    def lose(self, order: dict) -> bool:
        task = _Task(0, {}, copy.deepcopy(order))
        task.actor = MagicMock()
        task.actor.run.options.return_value.remote.side_effect = self._run
        again = self._is_lost(task)
        self.orders.append(task.order)
        return again

    def _run(self, order: str):
        self.orders.append(json.loads(order))
        yield from self._lines
        raise RayError("the node died")

    def _await_node(self, task):
        return "10.0.0.2"

    def write(self, text: str) -> None:
        self.said.append(text)


def test_a_run_that_is_in_the_store_is_said_before_it_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.ray, "get", lambda line: line)
    monkeypatch.setattr(module.ray, "kill", lambda actor: None)
    driver = _Losing(MagicMock(), ['{"stored": 1}', '{"failed": {"exit": 130}}'])
    driver.lose({"training": {"run": {}, "succeeds": None}})
    assert [json.loads(line)["task"]["line"] for line in driver.said[-2:]] == [
        {"stored": 1},
        {"failed": {"exit": 130}},
    ]


CHECKPOINT = '{"event":{"time":0.0,"attempt":1,"body":{"type":"checkpoint","step":4}}}'
PROGRESS = '{"event":{"time":0.0,"attempt":1,"body":{"type":"progress","step":4}}}'


@pytest.mark.parametrize(
    ("stored", "lines", "fresh"),
    [
        (False, [PROGRESS], True),
        (False, [PROGRESS, CHECKPOINT], False),
        (True, [PROGRESS, CHECKPOINT], True),
        (True, [PROGRESS, CHECKPOINT, '{"kept": 1}'], False),
    ],
)
def test_a_fresh_run_that_is_lost_continues_from_what_others_can_read(
    stored: bool, lines: list[str], fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.ray, "get", lambda line: line)
    monkeypatch.setattr(module.ray, "kill", lambda actor: None)
    driver = _Losing(MagicMock() if stored else None, lines)
    assert driver.lose({"training": {"run": {"fresh": True}, "succeeds": None}})
    first, again = driver.orders
    assert first["training"]["run"]["fresh"] and again["training"]["run"]["fresh"] == fresh
    assert not any("kept" in line for line in driver.said)
