"""Programs that a downloaded repository brings along and that nobody asked to run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.attempt import Area, Attempt


def program(path: Path, marker: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho ran >> {marker}\nexit 0\n")
    path.chmod(0o755)
    return path


class Download:
    """A repository as it comes out of an archive: with its .git, whose config is the archive's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "downloaded"
        self.marker = folder / "ran"
        place = self.folder / "experts/ash"
        world.write_rows(place / "train.jsonl", world.rows(count=2))
        (place / "manifest.json").write_text(json.dumps(world.manifest("../base")))
        self.base()
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")

    def base(self) -> None:
        """Enough of one for a worker to be started; it never comes to loading it."""
        place = self.folder / "experts/base"
        place.mkdir()
        shape = {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": 97,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "max_position_embeddings": 128,
        }
        (place / "config.json").write_text(json.dumps(shape))
        (place / "tokenizer.json").write_text("{}")
        (place / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True)

    def config(self, key: str, program_name: str = "program") -> None:
        self.git("config", key, str(program(self.folder / program_name, self.marker)))

    def touch(self) -> None:
        data = self.folder / "experts/ash/train.jsonl"
        data.write_text(data.read_text() + '{"prompt": "x", "completion": "y"}\n')

    def run(self, *words: object, cwd: str = ".", **env: str) -> cli.Said:
        surroundings = {"HOME": str(self.marker.parent), **env}
        return cli.run(*words, cwd=self.folder / cwd, env=surroundings, seconds=120)


def attempts(quick: bool) -> Iterator[Attempt]:
    chosen = list(WAYS)[::4] if quick else WAYS
    for name in chosen:
        yield Attempt(name, partial(attempt, WAYS[name]))


def attempt(way: Callable[[Download], None], folder: Path) -> None:
    download = Download(folder)
    way(download)
    assert not download.marker.exists(), "the download's program ran"


def configured(key: str, *, attributes: str = "", command: str = "matrix") -> Callable[[Download], None]:
    def way(download: Download) -> None:
        if attributes:
            (download.folder / ".gitattributes").write_text(attributes)
            (download.folder / ".git/info").mkdir(exist_ok=True)
            (download.folder / ".git/info/attributes").write_text(attributes)
        download.config(key)
        download.touch()
        words = {
            "matrix": ("matrix", "experts", "--changed-since", "HEAD"),
            "train": ("train", "--all", "experts", "--changed-since", "HEAD"),
            "plan": ("plan", "-m", "experts/ash", "--device", "cpu"),
        }[command]
        cli.check(download.run(*words, EXPERT_PYTHON="/bin/false"))

    return way


def hook(download: Download) -> None:
    hooks = download.folder / ".git/hooks"
    for name in ("post-checkout", "fsmonitor-watchman", "query-watchman", "post-index-change"):
        program(hooks / name, download.marker)
    download.touch()
    cli.check(download.run("matrix", "experts", "--changed-since", "HEAD", EXPERT_PYTHON="/bin/false"))


def environment_of(where: str, cwd: str, *words: str) -> Callable[[Download], None]:
    """A `.venv` of the download, which is nobody's choice."""

    def way(download: Download) -> None:
        for name in ("python", "python3"):
            program(download.folder / where / ".venv/bin" / name, download.marker)
        # Whichever worker starts, it need not load torch to show whose it is.
        quick = {"EXPERT_TEST_STAGE": "expert_test_nothing"}
        cli.check(download.run(*words, cwd=cwd, EXPERT_PYTHON="", PATH="/usr/bin:/bin", **quick))

    return way


def option_as_revision(download: Download) -> None:
    said = download.run("matrix", "experts", "--changed-since", f"--output={download.marker}")
    cli.check(said)


WAYS: dict[str, Callable[[Download], None]] = {
    "core.fsmonitor, matrix": configured("core.fsmonitor"),
    "core.fsmonitor, train --all": configured("core.fsmonitor", command="train"),
    "filter.x.clean, matrix": configured("filter.x.clean", attributes="* filter=x\n"),
    "filter.x.process, matrix": configured("filter.x.process", attributes="* filter=x\n"),
    "diff.external, matrix": configured("diff.external"),
    "textconv, matrix": configured("diff.x.textconv", attributes="* diff=x\n"),
    "core.sshCommand, matrix": configured("core.sshCommand"),
    "core.fsmonitor, plan": configured("core.fsmonitor", command="plan"),
    "hooks, matrix": hook,
    ".venv at the root, train": environment_of(".", ".", "train", "-m", "experts/ash"),
    ".venv at the root, doctor": environment_of(".", ".", "doctor"),
    ".venv at the root, inside the expert": environment_of(".", "experts/ash", "train", "-m", "."),
    ".venv of the expert": environment_of("experts/ash", "experts/ash", "train", "-m", "."),
    "an option for a revision": option_as_revision,
}
AREA = Area("programs", "programs brought by a download (git config, .venv)", attempts)
