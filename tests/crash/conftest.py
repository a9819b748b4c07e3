import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "worker" / "train")]

from trials import Server  # noqa: E402


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Warm for the real stage too: the libraries that it imports late are there before the first fork."""
    server = Server(
        [
            "expert_worker.__main__",
            "expert_test_standin",
            "expert_test_scoring",
            "expert_test_training",
            "peft",
            "transformers.models.qwen3",
            "bitsandbytes",
        ]
    )
    yield server
    server.close()


@pytest.fixture(scope="module")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where there is such a place: a killed process loses nothing that the kernel has taken."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path_factory.mktemp("trials")
        return
    with tempfile.TemporaryDirectory(prefix="expert-crash-", dir=memory) as folder:
        yield Path(folder)
