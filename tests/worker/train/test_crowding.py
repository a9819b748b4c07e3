"""The message about a busy machine, from counters of a quiet and of a crowded one."""

import os
import sys
import threading
import time

import pytest

from expert_worker.train import crowding
from expert_worker.train.crowding import CrowdingWatch, Reading, Share, read_threads


def readings(*pairs: tuple[float, float]) -> list[Reading]:
    """One thread; each pair is what it ran and waited in a window of 20 s, after the first reading."""
    found, ran, waited = [Reading(0.0, {"1": (0.0, 0.0)})], 0.0, 0.0
    for window, (more_ran, more_waited) in enumerate(pairs, start=1):
        ran, waited = ran + more_ran, waited + more_waited
        found.append(Reading(20.0 * window, {"1": (ran, waited)}))
    return found


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(crowding, "available_cores", lambda: 2)

    def messages(*pairs: tuple[float, float], threads: int = 2) -> list[str | None]:
        left = readings(*pairs)
        moments = [one.at for one in left]
        monkeypatch.setattr(crowding.time, "monotonic", lambda: moments[-len(left)] if left else moments[-1])
        watch = CrowdingWatch(threads, lambda: left.pop(0))
        return [watch.message(steps_left=30) for _ in moments]

    return messages


def test_a_quiet_machine_is_not_mentioned(crowded) -> None:
    assert crowded((38.0, 0.5), (38.0, 1.0)) == [None, None, None]


def test_a_busy_machine_is_named_once_with_its_share_and_what_it_costs(crowded) -> None:
    quiet, first, again = crowded((14.0, 14.0), (14.0, 14.0))
    assert quiet is None and again is None
    assert first is not None
    assert first.startswith(
        "this machine is busy: training gets 0.7 of 2 cores and waits for one 50% of the time"
    )
    assert first.endswith("the remaining steps take 10 min")  # 20 s for a step, and 30 steps.


def test_a_training_with_one_thread_on_two_cores_is_judged_by_one_core(crowded) -> None:
    assert crowded((19.0, 6.0), threads=1) == [None, None]
    _, busy = crowded((10.0, 10.0), threads=1)
    assert busy.startswith("this machine is busy: training gets 0.5 of 1 core and waits for one 50%")


def test_it_is_named_again_after_a_quiet_time(crowded) -> None:
    found = crowded((14.0, 14.0), (39.0, 0.0), (14.0, 14.0))
    assert [message is not None for message in found] == [False, True, False, True]


def test_threads_that_wait_for_each_other_say_nothing_of_others(crowded) -> None:
    assert crowded((14.0, 14.0), threads=4) == [None, None]


def test_a_thread_that_began_meanwhile_counts_from_its_start() -> None:
    before = Reading(0.0, {"1": (5.0, 1.0), "gone": (9.0, 9.0)})
    share = Share.between(before, Reading(10.0, {"1": (9.0, 1.0), "2": (4.0, 8.0)}))
    assert (share.cores, share.fraction) == (0.8, 0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts this")
def test_the_counters_of_this_process_grow_with_its_work() -> None:
    before = read_threads()
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    now = read_threads()
    assert before is not None and now is not None
    ours = str(threading.get_native_id())
    assert now.threads[ours][0] - before.threads[ours][0] >= 0.19
    assert now.threads.keys() <= {name.name for name in os.scandir("/proc/self/task")}
