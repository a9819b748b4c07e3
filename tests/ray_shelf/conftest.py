import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(Path(__file__).parent), str(TESTS / "crash"), str(TESTS / "worker" / "train")]

from command import find_cli  # noqa: E402
from nodes import HOME, Cluster, Shelf  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def home() -> Iterator[None]:
    yield
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="module")
def cli() -> Path:
    found = find_cli()
    if found is None:
        pytest.skip("expert-cli is not built: make setup")
    return found


@pytest.fixture(scope="module")
def plain(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """The shelf that this machine trains by itself, with which a cluster's is compared."""
    shelf = Shelf(tmp_path_factory.mktemp("plain"), cli)
    shelf.finish()
    return shelf


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster()
    try:
        yield found
    finally:
        found.close()
