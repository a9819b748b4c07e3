"""A shelf on a cluster whose shared storage is slow, fills up or turns read-only."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk, SlowStorage
from nodes import EXPERTS, HEAD, SECOND, Cluster, Shelf

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="each node has an address of the loopback"),
]
LONG = {"max_steps": 400, "save_steps": 20, "evaluation_strategy": "no", "save_total_limit": 3}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.close()


@pytest.fixture(scope="module")
def undisturbed(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("undisturbed"), cli, **LONG)
    shelf.finish()
    return shelf


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_storage_that_fails_in_mid_run_loses_nothing(
    undisturbed: Shelf, cluster: Cluster, disk: Disk, tmp_path: Path, how: str
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(disk.folder / "shared", undisturbed.cli, **LONG)
    shelf.logs = tmp_path
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address)
    for expert in EXPERTS:
        shelf.await_checkpoint(expert, 40)
    disk.fail(how)
    found = shelf.result(process, 1)["experts"]
    failed = [one for one in found if not one["ok"]]
    assert failed, shelf.said()
    for one in failed:
        assert one["exit"] == 4 and str(disk.folder) in one["error"]["message"], one["error"]
    disk.repair()
    again = shelf.finish("--engine", "ray", "--ray-address", cluster.address)["experts"]
    assert all(one["finished_before"] or one["result"]["resumed_from"] >= 40 for one in again), again
    shelf.assert_same(undisturbed)


def test_storage_that_is_slow_and_hangs_for_longer_than_a_lease_gives_the_same_adapters(
    undisturbed: Shelf, cluster: Cluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    slow = SlowStorage(tmp_path)
    for node in (HEAD, SECOND):
        cluster.add(node, **slow.variables)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), undisturbed.cli, **LONG)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address)
    for expert in EXPERTS:
        shelf.await_checkpoint(expert, 40)
    assert all(slow.slows(cluster.worker(node)) for node in (HEAD, SECOND))
    with slow.held():
        time.sleep(40)
        assert process.poll() is None, shelf.said()
    waited = re.findall(r"(\S+) has not answered for 20 s", shelf.said())
    assert any(str(shelf.folder) in path for path in waited), shelf.said()
    found = shelf.result(process)["experts"]
    assert all(one["ok"] for one in found), shelf.said()
    shelf.assert_same(undisturbed)
    for expert in EXPERTS:
        assert {event["attempt"] for event in shelf.events(expert)} == {1}


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_storage_that_fails_before_the_start_is_named(
    plain: Shelf, cluster: Cluster, disk: Disk, tmp_path: Path, how: str
) -> None:
    cluster.add(HEAD)
    shelf = Shelf(disk.folder / "shared", plain.cli)
    shelf.logs = tmp_path
    disk.fail(how)
    found = shelf.finish("--engine", "ray", "--ray-address", cluster.address, code=4)
    assert "cannot write to experts: " in found["error"]["message"], found["error"]
    disk.repair()
    shelf.finish("--engine", "ray", "--ray-address", cluster.address)
    shelf.assert_same(plain)
