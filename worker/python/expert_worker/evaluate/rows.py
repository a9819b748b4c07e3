"""Rows to score: one mapping each, with question, reference answer and the scorer's other fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from expert_worker.errors import BadInput
from expert_worker.evaluate.verdict import Row
from expert_worker.plan import Plan
from expert_worker.plan.recipe import Source

Message = dict[str, str]
NEEDED = "a scored row needs a prompt and a completion, an instruction and an output, or messages"


T = TypeVar("T")


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of the items, at even distances: a file may be sorted by what its rows are about."""
    wanted = min(count, len(items))
    return [items[place * len(items) // wanted] for place in range(wanted)]


def rows_of(plan: Plan, sources: Sequence[Source], limit: int | None = None) -> list[Row]:
    """Rows of these sources in file order, each with `messages` (the question) and `completion`."""
    found: list[Row] = []
    for source in sources:
        for number, raw in enumerate(_raw_rows(plan, source), 1):
            if limit is not None and len(found) >= limit:
                return found
            found.append(_canonical(raw, plan.recipe.data.field_mapping, f"{source.name}:{number}"))
    return found


def _raw_rows(plan: Plan, source: Source) -> Iterator[Mapping[str, Any]]:
    path = plan.machine.paths.data.get(source.name)
    if source.format == "jsonl" and path is not None:
        yield from _json_lines(Path(path))
        return
    from datasets import load_dataset

    if source.format == "huggingface":
        name, split, config = [*source.name.split("::"), "", ""][:3]
        yield from load_dataset(name, config or None, split=split or "train")
        return
    if path is None:
        raise BadInput(f"The plan does not say where {source.name} is", code="bad-plan")
    yield from load_dataset(source.format, data_files=path, split="train")


def _json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise BadInput(f"{path}:{number}: this line is not JSON: {error}", code="bad-row") from None
            if not isinstance(row, dict):
                raise BadInput(f"{path}:{number}: a row must be an object", code="bad-row")
            yield row


def _canonical(raw: Mapping[str, Any], mapping: Mapping[str, str], place: str) -> Row:
    row = {**raw, **{name: _dotted(raw, path) for name, path in mapping.items()}}
    messages, completion = _conversation(row, place)
    if not isinstance(completion, str) or not messages:
        raise BadInput(
            f"{place}: {NEEDED}", hint="Name the fields in training.dataset.field_mapping.", code="bad-row"
        )
    return {**row, "messages": messages, "completion": completion}


def _conversation(row: Mapping[str, Any], place: str) -> tuple[list[Message], Any]:
    if isinstance(row.get("messages"), list) and row["messages"]:
        turns = [{"role": str(turn["role"]), "content": str(turn["content"])} for turn in row["messages"]]
        if turns[-1]["role"] != "assistant":
            raise BadInput(f"{place}: the last message must be the assistant's", code="bad-row")
        return turns[:-1], turns[-1]["content"]
    if isinstance(row.get("prompt"), str):
        return [{"role": "user", "content": row["prompt"]}], row.get("completion")
    question = row.get("instruction", row.get("input"))
    if isinstance(question, dict):
        question = "\n".join(str(part) for part in question.values())
    extra = row.get("input") if "instruction" in row else None
    text = "\n\n".join(str(part) for part in (question, extra) if part)
    return ([{"role": "user", "content": text}] if text else []), row.get("output", row.get("response"))


def _dotted(raw: Mapping[str, Any], path: str) -> Any:
    value: Any = raw
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
