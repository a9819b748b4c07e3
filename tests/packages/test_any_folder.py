"""Every command from the root folder: paths start at the manifest, and nothing is written into `/`."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from newcomer import Newcomer

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

HERE = Path("/")
AXOLOTL = """
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
datasets: [{path: rows.jsonl, type: alpaca}]
adapter: lora
lora_r: 8
lora_alpha: 16
"""
SHORT = ("--set", "training.config.max_steps=3", "--set", "evaluation.max_new_tokens=8")


def serve_once(newcomer: Newcomer, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Until it listens."""
    command = [str(newcomer.expert_cli), "serve", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=HERE, env=newcomer.environment, stdout=pipe, stderr=pipe, text=True
    ) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        rest, problems = server.communicate(timeout=60)
    assert json.loads(said)["ok"] is True, problems
    return subprocess.CompletedProcess(command, server.returncode, said + rest, problems)


def test_every_command_works_from_the_root_folder(trained: Newcomer) -> None:
    expert, folder = trained.folder / "x", trained.folder
    run = next(expert.glob("weights/*/run.json")).parent
    (folder / "axolotl.yml").write_text(AXOLOTL)
    (folder / "rows.jsonl").write_text('{"instruction": "1+1", "output": "2"}\n' * 20)
    plan = trained("train", expert, "--max-steps", "1", "--output", folder / "again", "--dry-run", "--json")
    assert plan.returncode == 0, plan.stderr
    (folder / "plan.json").write_text(plan.stdout)
    commands: dict[str, tuple[str | Path, ...]] = {
        "doctor": (),
        "recommend": (expert,),
        "init": ("y", "--parent", folder),
        "import": (folder / "axolotl.yml", "--to", folder / "z"),
        "validate": (expert,),
        "plan": (expert,),
        "pretokenize": (expert,),
        "train": (expert, "--max-steps", "3", "--resume"),
        "search": (expert, "--space", "lr=1e-4|1e-3", "--budget", "2", "--rows", "2", *SHORT),
        "evaluate": (expert, "--set", "evaluation.test_set_size=4"),
        "generate": (expert, "--prompt", "How many rows are there?"),
        "report": (run,),
        "runs": (expert,),
        "export": (expert, "--adapter", "--to", folder / "exported"),
        "bench": ("timeline", "--run", run),
        "datasets": (expert,),
        "clean": (expert,),
        "stop": (expert,),
        "matrix": (folder,),
        "route": ("How many rows are there?", folder),
        "keygen": ("--output", folder / "key.pem"),
        "package": (expert, "--output", folder / "x.expert"),
        "verify": (folder / "x.expert",),
        "install": (folder / "x.expert",),
        "schema": (),
        "completions": ("bash",),
        "work": (folder / "plan.json",),
        "serve": (expert, "--port", "0", "--json"),
    }
    listed = trained("--help").stdout.split("Commands:")[1].split("Options:")[0]
    assert set(re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)) == {*commands, "help"}
    before = sorted(HERE.iterdir())
    for name, words in commands.items():
        done = serve_once(trained, *words) if name == "serve" else trained(name, *words, cwd=HERE)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        assert sorted(HERE.iterdir()) == before, name
