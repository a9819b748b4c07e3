"""What train, plan, runs and validate show at 60, 80 and 120 columns, and that their memory figures agree.

`UPDATE=1` rewrites the snapshots in `snapshots/`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from command import rows_of, save_base, surroundings, write_rows
from sample_run import sample_run, share
from tmux import CLI, MISSING, ROOT, Terminal, is_here

WIDTHS = (60, 80, 120)
ALL_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SNAPSHOTS = Path(__file__).parent / "snapshots"
END = "=== end ==="
MANIFEST: dict[str, Any] = {
    "name": "words",
    "base_models": [{"name": "./tiny-base"}],
    "training": {
        "dataset": {"path": "train.jsonl", "validation_split": 0.2},
        "config": {
            "rank": 8,
            "alpha": 16,
            "target_modules": ALL_MODULES,
            "learning_rate": 0.01,
            "max_steps": 6,
            "batch_size": 2,
            "max_seq_length": 64,
            "evaluation_strategy": "steps",
            "eval_steps": 3,
        },
    },
}
pytestmark = pytest.mark.skipif(not is_here(), reason=MISSING)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the expert `words` on a tiny base, whose one run has been recorded."""
    folder = tmp_path_factory.mktemp("shelf")
    expert = folder / "words"
    expert.mkdir()
    save_base(expert / "tiny-base")
    (expert / "manifest.json").write_text(json.dumps(MANIFEST, indent=2))
    write_rows(expert / "train.jsonl", rows_of())
    run = sample_run(folder / "sample")
    (expert / "weights").mkdir()
    run.rename(expert / "weights" / "a-run")
    return folder


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(CLI.parent), os.environ.get("PATH", "")])
    # `doctor` warns where a container's image sets it, with a command that may be longer than a line.
    quiet = {"PYTHONDONTWRITEBYTECODE": ""}
    return {**surroundings(2), **quiet, "PATH": path, "EXPERT_HOME": str(folder / "home"), **more}


def shown(folder: Path, columns: int, *words: str, **more: str) -> str:
    command = f"{shlex.join(words)}; echo '{END}'; sleep 600"
    with Terminal(columns, command, folder=folder, environment=environment(folder, **more)) as terminal:
        screen = terminal.shows(END).replace(END, "").rstrip()
    assert screen, f"{shlex.join(words)} shows nothing"
    return screen


def compare(name: str, screen: str) -> None:
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE") == "1":
        SNAPSHOTS.mkdir(exist_ok=True)
        file.write_text(screen + "\n")
    assert file.is_file(), f"{file.name} is missing: run with UPDATE=1"
    assert screen + "\n" == file.read_text(), f"{file.name} differs; UPDATE=1 rewrites it"


def without_numbers(screen: str) -> str:
    """Losses, times, speeds and sizes differ from machine to machine; step counts do not."""
    loss = re.sub(r"loss(\s+)\d\.\d+", r"loss\1#", screen)
    sizes = re.sub(r"\d[\d.]* [KMG]iB", "# GiB", loss)
    speeds = re.sub(r"((?:tokens|steps)/s\s+)[\d.]+k?", r"\1#", sizes)
    return re.sub(r"(time in training\s+)\S+", r"\1#", speeds)


@pytest.mark.parametrize("columns", WIDTHS)
def test_plan_fits(shelf: Path, columns: int) -> None:
    command = ("expert-cli", "plan", "words", "--device", "cpu", "--mixed-precision", "no")
    # Where no run was measured: the time of one is in this file's other home.
    screen = shown(shelf, columns, *command, EXPERT_HOME=str(shelf / "new-home"))
    assert all(len(line) <= columns for line in screen.splitlines())
    screen = re.sub(r"Memory: .* on", "Memory: # of # on", screen)
    screen = re.sub(r"room  .*", "room  # rows", screen)
    compare(f"plan-{columns}", re.sub(r"recipe      \w+", "recipe      #", screen))


COMMANDS = ["doctor", "recommend words", "bench watch --alone --duration 1"]


