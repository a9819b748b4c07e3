import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "worker" / "train")]

from card_trial import CLI  # noqa: E402
from stand_in import Driver, Missing, build  # noqa: E402


@pytest.fixture(scope="session")
def driver() -> Driver:
    if sys.platform != "linux":
        pytest.skip("the stand-in driver is loaded as only Linux does")
    if not CLI.is_file():
        pytest.skip("expert-cli is not built: make setup")
    try:
        return build()
    except Missing as missing:
        pytest.skip(f"no stand-in for the CUDA driver: {missing}")
