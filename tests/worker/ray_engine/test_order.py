"""Nodes get tasks in the order in which they are submitted, however long each takes to begin."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("ray")

from expert_worker.ray_engine.driver import Driver


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
