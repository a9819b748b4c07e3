"""A folder of small experts on one tiny base, and the commands that run in it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from command import SAMPLE, find_cli, manifest_of, rows_of, save_base, surroundings, write_rows


class ExpertsFolder:
    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        found = find_cli()
        if found is None:
            pytest.skip("expert-cli is not built: make setup")
        self.folder, self.cli, self.names = folder, found, names
        save_base(folder / "base")
        for number, name in enumerate(names):
            self.expert(name).mkdir(parents=True)
            write_rows(self.expert(name) / "train.jsonl", rows_of(number))

    def expert(self, name: str) -> Path:
        return self.folder / "experts" / name

    def run_of(self, name: str) -> Path:
        return self.expert(name) / "weights" / "base"

    def set_up(self, name: str, **settings: object) -> None:
        """In fp32, where what a group computes is compared most closely."""
        manifest = manifest_of(name, "../../base", SAMPLE, bf16=False, fp16=False, **settings)
        (self.expert(name) / "manifest.json").write_text(json.dumps(manifest))

    def clear(self) -> None:
        """As if no expert was ever trained."""
        for name in self.names:
            shutil.rmtree(self.expert(name) / "weights", ignore_errors=True)
            (self.expert(name) / "expert.lock").unlink(missing_ok=True)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.cli), *words],
            env=surroundings(1) | {"EXPERT_HOME": str(self.folder / "home")},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        try:
            out, said = process.communicate(timeout=900)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, process.returncode, out, said)