@pytest.mark.parametrize(
    ("columns", "command"), [(40, "doctor"), *((columns, it) for columns in (60, 80) for it in COMMANDS)]
)
def test_no_word_is_broken(shelf: Path, columns: int, command: str) -> None:
    words = ["expert-cli", *command.split()]
    surrounded = {**os.environ, **environment(shelf)}
    done = subprocess.run(words, cwd=shelf, env=surrounded, check=False, capture_output=True, text=True)
    screen = shown(shelf, columns, *words)
    # Sizes and times differ from run to run.
    expected = {word for word in done.stdout.split() if word.isalpha()}
    assert expected and expected <= set(screen.split())


@pytest.mark.parametrize("columns", WIDTHS)
def test_runs_fits(shelf: Path, columns: int) -> None:
    compare(f"runs-{columns}", shown(shelf, columns, "expert-cli", "runs", "words"))


@pytest.mark.parametrize("columns", WIDTHS)
def test_runs_with_two_test_sets_fits(shelf: Path, columns: int) -> None:
    run = shelf / "two-sets" / "a-run"
    shutil.copytree(shelf / "words" / "weights" / "a-run", run, dirs_exist_ok=True)
    document = json.loads((run / "evaluation.json").read_text())
    people = {"rows": 120, "base": share(3, 120), "adapter": share(15, 120)}
    (run / "evaluation.json").write_text(json.dumps({**document, "test_sets": {"people": people}}))
    screen = shown(shelf, columns, "expert-cli", "runs", "two-sets")
    assert all(len(line) <= columns for line in screen.splitlines())
    compare(f"runs-two-sets-{columns}", screen)


@pytest.mark.parametrize("columns", WIDTHS)
def test_validate_fits(shelf: Path, columns: int) -> None:
    broken = shelf / "broken"
    broken.mkdir(exist_ok=True)
    manifest = deepcopy(MANIFEST)
    manifest["training"]["config"] |= {"learning_rat": 0.1, "max_steps": -1}
    (broken / "manifest.json").write_text(json.dumps(manifest, indent=2))
    write_rows(broken / "train.jsonl", rows_of())
    (shelf / "broken" / "tiny-base").mkdir(exist_ok=True)
    compare(f"validate-{columns}", shown(shelf, columns, "expert-cli", "validate", "words", "broken"))


@pytest.mark.parametrize("columns", (60, 80))
def test_datasets_and_matrix_fit(shelf: Path, columns: int) -> None:
    folder = shelf / "long"
    expert = folder / "turns-questions-into-sql-of-one-dialect"
    (expert / "datasets").mkdir(parents=True, exist_ok=True)
    manifest = deepcopy(MANIFEST)
    manifest["name"] = expert.name
    manifest["training"]["dataset"]["path"] = "datasets/questions-of-people.jsonl"
    (expert / "manifest.json").write_text(json.dumps(manifest))
    write_rows(expert / "datasets" / "questions-of-people.jsonl", rows_of())
    for command in ("datasets", "matrix"):
        compare(f"{command}-{columns}", shown(folder, columns, "expert-cli", command))


@pytest.mark.parametrize("columns", (60, 80))
def test_compared_runs_fit(shelf: Path, columns: int) -> None:
    """Lists of modules are longer than a line."""
    folders = []
    for name, modules in (("few-modules", ["q_proj", "v_proj"]), ("all-modules", ALL_MODULES)):
        run = shelf / "compared" / name
        shutil.copytree(shelf / "words" / "weights" / "a-run", run, dirs_exist_ok=True)
        for file in ("plan.json", "run.json"):
            document = json.loads((run / file).read_text())
            document["recipe"]["adapter"]["target_modules"] = modules
            (run / file).write_text(json.dumps(document))
        folders.append(f"compared/{name}")
    compare(f"compare-{columns}", shown(shelf, columns, "expert-cli", "runs", "--compare", *folders))


def shelf_of(folder: Path, *names: str, acts: str) -> dict[str, str]:
    """Experts in `experts/` whose workers do `acts`; the environment for them."""
    variables = environment(
        folder,
        EXPERT_TEST_STAGE="expert_test_stage",
        EXPERT_TEST_ACTS=acts,
        EXPERT_TEST_PID_FILE=str(folder / "pid"),
        PYTHONPATH=os.pathsep.join([str(ROOT / "worker/python"), str(ROOT / "tests/cli/stage")]),
    )
    base = folder / "home" / "bases" / "smollm2-135m-instruct"
    base.mkdir(parents=True)
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (base / file).write_text("{}")
    for name in names:
        command = ["expert-cli", "init", name, "--parent", "experts"]
        subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True)
    return variables


