"""The packages as `make wheels` builds them, once for all tests of this folder."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from newcomer import ROOT, UV, Newcomer, call, link_packages, train

BUILT = ROOT / "target" / "packages"


@pytest.fixture(scope="session")
def packages() -> Mapping[str, Path]:
    """Suffixed names, `expert_cli_lora.whl` or `expert_worker.tar.gz`, and the files."""
    done = subprocess.run(
        ["make", "--no-print-directory", "wheels"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=850,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    files = {
        f"{path.name.split('-')[0]}{'.whl' if path.suffix == '.whl' else '.tar.gz'}": path
        for path in BUILT.iterdir()
        if path.suffix in (".whl", ".gz")
    }
    assert sorted(files) == [
        "expert_cli_lora.tar.gz",
        "expert_cli_lora.whl",
        "expert_worker.tar.gz",
        "expert_worker.whl",
    ]
    return files


@pytest.fixture(scope="session")
def environment(packages: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("installed") / "env"
    wheels = (packages["expert_worker.whl"], packages["expert_cli_lora.whl"])
    install = (UV, "pip", "install", "--quiet", "--offline", "--no-index", "--no-deps")
    for words in (
        (UV, "venv", "--quiet", "--python", sys.executable, root),
        (*install, "--python", root / "bin/python", *wheels),
    ):
        done = call(*words)
        assert done.returncode == 0, done.stderr
    link_packages(root)
    return root


@pytest.fixture(scope="session")
def trained(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    """With an expert that was made and trained by what is installed."""
    newcomer = Newcomer(environment / "bin" / "expert-cli", tmp_path_factory.mktemp("trained"))
    train(newcomer)
    return newcomer
