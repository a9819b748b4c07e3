"""`train --all --engine ray` with real nodes on the loopback."""

import sys

import pytest
from nodes import EXPERTS, HEAD, Cluster, Shelf

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="nodes with addresses 127.0.0.2 and 127.0.0.3"),
]
SECOND = "127.0.0.3"


@pytest.mark.full
def test_two_nodes_train_the_adapters_of_the_plain_shelf(
    plain: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), plain.cli)
    found = shelf.finish("--engine", "ray", "--ray-address", cluster.address)
    assert [one["ok"] for one in found["experts"]] == [True, True], shelf.said()
    nodes = {line.split()[-1] for line in shelf.said().splitlines() if ": on node " in line}
    assert nodes == {HEAD, SECOND}, shelf.said()
    shelf.assert_same(plain)
    for expert in EXPERTS:
        assert (shelf.folder / "experts" / expert / "expert.lock").is_file()
    # Nothing is left to do, so no cluster is needed.
    cluster.kill(SECOND)
    again = shelf.finish("--engine", "ray", "--ray-address", "127.0.0.9:1")
    assert [one["finished_before"] for one in again["experts"]] == [True, True]