TRAIN_ALL = "expert-cli train --all --device cpu --separate"


@pytest.mark.parametrize("columns", (60, 80))
def test_the_summary_of_a_shelf_fits(tmp_path: Path, columns: int) -> None:
    names = ["sql", "turns-questions-into-sql-of-one-dialect", "typescript"]
    variables = shelf_of(tmp_path, *names, acts="final=x,refuse=sql")
    command = f"{TRAIN_ALL}; echo '{END}'; sleep 600"
    with Terminal(columns, command, folder=tmp_path, environment=variables) as terminal:
        compare(f"shelf-{columns}", terminal.shows(END).replace(END, "").rstrip())


def test_a_shelf_is_never_silent_and_what_failed_does_not_wait(tmp_path: Path) -> None:
    variables = shelf_of(tmp_path, "broken", "sql", "typescript", acts="obey")
    manifest = tmp_path / "experts" / "broken" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"rank": 8', '"rank": -8'))
    with Terminal(80, f"{TRAIN_ALL} --jobs 1", folder=tmp_path, environment=variables) as terminal:
        screen = terminal.shows("starting the worker")
        assert screen.startswith("3 experts in experts: reading manifests and data\n"), screen
        rows = "\nbroken      failed (out-of-range)\nsql         starting the worker\ntypescript  waits"
        assert screen.endswith(rows), screen
        terminal.type("C-c")


def test_the_live_line_leaves_out_whole_items_and_a_stop_says_how_to_continue(shelf: Path) -> None:
    """One training, at step 1,200 of 4,000 until it is stopped, in a window that becomes wider."""
    stage = {
        "EXPERT_TEST_STAGE": "expert_test_stage",
        "EXPERT_TEST_ACTS": "under-way,obey",
        "EXPERT_TEST_PID_FILE": str(shelf / "pid"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "worker/python"), str(ROOT / "tests/cli/stage")]),
    }
    command = f"expert-cli train words -o live; echo '{END}'; sleep 600"
    lines: dict[int, str] = {}
    with Terminal(60, command, folder=shelf, environment=environment(shelf, **stage)) as terminal:
        for columns, last_item in ((60, "tok/s"), (80, "  lr 5.00e-5"), (120, "  wait 5%")):
            terminal.resize(columns)
            lines[columns] = terminal.shows(last_item).splitlines()[-1]
        terminal.type("C-c")
        ending = terminal.shows(END).replace(END, "").rstrip()
    text = "\n".join(f"{columns:>4}: {lines[columns]}" for columns in sorted(lines))
    compare("train-live", f"{text}\n\nafter Ctrl-C:\n" + "\n".join(ending.splitlines()[-3:]))


def test_a_training_ends_with_its_files_and_needs_the_memory_that_plan_shows(shelf: Path) -> None:
    """A real one: the same settings through plan and train."""
    options = ["words", "-o", "run", "--device", "cpu", "--mixed-precision", "no"]
    planned = subprocess.run(
        ["expert-cli", "plan", "--json", *options],
        cwd=shelf, env=environment(shelf), check=True, capture_output=True, text=True,
    )  # fmt: skip
    screen = shown(shelf, 80, "expert-cli", "train", *options)
    # Above it are the stages, some of which only some machines have.
    assert "next: " in screen, screen
    summary = screen[screen.index("steps  ") :]
    compare("train-80", without_numbers(summary))
    estimate = json.loads(planned.stdout)["plan"]["machine"]["estimate"]["total"]
    record = json.loads((shelf / "run" / "run.json").read_text())
    peak = record["result"]["peak_memory_bytes"]
    assert 0.9 <= estimate / peak <= 1.1, (
        f"plan says {estimate / 2**20:.0f} MiB, the run's peak is {peak / 2**20:.0f} MiB"
    )
