"""How the suite runs: slow files first, long tests only when asked for; the cost of each file at the end."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from expert_worker.imports import quick_imports

# A slow file that starts last keeps one core busy while the other has nothing left. The table at the end of a
# run shows when the order is out of date. Files on one line share a costly fixture: one process runs them.
# The tests of a file that ends in `::` share little, and each may go to another process.
SLOW_FIRST = [line.split() for line in (Path(__file__).parent / "slow_first.txt").read_text().splitlines()]
# What a test may need that no set-up can give. With EXPERT_NO_SKIPS=1, which CI sets, any other test that is
# skipped on Linux fails: a program or a right is missing, and nobody would see that a part is not tested.
MAY_SKIP = (
    "needs instructions",
    "this transformers has",
    "this system has version",
    "no result is kept",
    "/real/datasets/",
)
SLOWEST = 25
CPU_SECONDS = "cpu_seconds"


@pytest.fixture(scope="session")
def every_trial() -> bool:
    """`EXPERT_FULL_TESTS=1` runs every trial; without it a sample that fits into `make test`."""
    return os.environ.get("EXPERT_FULL_TESTS") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    with quick_imports():
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """For `--dist loadfile`: whole files, or all the files of a line, to one process."""
    from xdist.scheduler import LoadFileScheduling

    together = {file: " ".join(line) for line in SLOW_FIRST for file in line}

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = _file(nodeid)
            return nodeid if f"{file}::" in together else together.get(file, file)

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    listed = [file.removesuffix("::") for line in SLOW_FIRST for file in line]
    ranks = {file: rank for rank, file in enumerate(listed)}
    items.sort(key=lambda item: ranks.get(_file(item.nodeid), len(ranks)))
    if os.environ.get("EXPERT_FULL_TESTS") == "1":
        return
    long = [item for item in items if item.get_closest_marker("full")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    if _SPENT not in item.config.stash:
        item.config.stash[_SPENT] = _cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and os.environ.get("EXPERT_NO_SKIPS") == "1":
        reason = report.longrepr[2]
        if sys.platform == "linux" and not any(words in reason for words in MAY_SKIP):
            report.outcome, report.longrepr = (
                "failed",
                f"EXPERT_NO_SKIPS=1, and this test is skipped: {reason}",
            )
    if call.when == "teardown" and _SPENT in item.config.stash:
        # Asked once a test: with many threads the answer takes milliseconds.
        before, item.config.stash[_SPENT] = item.config.stash[_SPENT], _cpu_seconds()
        report.user_properties.append((CPU_SECONDS, item.config.stash[_SPENT] - before))
    return report


_SPENT = pytest.StashKey[float]()


def _cpu_seconds() -> float:
    """Of this process and of all that it started. On a busy machine only this can be compared."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system + _of_living_children("self")


def _of_living_children(process: str) -> float:
    """Those that have ended count in their parent. Zero where there is no /proc."""
    seconds = 0.0
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it may end at any time
            for child in listed.read_text().split():
                # After the name, which may contain anything, comes the third field.
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
                seconds += _of_living_children(child)
    return seconds


class Costs:
    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._cpu: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        for name, value in report.user_properties:
            if name == CPU_SECONDS and report.when == "teardown":
                self._cpu[report.nodeid] += float(str(value))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if len(self._seconds) < 2:
            return
        files: dict[str, list[str]] = defaultdict(list)
        for test in self._seconds:
            files[_file(test)].append(test)
        write = terminalreporter.write_line
        terminalreporter.section(f"slowest {SLOWEST} tests")
        self._table(write, {test: [test] for test in self._seconds}, SLOWEST)
        terminalreporter.section("files")
        self._table(write, files, len(files))
        write(f"{sum(self._seconds.values()):9.1f} {sum(self._cpu.values()):9.1f}  all")

    def _table(self, write: Any, groups: dict[str, list[str]], most: int) -> None:
        write("  seconds   CPU sec")
        costs = [
            (sum(self._seconds[test] for test in tests), sum(self._cpu[test] for test in tests), name)
            for name, tests in groups.items()
        ]
        for seconds, cpu, name in sorted(costs, reverse=True)[:most]:
            write(f"{seconds:9.1f} {cpu:9.1f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    # Those that run tests for another process only hand their reports on.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs())


def _file(nodeid: str) -> str:
    return nodeid.split("::", maxsplit=1)[0].removeprefix("tests/")
