"""`train --all --engine ray --storage`: nodes with separate work folders that share a store, and do not see
the driver's files."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodes import EXPERTS, HEAD, SECOND, THIRD, UNSHARE, Cluster, Shelf, wait_for
from s3_server import BUCKET, DENIED, SECRET, S3Server, serving

from expert_worker.ray_engine.object_store import ObjectStore
from expert_worker.ray_engine.stored_run import StoredRun

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="each node has an address of the loopback"),
]
LONG = {"max_steps": 400, "save_steps": 20, "evaluation_strategy": "no", "save_total_limit": 3}


@pytest.fixture(scope="module")
def undisturbed(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("undisturbed"), cli, **LONG)
    shelf.finish()
    return shelf


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with serving(monkeypatch) as server:
        yield server


class Stored:
    """A shelf on the driver's machine, and its store."""

    def __init__(self, shelf: Shelf, cluster: Cluster, url: str) -> None:
        self.shelf, self.url = shelf, url
        self.options = ("--engine", "ray", "--ray-address", cluster.address, "--storage", url)

    def checkpoint(self, expert: str) -> int:
        """The newest one's step in the store."""
        found = StoredRun(ObjectStore(self.url), f"{expert}/base").newest()
        names = re.findall(r"checkpoint-(\d+)/state\.json", "\n".join(found.files if found else ()))
        return max(map(int, names), default=0)

    def await_checkpoint(self, expert: str, step: int) -> None:
        wait_for(lambda: self.checkpoint(expert) >= step, self.shelf.said)

    def node_of(self, expert: str) -> str | None:
        found = re.findall(rf"^{expert}: on node (\S+)$", self.shelf.said(), re.MULTILINE)
        return found[-1] if found else None


def stored(cli: Path, cluster: Cluster, folder: Path, url: str, **settings: object) -> Stored:
    folder.mkdir()
    return Stored(Shelf(folder, cli, **settings), cluster, url)


