"""The workflow's steps as scripts, with a stand-in for expert-cli: what they ask, and what they leave."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "ci"
BUILT = ROOT / "target" / "release" / "expert-cli"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the workflow's scripts are for bash")

STAND_IN = """#!/usr/bin/env bash
echo "$*" >>"$ASKED"
case "$1" in
  matrix) cat "$MATRIX" ;;
  "$FAILS") echo "error: as asked" >&2; exit 2 ;;
  train)
    case "$* " in *" --dry-run "*) echo "$PLANNED"; exit ;; esac
    while [ "$1" != --output ]; do shift; done; mkdir -p "$2"; echo '{}' >"$2/run.json" ;;
  report) echo page >"$2/report.html" ;;
esac
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(SCRIPTS, tmp_path / "scripts" / "ci")
    tool = tmp_path / "target" / "release" / "expert-cli"
    tool.parent.mkdir(parents=True)
    tool.write_text(STAND_IN)
    tool.chmod(0o755)
    return tmp_path


def call(root: Path, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "EXPERT_"))}
    return subprocess.run(
        [str(root / "scripts" / "ci" / script), *arguments],
        cwd=root,
        env={**kept, "ASKED": str(root / "asked"), "FAILS": "nothing", "PLANNED": "{}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def asked(root: Path) -> list[list[str]]:
    return [line.split() for line in (root / "asked").read_text().splitlines()]


@pytest.mark.parametrize(
    ("matrix", "some"),
    [('{"include":[]}', "false"), ('{"include":[{"expert":"a","manifest":"e/a/manifest.json"}]}', "true")],
)
@pytest.mark.parametrize("since", ["", "abc123"])
def test_the_matrix_is_passed_on_with_whether_it_is_empty(
    root: Path, matrix: str, some: str, since: str
) -> None:
    (root / "matrix.json").write_text(matrix + "\n")
    output = root / "github-output"
    done = call(root, "matrix", "experts", since, MATRIX=str(root / "matrix.json"), GITHUB_OUTPUT=str(output))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"matrix={matrix}\nany={some}\n" == output.read_text()
    assert asked(root) == [["matrix", "experts", *([f"--changed-since={since}"] if since else [])]]


def test_an_expert_goes_through_every_step_and_leaves_its_report(root: Path) -> None:
    done = call(root, "expert", "e/a/manifest.json", "out/a", EXPERT_CI_STEPS="3", EXPERT_CI_ROWS="4")
    assert done.returncode == 0, done.stderr
    assert [words[0] for words in asked(root)] == ["validate", "pretokenize", "train", "train", "report"]
    planned, train = asked(root)[2:4]
    assert "--dry-run" in planned and "--dry-run" not in train and "--evaluate" in train
    for words in (["--model", "smollm2-135m-instruct"], ["--max-steps", "3"], ["--device", "cpu"]):
        at = train.index(words[0])
        assert train[at : at + 2] == words
    assert "evaluation.test_set_size=4" in train
    assert sorted(path.name for path in (root / "out/a").iterdir()) == ["report.html", "run.json", "step"]
    assert (root / "out/a/step").read_text() == "done\n"


def test_an_expert_without_test_rows_is_trained_and_not_scored(root: Path) -> None:
    refused = json.dumps({"ok": False, "exit": 2, "error": {"code": "no-test-set"}})
    assert call(root, "expert", "m", "out", PLANNED=refused).returncode == 0
    train = next(words for words in asked(root) if words[0] == "train" and "--dry-run" not in words)
    assert "--evaluate" not in train and "--fresh" in train


@pytest.mark.skipif(not BUILT.is_file(), reason="expert-cli is not built: make setup")
def test_the_code_for_an_expert_without_test_rows_is_that_of_the_real_program(tmp_path: Path) -> None:
    subprocess.run([BUILT, "init", "e", "--parent", tmp_path], capture_output=True, check=True)
    manifest = tmp_path / "e" / "manifest.json"
    manifest.write_text(re.sub(r'"test_path": "[^"]*"', '"test_path": null', manifest.read_text()))
    words = ["train", "-m", manifest, "--output", tmp_path / "run", "--evaluate", "--dry-run", "--json"]
    done = subprocess.run([BUILT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and '"no-test-set"' in done.stdout, done.stdout + done.stderr
    assert '"no-test-set"' in (SCRIPTS / "expert").read_text()


@pytest.mark.skipif(not BUILT.is_file(), reason="expert-cli is not built: make setup")
def test_the_real_program_takes_every_command(root: Path) -> None:
    """`--help` at the end: what stands before it is parsed and nothing is run."""
    (root / "matrix.json").write_text('{"include":[]}')
    call(root, "matrix", "experts", "abc123", MATRIX=str(root / "matrix.json"))
    call(root, "expert", "m", "out")
    commands = asked(root)
    assert {words[0] for words in commands} == {"matrix", "validate", "pretokenize", "train", "report"}
    for words in commands:
        done = subprocess.run([BUILT, *words, "--help"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    done = subprocess.run([BUILT, "train", "--no-such", "--help"], capture_output=True, check=False)
    assert done.returncode == 2, "otherwise nothing is compared above"


def test_another_base_or_the_manifests_own(root: Path) -> None:
    call(root, "expert", "m", "out", EXPERT_CI_BASE="other")
    assert asked(root)[1][-2:] == ["--model", "other"]
    call(root, "expert", "m", "out", EXPERT_CI_BASE="")
    assert asked(root)[6] == ["pretokenize", "-m", "m"]


@pytest.mark.parametrize("step", ["validate", "pretokenize", "train", "report"])
def test_a_failed_step_ends_it_and_is_on_record(root: Path, step: str) -> None:
    done = call(root, "expert", "m", "out", FAILS=step)
    assert done.returncode == 2 and "as asked" in done.stderr
    assert (root / "out/step").read_text() == f"{step}\n"
    assert asked(root)[-1][0] == step


def test_a_failed_run_leaves_nothing_of_the_run_before_it(root: Path) -> None:
    call(root, "expert", "m", "out")
    (root / "out/run").mkdir()
    for name in ("out/run/evaluation.json", "out/evaluation.json", "out/notes.txt"):
        (root / name).write_text("{}")
    assert call(root, "expert", "m", "out", FAILS="pretokenize").returncode == 2
    assert sorted(path.name for path in (root / "out").iterdir()) == ["notes.txt", "step"]


def test_the_summary_lists_the_results_of_each_expert(root: Path) -> None:
    share = {"accuracy": 0.58, "low": 0.51, "high": 0.65}
    for expert, step in (("good", "done"), ("bad", "train")):
        (root / "out" / expert).mkdir(parents=True)
        (root / "out" / expert / "step").write_text(step + "\n")
    result = {"train_loss": 0.25, "tokens_per_second": 1234.5}
    (root / "out/good/run.json").write_text(json.dumps({"result": result}))
    (root / "out/good/evaluation.json").write_text(json.dumps({"base": None, "adapter": share}))
    (root / "out/bad/run.json").write_text("{")
    matrix = json.dumps({"include": [{"expert": name} for name in ("good", "bad", "absent")]})
    page = root / "page.md"
    done = call(root, "summary.py", matrix, "out", GITHUB_STEP_SUMMARY=str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.strip() == done.stdout.strip()
    assert "| good | trained |  | 58.0% (51% to 65%) | 0.2500 | 1,234 |" in text
    assert "| bad | **failed in train** |" in text and "| absent | did not start |" in text


def test_nothing_to_do_is_said(root: Path) -> None:
    assert "No expert changed." in call(root, "summary.py", '{"include":[]}', "out").stdout
