"""The workflows of this repository: what their jobs install, and the order of what they do."""

from pathlib import Path
from typing import Any

import yaml

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
INSTALLED = ("requirements/dev.lock", "requirements/worker.lock", "--editable .")

Job = dict[str, Any]


def jobs(name: str) -> dict[str, Job]:
    return yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())["jobs"]


def commands(job: Job) -> list[str]:
    return [step["run"] for step in job.get("steps", []) if "run" in step]


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
