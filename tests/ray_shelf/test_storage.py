"""A shelf on a cluster whose shared storage turns read-only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk
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
