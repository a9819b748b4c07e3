"""JSON is right when it equals the reference; a JSON Schema, when it judges instances as the reference does.

Two schemas may say the same in different words: a row with `instances` is judged by what its schema accepts.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from expert_worker.evaluate import answer as answers
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, unparsed, wrong

MAX_LENGTH = 20_000


class JsonScorer:
    def extract(self, text: str) -> str:
        return answers.json_text(text)

    def judge(self, row: Row, answer: str) -> Verdict:
        try:
            wanted = _parsed(self.extract(str(row["completion"])))
        except (ValueError, RecursionError) as error:
            raise BadRow(f"the reference answer is not JSON: {error}") from None
        if len(answer) > MAX_LENGTH:
            return wrong(f"{len(answer)} characters are too long for an answer")
        try:
            found = _parsed(answer)
        except _Twins as error:
            return wrong(str(error))
        except (ValueError, RecursionError) as error:
            return unparsed(_obstacle(answer, error))
        if same(wanted, found):
            return RIGHT
        if row.get("instances"):
            return _as_schema(wanted, found, row["instances"])
        return wrong(_difference(wanted, found, ""))

    def judge_reference(self, row: Row) -> Verdict:
        reference = self.extract(str(row["completion"]))
        verdict = self.judge(row, reference)
        accepted = _accepted(_parsed(reference), row["instances"]) if row.get("instances") else None
        if verdict.correct and accepted is not None and len(set(accepted)) == 1:
            return replace(verdict, reason="as schemas accept all `instances` of their row, or none")
        return verdict

    def result_key(self, row: Row, answer: str) -> object:
        """Its value, or which instances it accepts as a schema."""
        if len(answer) > MAX_LENGTH:
            return None
        try:
            found = _parsed(answer)
        except ValueError:
            return None
        instances = row.get("instances")
        accepted = _accepted(found, instances) if instances else None
        # Null is a value, and None would be none.
        return ("value", _canonical(found)) if accepted is None else accepted


def _obstacle(answer: str, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply to be read as JSON"
    return "several different JSON values" if answers.has_several(answer) else f"not JSON: {error}"


def _parsed(answer: str) -> Any:
    return json.loads(
        answer, object_pairs_hook=_without_twins, parse_constant=_no_constant, parse_float=_finite
    )


def _canonical(value: Any) -> object:
    """Equal texts for what `same` takes as equal."""
    if isinstance(value, dict):
        return sorted((key, repr(_canonical(part))) for key, part in value.items())
    if isinstance(value, list):
        return tuple(map(_canonical, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if value == int(value) else value
    return value


def _accepted(found: Any, instances: list[Any]) -> list[bool] | None:
    """None where it is not a schema."""
    try:
        Draft202012Validator.check_schema(found)
        asked = Draft202012Validator(found, registry=Registry())
        return [asked.is_valid(instance) for instance in instances]
    except (SchemaError, Unresolvable):
        return None


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: 1 is 1.0, but true is not 1; the order of keys says nothing."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and bool(left == right)


def _as_schema(wanted: Any, found: Any, instances: list[Any]) -> Verdict:
    """The registry is empty on purpose: a $ref to another place is not fetched."""
    if not isinstance(found, dict):
        return wrong("a JSON Schema is an object")
    try:
        Draft202012Validator.check_schema(found)
        asked = Draft202012Validator(found, registry=Registry())
        reference = Draft202012Validator(wanted, registry=Registry())
        for instance in instances:
            if asked.is_valid(instance) != reference.is_valid(instance):
                way = "refuses" if reference.is_valid(instance) else "accepts"
                return wrong(f"the schema wrongly {way} {json.dumps(instance)}")
    except SchemaError as error:
        return wrong(f"no JSON Schema: {error.message}")
    except Unresolvable as error:
        return wrong(f"the schema refers to what is not there: {error.ref}")
    return RIGHT


class _Twins(ValueError):
    """It parses, and readers would disagree on what it says."""


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Twins("a key occurs twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    """All numbers beyond a double would be one."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is out of range")
    return number


def _difference(wanted: Any, found: Any, place: str) -> str:
    """The first place where they differ."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if wanted.keys() != found.keys():
            return f"{place or 'the object'} has the keys {sorted(found)} instead of {sorted(wanted)}"
        key = next(key for key in wanted if not same(wanted[key], found[key]))
        return _difference(wanted[key], found[key], f"{place}.{key}" if place else str(key))
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        spot = next(spot for spot, pair in enumerate(zip(wanted, found, strict=True)) if not same(*pair))
        return _difference(wanted[spot], found[spot], f"{place}[{spot}]")
    return f"{place or 'the answer'} is {json.dumps(found)[:80]} instead of {json.dumps(wanted)[:80]}"
