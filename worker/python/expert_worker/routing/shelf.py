"""The router of a shelf: read from its file, or learnt from the experts' rows, measured and written there."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from expert_worker.errors import BadInput
from expert_worker.evaluate.rows import canonical_row
from expert_worker.plan import Source
from expert_worker.pretokenize.preview import rows_as_json
from expert_worker.routing.features import prompt_of
from expert_worker.routing.models import PromptOverlap, RoutedExpert, RoutedShare, RouterRecord, Shelf
from expert_worker.routing.router import Examples, Router, everyday_prompts

# Of each file: the router learns from some hundred rows of an expert.
_MOST_ROWS = 20_000
_MOST_TEST_ROWS = 1_000
# Experts with this share of the same prompts are confused.
_SAME = 0.5
# An expert with a smaller share of its test rows than this is named in a warning.
_WEAK = 0.8
# Routers of shelves as they were; each is some hundred kB.
_FILES_KEPT = 16


@dataclass(frozen=True)
class Opened:
    router: Router
    record: RouterRecord
    learnt: bool
    # Sentences for the user.
    warnings: tuple[str, ...]


def open_router(shelf: Shelf) -> Opened:
    path = Path(shelf.file)
    router = Router.load(path)
    record = None if router is None else _record(router, shelf)
    if router is not None and record is not None:
        return Opened(router, record, False, tuple(_doubts(record)))
    examples = [_examples(expert) for expert in shelf.experts]
    learnt = Router.learn(examples)
    record = _measured(learnt, shelf, examples)
    router = replace(learnt, notes=record.model_dump(mode="json"))
    warnings = _doubts(record)
    try:
        router.save(path)
        _remove_old(path)
    except OSError as error:
        reason = error.strerror or str(error)
        warnings.append(
            f"the router cannot be kept in {path.parent}, and is learnt again next time: {reason}"
        )
    return Opened(router, record, True, tuple(warnings))


def _record(router: Router, shelf: Shelf) -> RouterRecord | None:
    if router.experts != tuple(expert.name for expert in shelf.experts):
        return None
    try:
        return RouterRecord.model_validate_json(json.dumps(router.notes))
    except ValidationError:
        return None


def _remove_old(path: Path) -> None:
    others = [file for file in path.parent.glob("*.safetensors") if file != path]
    for old in sorted(others, key=lambda file: file.stat().st_mtime, reverse=True)[_FILES_KEPT - 1 :]:
        for file in (old, old.with_suffix(".json")):
            file.unlink(missing_ok=True)


def _doubts(record: RouterRecord) -> list[str]:
    """Where the router is not to be relied on."""
    weak = [
        f"the router sends only {share.right} of {share.rows} test rows of {share.name} to it: they resemble "
        "everyday prompts or those of another expert"
        for share in record.experts
        if share.right < _WEAK * share.rows
    ]
    same = [
        f"{' and '.join(overlap.experts)} have {overlap.share:.0%} of their prompts in common: "
        "the router confuses them"
        for overlap in record.overlaps
    ]
    return same + weak


def _examples(expert: RoutedExpert) -> Examples:
    prompts = _prompts(expert.train, expert, _MOST_ROWS)
    if not prompts:
        names = ", ".join(source.name for source in expert.train)
        raise BadInput(
            f"{expert.name} has no row with a prompt in {names}: the router learns from the prompts of the "
            "training rows",
            hint="Name the fields in training.dataset.field_mapping.",
            code="no-prompts",
        )
    hints = expert.hints
    return Examples(expert.name, prompts, tuple(hints.keywords), tuple(hints.exclude_keywords))


def _prompts(sources: Sequence[Source], expert: RoutedExpert, most: int) -> list[str]:
    rows = (row for source in sources for row in _rows(source, expert, most))
    return [prompt for row in rows if (prompt := _prompt(row, expert.field_mapping))]


def _rows(source: Source, expert: RoutedExpert, most: int) -> Iterator[str]:
    try:
        yield from itertools.islice(rows_as_json(source, expert.data, most), most)
    except ValueError as error:
        raise BadInput(f"{expert.name}: {source.name} cannot be read: {error}", code="data-damaged") from None


def _prompt(row: str, mapping: Mapping[str, str]) -> str | None:
    """None for a row that training would leave out too, or that has no user."""
    try:
        raw = json.loads(row)
        prompt = prompt_of(canonical_row(raw, mapping)["messages"]) if isinstance(raw, dict) else ""
    except (BadInput, ValueError, RecursionError):
        return None
    return prompt if prompt.strip() else None


def _measured(router: Router, shelf: Shelf, examples: Sequence[Examples]) -> RouterRecord:
    shares = [
        _share(router, expert.name, _prompts(expert.test, expert, _MOST_TEST_ROWS), expert.name)
        for expert in shelf.experts
    ]
    return RouterRecord(
        experts=tuple(shares),
        none=_share(router, "everyday prompts", everyday_prompts("test"), None),
        overlaps=tuple(_overlaps(examples)),
    )


def _share(router: Router, name: str, prompts: Sequence[str], wanted: str | None) -> RoutedShare:
    right = sum(router.route(prompt).expert == wanted for prompt in prompts)
    return RoutedShare(name=name, rows=len(prompts), right=right)


def _overlaps(shelf: Sequence[Examples]) -> Iterator[PromptOverlap]:
    prompts = [(examples.expert, frozenset(examples.prompts)) for examples in shelf]
    for (one, its), (other, others) in itertools.combinations(prompts, 2):
        share = len(its & others) / min(len(its), len(others))
        if share >= _SAME:
            yield PromptOverlap(experts=(one, other), share=share)
