"""Whether a run may be resumed from a checkpoint: only with the recipe, data and base that made it.

`expert-cli` compares before it starts a worker and writes anything; this is the same rule once more, over
the checkpoint that was really loaded and the token cache that was really opened.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from expert_worker.errors import BadInput
from expert_worker.events.models import ACCURACY
from expert_worker.plan import Inputs
from expert_worker.results import CheckpointFacts

_DURATION = "schedule.duration"
_ABSENT = "(absent)"
# What scores depend on, and answers, which decide the adapter only where it is chosen by `accuracy`.
_OF_SCORES = ("data.test", "evaluation.test_set_size", "evaluation.without_base")
_OF_ANSWERS = (
    "decoding",
    "evaluation.max_new_tokens",
    "evaluation.scorer",
    "evaluation.scorer_settings",
    "evaluation.test_cases",
)


@dataclass(frozen=True)
class Difference:
    field: str
    was: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.field}: {_show(self.was)} in the checkpoint, {_show(self.now)} now"


def refuse_unless_same(
    facts: CheckpointFacts,
    recipe: dict[str, Any],
    cache_key: str,
    inputs: Inputs | None = None,
    *,
    extend: bool,
) -> None:
    """Logging, retention, mirror, workers and output are free to change. The worker's code is too:
    `expert-cli` warns of it, and the run keeps the digest of the code that began it."""
    found = list(_differences_of_training(facts.recipe, recipe))
    longer = [d for d in found if d.field.startswith(_DURATION)]
    others = [d for d in found if d not in longer]
    if others:
        raise _changed(others, "Undo the change, or start over with --fresh.")
    if longer and not lengthens(facts.recipe, recipe):
        raise _changed(longer, _not_longer(facts.recipe, recipe))
    if longer and not extend:
        raise _changed(longer, "Add --extend to train for longer, or start over with --fresh.")
    _refuse_other_inputs(facts, inputs)
    if facts.cache_key != cache_key:
        raise _other_rows(facts, cache_key, inputs)


def _other_rows(facts: CheckpointFacts, cache_key: str, inputs: Inputs | None) -> BadInput:
    """Where data, tokenizer and template have the same digests, another version made other rows of them."""
    keys = f"token cache {facts.cache_key[:12]} then, {cache_key[:12]} now"
    if inputs is None or facts.inputs is None or facts.inputs.code == inputs.code:
        return BadInput(
            f"The training data changed since the checkpoint was saved: {keys}",
            hint="Restore the data, or start over with --fresh.",
            code="data-changed",
        )
    return BadInput(
        "The program changed how it prepares training rows since the run began; the data is the same: "
        f"{keys}",
        hint=f"Resume with the version that began the run, expert-cli {facts.inputs.code.version}, or start "
        "over with --fresh.",
        code="rows-changed",
    )


def _refuse_other_inputs(facts: CheckpointFacts, inputs: Inputs | None) -> None:
    """A plan without digests was not written by a command that resumes; its token cache is still compared."""
    if inputs is None:
        return
    free = {"code", "recipe"}
    before = facts.inputs.model_dump(exclude=free) if facts.inputs is not None else {}
    if "data" in before:
        before["data"] = _trained(before["data"], facts.recipe)
    found = list(differences(before, inputs.model_dump(exclude=free)))
    # What is not known is not the same.
    found += [Difference(name, None, None) for name in ("base", "tokenizer") if before.get(name) is None]
    if found:
        lines = "\n".join(f"  {difference}" for difference in found)
        raise BadInput(
            f"The checkpoint was made of something else:\n{lines}",
            hint="Restore what changed, or start over with --fresh.",
            code="inputs-changed",
        )


def differences(was: Any, now: Any, field: str = "") -> Iterator[Difference]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted(was.keys() | now.keys()):
            yield from differences(was.get(key, _ABSENT), now.get(key, _ABSENT), f"{field}.{key}".lstrip("."))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (old, new) in enumerate(zip(was, now, strict=True)):
            yield from differences(old, new, f"{field}[{index}]")
    elif was != now:
        yield Difference(field, was, now)


def _trained(data: dict[str, str], recipe: dict[str, Any]) -> dict[str, str]:
    """Older versions recorded the test data, too."""
    of_test = _names(recipe, "test") - _names(recipe, "train", "validation")
    return {name: digest for name, digest in data.items() if name not in of_test}


def _names(recipe: dict[str, Any], *parts: str) -> set[str]:
    data = recipe.get("data") or {}
    return {source["name"] for part in parts for source in data.get(part) or ()}


def is_same_run(was: dict[str, Any], now: dict[str, Any]) -> bool:
    """By the facts of two checkpoints: the recipes are the same, or one is the other's for longer, and the
    digests of data and base that both have are the same."""
    recipes = [facts.get("recipe") or {} for facts in (was, now)]
    if any(not found.field.startswith(_DURATION) for found in _differences_of_training(*recipes)):
        return False
    theirs, ours = (_known_digests(facts) for facts in (was, now))
    return all(theirs[name] == ours[name] for name in theirs.keys() & ours.keys())


def _known_digests(facts: dict[str, Any]) -> dict[str, str]:
    """Of what the run was made of; older versions recorded less."""
    inputs = facts.get("inputs") or {}
    data = _trained(inputs.get("data") or {}, facts.get("recipe") or {})
    others = {name: inputs.get(name) for name in ("base", "tokenizer", "template", "scorer")}
    return {f"data.{name}": digest for name, digest in data.items()} | {
        name: digest for name, digest in others.items() if digest is not None
    }


def _differences_of_training(was: dict[str, Any], now: dict[str, Any]) -> Iterator[Difference]:
    """Those that change the adapter, as the recipe's digest counts them (contract/src/plan/mod.rs)."""
    best = (now.get("evaluation") or {}).get("best") or {}
    free = _OF_SCORES if best.get("metric") == ACCURACY else (*_OF_SCORES, *_OF_ANSWERS)
    for found in differences(was, now):
        if not any(found.field == name or found.field.startswith((f"{name}.", f"{name}[")) for name in free):
            yield found


def lengthens(was: dict[str, Any], now: dict[str, Any]) -> bool:
    old, new = was["schedule"]["duration"], now["schedule"]["duration"]
    return bool(old["unit"] == new["unit"] and new["value"] > old["value"])


def _not_longer(was: dict[str, Any], now: dict[str, Any]) -> str:
    unit = was["schedule"]["duration"]["unit"]
    if unit == now["schedule"]["duration"]["unit"]:
        return "--extend means more epochs or steps, never fewer. --fresh starts over."
    option = "--epochs" if unit == "epochs" else "--max-steps"
    return f"The length of this run is set by {option}: extend it with that, or start over with --fresh."


def _changed(found: list[Difference], hint: str) -> BadInput:
    lines = "\n".join(f"  {difference}" for difference in found)
    return BadInput(
        f"The recipe is not the one that the checkpoint was made with:\n{lines}",
        hint=hint,
        code="recipe-changed",
    )


def _show(value: Any) -> str:
    return "null" if value is None else str(value)
