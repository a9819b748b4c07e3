"""`run.json`: enough to say, a year later, exactly what made this adapter and why this step was chosen."""

import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

import torch
from pydantic import JsonValue

from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import refusals_in_words
from expert_worker.plan import Inputs, Machine, Plan, Recipe, recipe_document
from expert_worker.record_reader import read_json
from expert_worker.results import BestChoice, FileDigest, RunMachine, RunRecord, TrainResult
from expert_worker.run_record.digests import RUN, final_digests
from expert_worker.run_record.final import NAME as FINAL
from expert_worker.run_record.git import commit_of

_PACKAGES = (
    "accelerate",
    "bitsandbytes",
    "datasets",
    "expert-worker",
    "peft",
    "safetensors",
    "tokenizers",
    "transformers",
)


def write_run_record(
    plan: Plan,
    *,
    inputs: Inputs | None,
    cache_key: str,
    data: Mapping[str, FileDigest | None],
    base: Mapping[str, FileDigest | None],
    best: BestChoice,
    result: TrainResult,
    applied: Mapping[str, JsonValue],
) -> Path:
    """`inputs` are the digests recorded when the run started, `applied` the settings as read back."""
    output = Path(plan.machine.paths.output)
    record = RunRecord(
        contract=plan.contract,
        recipe_digest=plan.recipe_digest,
        recipe=plan.recipe,
        cache_key=cache_key,
        best=best,
        result=result,
        applied=dict(applied),
        packages=package_versions(),
        machine=_machine(plan.machine),
        git_commit=commit_of(Path(plan.machine.paths.expert_dir)),
        inputs=inputs,
        final=final_digests(output / FINAL),
        data=dict(data),
        base=dict(base),
    )
    with refusals_in_words(output, f"write {RUN}", int, lambda: []):
        files.replace_json(output / RUN, record.as_json())
    return output / RUN


def changed_since(output: Path, recipe: Recipe) -> list[str]:
    """Which settings of prompts and answers are not those of the run in `output`. The grammar is not among
    them: `evaluate` replaces that of `final/`."""
    then = (read_json(output / RUN) or {}).get("recipe")
    then, now = then if isinstance(then, dict) else {}, recipe_document(recipe)
    was, of_now = then.get("decoding"), now["decoding"]
    known = was if isinstance(was, dict) else {}
    changed = [name for name in of_now if name != "grammar" and name in known and known[name] != of_now[name]]
    template = then.get("template")
    if isinstance(template, dict):
        sides = [(side.get("kind"), side.get("source")) for side in (template, now["template"])]
        changed += ["chat template"] * (sides[0] != sides[1])
    return changed


def package_versions() -> dict[str, str | None]:
    # torch's version string includes its build.
    return {name: _version(name) for name in _PACKAGES} | {"torch": str(torch.__version__)}


@cache
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _machine(machine: Machine) -> RunMachine:
    return RunMachine(
        device=machine.device,
        dtype=machine.dtype,
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        cuda=torch.version.cuda if torch.cuda.is_available() else None,
        os=platform.system(),
        architecture=platform.machine(),
        python=platform.python_version(),
    )