def hidden(tmp_path: Path) -> Path:
    """The driver's files: nodes have an empty folder there."""
    if subprocess.run([*UNSHARE, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the privilege of a mount namespace")
    place = tmp_path / "driver"
    place.mkdir()
    return place


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_nodes_that_share_a_store_alone_train_the_adapters_of_the_plain_shelf(
    plain: Shelf, cluster: Cluster, tmp_path: Path, s3: S3Server, kind: str
) -> None:
    driver = hidden(tmp_path)
    url = f"s3://{BUCKET}/shelf" if kind == "s3" else f"file://{tmp_path}/store"
    cluster.add(HEAD, hide=driver)
    cluster.add(SECOND, hide=driver)
    found = stored(plain.cli, cluster, driver / "shelf", url)
    result = found.shelf.finish(*found.options)
    assert [one["ok"] for one in result["experts"]] == [True, True], found.shelf.said()
    assert {found.node_of(expert) for expert in EXPERTS} == {HEAD, SECOND}, found.shelf.said()
    found.shelf.assert_same(plain)
    for expert in EXPERTS:
        run, theirs = found.shelf.run(expert), plain.run(expert)
        assert names(run) == names(theirs)
        assert (run.parents[1] / "expert.lock").read_bytes() == (
            theirs.parents[1] / "expert.lock"
        ).read_bytes()
        of_nodes = [
            path for path in run.rglob("*") if path.is_file() and b"/home/shelf/" in path.read_bytes()
        ]
        assert of_nodes == []
    left = [path for place in (tmp_path, cluster.folder) for path in place.rglob("*") if path.is_file()]
    assert [path for path in left if SECRET.encode() in path.read_bytes()] == []
    # Nothing is left to do, so neither cluster nor store is needed.
    again = found.shelf.finish("--engine", "ray", "--ray-address", "127.0.0.9:1", "--storage", "s3://gone/x")
    assert [one["finished_before"] for one in again["experts"]] == [True, True]
    # Another machine of the user's gets the results from the store.
    shutil.rmtree(found.shelf.run(EXPERTS[0]))
    again = found.shelf.finish(*found.options)
    assert [one["finished_before"] for one in again["experts"]] == [True, True], found.shelf.said()
    found.shelf.assert_same(plain)


def names(run: Path) -> set[str]:
    found = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    return {re.sub(r"tfevents.*", "tfevents", name) for name in found if not name.endswith("lock")}


def test_an_expert_of_a_killed_node_resumes_from_the_store(
    undisturbed: Shelf, cluster: Cluster, tmp_path: Path, s3: S3Server
) -> None:
    cluster.add(HEAD, cpus=0)
    cluster.add(SECOND)
    found = stored(undisturbed.cli, cluster, tmp_path / "shelf", f"s3://{BUCKET}/shelf", **LONG)
    process = found.shelf.start(*found.options)
    wait_for(lambda: any(found.checkpoint(expert) >= 40 for expert in EXPERTS), found.shelf.said)
    lost = next(expert for expert in EXPERTS if found.checkpoint(expert) >= 40)
    cluster.add(THIRD)
    cluster.kill(SECOND)
    ended = {one["expert"]: one for one in found.shelf.result(process)["experts"]}
    assert ended[lost]["result"]["resumed_from"] >= 40, found.shelf.said()
    assert f"{lost}: node {SECOND} was lost" in found.shelf.said()
    found.shelf.assert_same(undisturbed)


def test_a_node_that_returns_from_a_pause_is_read_by_nobody(
    undisturbed: Shelf, cluster: Cluster, tmp_path: Path, s3: S3Server
) -> None:
    cluster.add(HEAD, cpus=0)
    cluster.add(SECOND)
    expert = EXPERTS[0]
    found = stored(undisturbed.cli, cluster, tmp_path / "shelf", f"s3://{BUCKET}/shelf", **LONG)
    process = found.shelf.start(*found.options, "--only", expert)
    found.await_checkpoint(expert, 40)
    cluster.signal(SECOND, signal.SIGSTOP)
    cluster.add(THIRD)
    wait_for(lambda: found.node_of(expert) == THIRD, found.shelf.said)
    run = StoredRun(ObjectStore(found.url), f"{expert}/base")
    wait_for(lambda: (newest := run.newest()) is not None and newest.token == 2, found.shelf.said)
    cluster.signal(SECOND, signal.SIGCONT)
    assert [one["ok"] for one in found.shelf.result(process)["experts"]] == [True], found.shelf.said()
    assert found.shelf.adapter(expert) == undisturbed.adapter(expert)
    newest = run.newest()
    assert newest is not None and newest.token == 2


def test_stop_reaches_the_node_before_anything_of_the_run_is_in_its_folder(
    cli: Path, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add(HEAD)
    expert = EXPERTS[0]
    found = stored(cli, cluster, tmp_path / "shelf", f"file://{tmp_path}/store", **LONG)
    process = found.shelf.start(*found.options, "--only", expert)
    found.await_checkpoint(expert, 20)
    subprocess.run([cli, "stop", f"experts/{expert}"], cwd=found.shelf.folder, check=True)
    (ended,) = found.shelf.result(process, 1)["experts"]
    assert (ended["exit"], ended["error"]["code"]) == (130, "interrupted"), ended
    saved = found.shelf.checkpoint(expert)
    assert 20 <= saved < LONG["max_steps"]
    (again,) = found.shelf.finish(*found.options, "--only", expert)["experts"]
    assert again["result"]["resumed_from"] == saved, again


def test_a_store_that_refuses_in_mid_run_loses_nothing(
    undisturbed: Shelf, cluster: Cluster, tmp_path: Path, s3: S3Server
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    found = stored(undisturbed.cli, cluster, tmp_path / "shelf", f"s3://{BUCKET}/shelf", **LONG)
    process = found.shelf.start(*found.options)
    for expert in EXPERTS:
        found.await_checkpoint(expert, 40)
    s3.refusal = DENIED
    failed = [one for one in found.shelf.result(process, 1)["experts"] if not one["ok"]]
    assert failed, found.shelf.said()
    for one in failed:
        assert one["exit"] == 4 and found.url in one["error"]["message"], one["error"]
    s3.refusal = None
    again = found.shelf.finish(*found.options)["experts"]
    assert all(one["finished_before"] or one["result"]["resumed_from"] >= 40 for one in again), again
    found.shelf.assert_same(undisturbed)


def test_a_store_that_does_not_answer_for_longer_than_a_lease_gives_the_same_adapters(
    undisturbed: Shelf, cluster: Cluster, tmp_path: Path, s3: S3Server
) -> None:
    cluster.add(HEAD)
    found = stored(undisturbed.cli, cluster, tmp_path / "shelf", f"s3://{BUCKET}/shelf", **LONG)
    process = found.shelf.start(*found.options, "--only", EXPERTS[0])
    found.await_checkpoint(EXPERTS[0], 40)
    with s3.held():
        time.sleep(40)
        assert process.poll() is None, found.shelf.said()
    assert re.search(rf"{found.url} has not answered for 20 s", found.shelf.said()), found.shelf.said()
    assert [one["ok"] for one in found.shelf.result(process)["experts"]] == [True], found.shelf.said()
    assert found.shelf.adapter(EXPERTS[0]) == undisturbed.adapter(EXPERTS[0])
    assert {event["attempt"] for event in found.shelf.events(EXPERTS[0])} == {1}
