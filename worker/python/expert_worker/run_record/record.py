"""`run.json`: enough to say, a year later, exactly what made this adapter and why this step was chosen."""

import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from pydantic import JsonValue

from expert_worker.checkpoint import files
from expert_worker.checkpoint.refusal import refusals_in_words
from expert_worker.errors import BadInput, Missing
from expert_worker.events.models import ACCURACY
from expert_worker.plan import Inputs, Machine, Plan, Recipe, load_plan, recipe_document
from expert_worker.record_reader import read_json
from expert_worker.results import BestChoice, FileDigest, RunMachine, RunRecord, TrainResult
from expert_worker.run_record.digests import RUN, digest_of, final_digests
from expert_worker.run_record.expert import has_other_scores, replace_digest
from expert_worker.run_record.final import NAME as FINAL
from expert_worker.run_record.git import commit_of
from expert_worker.run_record.inference import GENERATION
from expert_worker.tested import installed_version

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


# Settings of the base that its answers, and so the adapter's, depend on.
_OF_BASE = ("quantization", "rope_scaling")


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


def chooses_by_score(recipe: Recipe) -> bool:
    """Whether scores decide which checkpoint `final/` is."""
    best = recipe.evaluation.best
    return best is not None and best.metric == ACCURACY


def changed_since(output: Path, recipe: Recipe) -> list[str]:
    """Which settings that training depends on differ between the run in `output` and an evaluation of now.
    Settings of answers are among them only where scores decided which checkpoint is `final/`: else
    `evaluate` replaces those of `final/`."""
    then = (read_json(output / RUN) or {}).get("recipe")
    then, now = then if isinstance(then, dict) else {}, recipe_document(recipe)
    changed = _changed_decoding(then, now) if _was_chosen_by_score(then, recipe) else []
    template = then.get("template")
    if isinstance(template, dict):
        # Recipes from before there were variables have none.
        sides = [{"source": None, "kwargs": {}} | side for side in (template, now["template"])]
        changed += ["chat template"] * (sides[0] != sides[1])
    base = then.get("base")
    if isinstance(base, dict):
        changed += [name for name in _OF_BASE if base.get(name) != now["base"].get(name)]
    return changed


def _was_chosen_by_score(then: Mapping[str, Any], recipe: Recipe) -> bool:
    """By the run's own recipe: the manifest may have changed since."""
    evaluation = then.get("evaluation")
    if not isinstance(evaluation, dict) or "best" not in evaluation:
        return chooses_by_score(recipe)
    return isinstance(best := evaluation["best"], dict) and best.get("metric") == ACCURACY


def _changed_decoding(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Without the grammar, which `replace_grammar` handles."""
    was, of_now = then.get("decoding"), now["decoding"]
    known = was if isinstance(was, dict) else {}
    return [name for name in of_now if name != "grammar" and name in known and known[name] != of_now[name]]


def replace_decoding(folder: Path, recipe: Recipe, generation: bytes) -> None:
    """The settings of answers in `final/`, and their digests, are those of the scores that are added next.
    The run's record is written last: an interrupted change is repeated by the next evaluation."""
    record, now = read_json(folder.parent / RUN) or {}, recipe_document(recipe)
    then = record.get("recipe")
    if not isinstance(then, dict) or not _changed_decoding(then, now):
        return
    files.replace(folder / GENERATION, generation)
    digest = digest_of(folder / GENERATION).as_json()
    replace_digest(folder, GENERATION, digest)
    recorded = record.get("final")
    recorded = {**recorded, GENERATION: digest} if isinstance(recorded, dict) else recorded
    changed = {**record, "recipe": {**then, "decoding": now["decoding"]}, "final": recorded}
    files.replace_json(folder.parent / RUN, changed)


def scores_as_the_run(plan: Plan) -> bool:
    """Whether test sets, scorer, chat template, base and settings of answers are those of the training, and
    still those of `final/`: an evaluation may have replaced them. Further sets are only in the training's
    plan."""
    output = Path(plan.machine.paths.output)
    try:
        trained = load_plan(output / "plan.json")
    except (BadInput, Missing):
        # Absent, or of another version.
        return False
    then = (read_json(output / RUN) or {}).get("recipe")
    if isinstance(then, dict) and _changed_decoding(then, recipe_document(plan.recipe)):
        return False
    return _of_scores(trained) == _of_scores(plan) and not has_other_scores(output / FINAL, plan)


def _of_scores(plan: Plan) -> list[object]:
    recipe, data = plan.recipe, plan.recipe.data
    sets = {name: chosen.sources for name, chosen in plan.test_sets.items()}
    asked = [recipe.template, recipe.decoding, *(getattr(recipe.base, name) for name in _OF_BASE)]
    return [recipe.evaluation, *asked, data.test, data.field_mapping, data.text_dialogue, sets]


def package_versions() -> dict[str, str | None]:
    # torch's version string includes its build.
    return {name: _version(name) for name in _PACKAGES} | {"torch": str(torch.__version__)}


_version = cache(installed_version)


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
