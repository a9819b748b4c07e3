"""What a run leaves and says holds none of the secrets of its environment, where it fails or is stopped.

test_cli.py asserts the same of runs that finish or are killed.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command import SECRETS, find_cli, leaks, manifest_of, rows_of, save_base, surroundings, write_rows

pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(os.name == "nt", reason="kills by signal")]


class Place:
    def __init__(self, folder: Path) -> None:
        cli = find_cli()
        if cli is None:
            pytest.skip("expert-cli is not built: make setup")
        self.cli, self.folder = cli, folder
        self.home = folder.parent / "home"
        save_base(folder / "base")
        write_rows(folder / "train.jsonl", rows_of())
        (folder / "manifest.json").write_text(json.dumps(manifest_of("ash", "./base", max_steps=4)))

    def start(self, command: str, *words: str) -> subprocess.Popen[bytes]:
        environment = {**surroundings(1), **SECRETS, "EXPERT_HOME": str(self.home)}
        # All output is kept beside the files that are left.
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [self.cli, command, *words], env=environment, cwd=self.folder, stdout=said, stderr=said
            )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    folder = tmp_path / "expert"
    folder.mkdir()
    return Place(folder)


@pytest.mark.full
def test_runs_that_fail_or_are_killed(place: Place) -> None:
    nothing = ("--set", 'training.config.target_modules=["no_such_module"]')
    assert place.start("train", "--device", "cpu", *nothing).wait() not in (0, 101)
    long = ("--set", "training.config.max_steps=100000", "-o", "killed")
    run = place.start("train", "--device", "cpu", *long)
    while run.poll() is None and not list((place.folder / "killed").glob("checkpoint-*")):
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    assert run.wait() != 0
    assert leaks(place.folder, place.home) == []
