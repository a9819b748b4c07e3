"""The workflows of this repository: what their jobs install, and the order of what they do."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
BUILT = ROOT / "target" / "release" / ("expert-cli.exe" if os.name == "nt" else "expert-cli")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
INSTALLED = ("requirements/dev.lock", "requirements/worker.lock", "--editable .")

Job = dict[str, Any]


def jobs(name: str) -> dict[str, Job]:
    return yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())["jobs"]


def commands(job: Job) -> list[str]:
    return [step["run"] for step in job.get("steps", []) if "run" in step]


def test_a_job_on_linux_that_runs_the_tests_fails_where_they_are_skipped() -> None:
    for workflow, name in (("ci", "everything"), ("nightly", "long"), ("release", "long")):
        steps = jobs(workflow)[name]["steps"]
        (tests,) = [
            step for step in steps if re.search(r"make test-all|\.ci/run|make \$TARGET", step.get("run", ""))
        ]
        assert tests["env"]["EXPERT_NO_SKIPS"] == "1", f"{workflow}: {name}"


def needed(release: dict[str, Job], name: str) -> set[str]:
    """The jobs that have passed before this one starts."""
    needs = release[name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(needed(release, one) for one in direct))


def test_a_release_is_published_after_everything_has_passed() -> None:
    release = jobs("release")
    assert needed(release, "publish") == release.keys() - {"publish"}
    assert release["ci"]["uses"] == "$/.github/workflows/ci.yml"
    # YAML 1.1 reads `on` as true.
    assert "workflow_call" in yaml.safe_load((WORKFLOWS / "ci.yml").read_text())[True]
    assert "make test-all" in commands(release["long"])
    assert any("merge-base --is-ancestor" in line for line in commands(release["check"]))


def test_a_failed_publication_can_be_repeated() -> None:
    lines = commands(jobs("release")["publish"])
    uploads = [at for at, line in enumerate(lines) if "uv publish" in line]
    (created,) = [at for at, line in enumerate(lines) if "gh release create" in line]
    assert uploads and max(uploads) < created, "a release without packages"
    assert all("--check-url https://pypi.org/simple/" in lines[at] for at in uploads)
    assert lines[created].startswith('gh release view "$GITHUB_REF_NAME"') and "||" in lines[created]


def test_each_built_package_is_tried_out_without_the_sources() -> None:
    release = jobs("release")

    def targets(name: str) -> list[str]:
        return [one["target"] for one in release[name]["strategy"]["matrix"]["include"]]

    assert targets("smoke") == targets("wheels")
    smoke = release["smoke"]
    assert not any("checkout" in step.get("uses", "") for step in smoke["steps"])
    (script,) = commands(smoke)
    assert "import expert_worker._native" in script
    for command in ("--version", "doctor", "init", "validate", "plan"):
        assert f"expert-cli {command}" in script


def test_a_job_that_runs_tests_installs_what_make_setup_installs() -> None:
    """The tests of the CLI start parts of the worker that need numpy, aiohttp, huggingface_hub and more."""
    seen = 0
    for workflow in WORKFLOWS.glob("*.yml"):
        for name, job in jobs(workflow.stem).items():
            lines = commands(job)
            tests = [at for at, line in enumerate(lines) if "cargo test" in line or "pytest" in line]
            if tests:
                before = "\n".join(lines[: tests[0]])
                assert [one for one in INSTALLED if one not in before] == [], f"{workflow.name}: {name}"
                seen += 1
    assert seen


@pytest.mark.skipif(not BUILT.is_file(), reason="expert-cli is not built: make setup")
def test_the_workflow_that_init_writes_is_this_ones_with_the_tool_beside_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "shelf").mkdir()
    words = ("init", "--ci", "--tool", f"someone/tool@{COMMIT}", "--parent", "shelf")
    subprocess.run([BUILT, *words], cwd=tmp_path, check=True, capture_output=True)
    written = tmp_path / ".github/workflows/experts.yml"
    text = written.read_text()
    found, own = yaml.safe_load(text)["jobs"], jobs("experts")
    assert found.keys() == own.keys() and not re.search(r"(?<!\$)\{\{", text)
    for name, job in found.items():
        tool = {
            "repository": "someone/tool",
            "ref": COMMIT,
            "path": ".expert-cli",
            "persist-credentials": False,
        }
        assert [step["with"] for step in job["steps"] if "checkout" in step.get("uses", "")][1] == tool
        # The same commands, from the folder of the tool and for the folder of the experts.
        adapted = [
            line.replace("scripts/ci/", ".expert-cli/scripts/ci/")
            .replace("make ", "make -C .expert-cli ")
            .replace("matrix experts", "matrix shelf")
            for line in commands(own[name])
        ]
        assert commands(job) == adapted
    zizmor = Path(sys.executable).with_name("zizmor")
    done = subprocess.run(
        [zizmor, "--offline", "--quiet", "--pedantic", written], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
