"""Whether a run may go on from a checkpoint: only under the recipe that made it, or a longer one if asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from expert_worker.checkpoint.record import Facts
from expert_worker.errors import BadInput

_DURATION = "schedule.duration"
_ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    field: str
    was: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.field}: {_show(self.was)} in the checkpoint, {_show(self.now)} now"


def refuse_unless_same(facts: Facts, recipe: dict[str, Any], cache_key: str, *, extend: bool) -> None:
    """Only the recipe counts. Logging, retention, mirror, workers and output are free to change."""
    found = list(differences(facts.recipe, recipe))
    longer = [d for d in found if d.field.startswith(_DURATION)]
    others = [d for d in found if d not in longer]
    if others:
        raise _changed(others, "Undo the change, or start over with --fresh.")
    if longer and not _lengthens(facts.recipe, recipe):
        raise _changed(longer, "--extend means more epochs or steps, never fewer. --fresh starts over.")
    if longer and not extend:
        raise _changed(longer, "Add --extend to train for longer, or start over with --fresh.")
    if not found and facts.cache_key != cache_key:
        raise BadInput(
            "The training data changed since the checkpoint was saved: "
            f"token cache {facts.cache_key[:12]} then, {cache_key[:12]} now",
            hint="Restore the data, or start over with --fresh.",
            code="data-changed",
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


def _lengthens(was: dict[str, Any], now: dict[str, Any]) -> bool:
    old, new = was["schedule"]["duration"], now["schedule"]["duration"]
    return bool(old["unit"] == new["unit"] and new["value"] > old["value"])


def _changed(found: list[Difference], hint: str) -> BadInput:
    lines = "\n".join(f"  {difference}" for difference in found)
    return BadInput(
        f"The recipe is not the one that the checkpoint was made with:\n{lines}",
        hint=hint,
        code="recipe-changed",
    )


def _show(value: Any) -> str:
    return "null" if value is None else str(value)
