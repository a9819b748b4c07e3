"""Builds a cache in a temporary folder; `ensure` decides when, and publishes it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expert_worker._native import Build, NativeError, ingest
from expert_worker.checkpoint import files
from expert_worker.errors import BadInput, storage_error
from expert_worker.events import Events
from expert_worker.events.models import StageName
from expert_worker.plan import Source
from expert_worker.pretokenize import duplicates
from expert_worker.pretokenize.broken_rows import bad_rows, left_out
from expert_worker.pretokenize.coder import Coder
from expert_worker.pretokenize.inputs import Inputs, by_task, recipe_for, refuse_changed
from expert_worker.pretokenize.lost_rows import PRINT_THOUGHTS
from expert_worker.pretokenize.native_errors import in_words
from expert_worker.pretokenize.read_files import tokenizer_files, unchanged
from expert_worker.pretokenize.record import (
    DATA_FILE,
    FILE,
    FORMAT,
    sealed,
)
from expert_worker.pretokenize.save_to_disk import write_descriptions
from expert_worker.pretokenize.sources import open_source, place_of_row
from expert_worker.pretokenize.template import fails_by_itself, template_fails
from expert_worker.pretokenize.watch import watched
from expert_worker.processor import available_cores
from expert_worker.results import CacheRecord, Duplicates, EncoderCost, SourceCounts, SplitStatistics

if TYPE_CHECKING:
    from expert_worker._native import Duplicates as NearCopies
    from expert_worker._native import Problem, Totals

_SILENCE_BUDGET = 120.0
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass
class Builder:
    inputs: Inputs
    coder: Coder
    # What the slow path of encoding costs, where it is used.
    slow: EncoderCost | None
    events: Events

    def fill(self, folder: Path) -> None:
        """Everything that the finished cache holds; the folder is there and empty."""
        try:
            self._fill(folder)
        except OSError as error:
            raise storage_error(
                error, "write the token cache", "with training.config.pretokenized_cache"
            ) from error

    def _fill(self, folder: Path) -> None:
        data = self.inputs.plan.recipe.data
        ledgers, splits = [], {}
        found, record = duplicates.compared(self.inputs, self.events, folder)
        duplicates.warn(record, self.events)
        near = found if data.drop_near_copies else None
        build = self._ingest(data.train, folder, "train", without=near)
        held_out = data.validation_split if not data.validation else None
        shares, repeat = _shares(data.train), data.stopping_strategy == "all_exhausted"
        if repeat:
            _refuse_endless_repeats(data.train, _ledgers(build, "train"))
        build.divide(seed=self.inputs.plan.recipe.seed, shares=shares, held_out=held_out, repeat=repeat)
        ledgers += _ledgers(build, "train")
        _refuse_empty_task(data.train, ledgers)
        _refuse_nothing(ledgers)
        splits["train"] = self._write(build, folder / "train", held_out=False)
        if held_out:
            splits["validation"] = self._write(build, folder / "validation", held_out=True)
        # It maps the spill, and Windows neither empties nor removes a file that is mapped.
        del build
        if data.validation:
            build = self._ingest(data.validation, folder, "validation")
            build.divide(seed=self.inputs.plan.recipe.seed, shares=[], held_out=None, repeat=False)
            ledgers += _ledgers(build, "validation")
            splits["validation"] = self._write(build, folder / "validation", held_out=False)
            del build
        (folder / _SPILL).unlink()
        refuse_changed(self.inputs, self.events)
        self._describe(folder, ledgers, splits, record)

    def _ingest(
        self, sources: Sequence[Source], folder: Path, split: str, *, without: NearCopies | None = None
    ) -> Build:
        plan, coder = self.inputs.plan, self.coder
        scratch = folder / _UNPACKED
        named = [(source.name, open_source(source, plan.machine.paths.data, scratch)) for source in sources]
        names = ", ".join(source.name for source in sources)
        self.events.stage("tokenize", _SILENCE_BUDGET, split)
        progress = _Progress(self.events, "tokenize", "bytes")

        def run(interpret: bool) -> Build:
            recipe = recipe_for(self.inputs, coder.prefix, coder.suffix, interpret=interpret)
            with watched(
                self.events,
                f"Tokenizing {names} with the chat template and tokenizer of {plan.recipe.base.name}",
            ):
                spill, threads = str(folder / _SPILL), self._threads()
                return ingest(recipe, coder.work, named, without, spill, threads, progress)

        try:
            build = run(interpret=False)
        except NativeError as error:
            if error.args[0] != "template_drift":
                raise in_words(error) from None
            self.events.warning(
                "template-interpreted", "The chat template is interpreted row by row: slower, exact"
            )
            shutil.rmtree(scratch, ignore_errors=True)
            named = [
                (source.name, open_source(source, plan.machine.paths.data, scratch)) for source in sources
            ]
            build = run(interpret=True)
        shutil.rmtree(scratch, ignore_errors=True)
        self._judge(build, split)
        self._warn_about_dialogues(build)
        self._warn_of_unanswered(build)
        self._warn_of_thoughts(build)
        return build

    def _judge(self, build: Build, split: str) -> None:
        problems, total = build.problems()
        if not total:
            return
        if split == "train":
            self._refuse_failing_template(build, problems)
        if self.inputs.plan.recipe.data.on_bad_row == "error":
            raise bad_rows(problems, total)
        self.events.warning("bad-rows-skipped", left_out(problems, total))

    def _refuse_failing_template(self, build: Build, problems: Sequence[Problem]) -> None:
        code, message, _, count, _ = problems[0]
        read = sum(ledger["read"] for ledger in build.ledgers())
        if code == "template_failed" and count == read and fails_by_itself(self.inputs.template, message):
            recipe = self.inputs.plan.recipe
            raise template_fails(recipe.template, recipe.base.name, message)

    def _warn_about_dialogues(self, build: Build) -> None:
        parsed = sum(ledger["parsed_dialogues"] for ledger in build.ledgers())
        if parsed:
            self.events.warning(
                "dialogues-parsed",
                f"{parsed} texts are dialogues that some template has rendered: they are taken apart and "
                "rendered by this base's own template",
                'Set training.dataset.text_dialogue to "raw" to learn such texts as they stand.',
            )

    def _warn_of_unanswered(self, build: Build) -> None:
        count = sum(ledger["unanswered"] for ledger in build.ledgers())
        rows = "1 row ends" if count == 1 else f"{count:,} rows end"
        self._warn_of_rows(
            count,
            "messages-unanswered",
            f"{rows} with messages that have no answer; these messages are left out",
            build.first_unanswered(),
            "Complete such rows if an answer is missing. "
            'Set training.dataset.train_on to "all" to learn every message.',
        )

    def _warn_of_thoughts(self, build: Build) -> None:
        count = sum(ledger["thoughts_left_out"] for ledger in build.ledgers())
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        self._warn_of_rows(
            count,
            "thoughts-left-out",
            f"{rows} thoughts (<think>) in answers that the chat template leaves out: prompts and learned "
            "answers are without them",
            build.first_thoughts_left_out(),
            PRINT_THOUGHTS,
        )

    def _warn_of_rows(
        self, count: int, code: str, message: str, first: tuple[str, int] | None, hint: str
    ) -> None:
        """Of rows that are used: `first` may be one that a mixture leaves out, with all others."""
        if count and first is not None:
            self.events.warning(code, f"{message}. The first is {place_of_row(*first)}", hint)

    def _write(self, build: Build, folder: Path, *, held_out: bool) -> SplitStatistics:
        batch = self.inputs.plan.recipe.batch
        folder.mkdir()
        self.events.stage("pack", _SILENCE_BUDGET, folder.name)
        capacity = batch.max_seq_length if batch.packing else None
        path = folder / DATA_FILE
        try:
            totals = build.write(
                str(path),
                held_out=held_out,
                capacity=capacity,
                share=batch.share_prefixes,
                threads=self._threads(),
                progress=_Progress(self.events, "pack", "rows"),
            )
        except NativeError as error:
            raise in_words(error) from None
        write_descriptions(folder, folder.name, self.inputs.key)
        return _statistics(build, totals, capacity, path, held_out=held_out)

    def _describe(
        self,
        folder: Path,
        ledgers: list[SourceCounts],
        splits: dict[str, SplitStatistics],
        found: Duplicates | None,
    ) -> None:
        record = CacheRecord(
            format=FORMAT,
            key=self.inputs.key,
            inputs=self.inputs.parts,
            template=self.inputs.template,
            encoder=self.coder.kind,
            slow_encoder=self.slow,
            duplicates=found,
            read_files=unchanged(self.inputs.files, self.inputs.plan),
            **rendering(self.inputs),
            sources=tuple(ledgers),
            splits=splits,
        )
        files.write(folder / FILE, [sealed(record)])

    def _threads(self) -> int:
        return self.inputs.plan.machine.threads.pretokenize or available_cores()


_SPILL = "spill.bin"
_UNPACKED = "unpacked"


def rendering(inputs: Inputs) -> dict[str, Any]:
    """What the record says of the template and the tokenizer: by it `plan` knows its own cache."""
    return {
        "rendered_by": inputs.plan.recipe.template.model_dump(mode="json"),
        "tokenizer_files": tokenizer_files(inputs.vocabulary.folder),
    }


class _Progress:
    def __init__(self, events: Events, stage: StageName, unit: str) -> None:
        self._events, self._stage, self._unit = events, stage, unit
        self._start = time.monotonic()

    def __call__(self, done: int, total: int, _rows: int) -> bool:
        seconds = time.monotonic() - self._start
        rate = done / seconds if seconds > 0 else None
        self._events.advance(self._stage, done, total or None, unit=self._unit, rate=rate)
        return not self._events.stop_requested


def _shares(sources: Sequence[Source]) -> list[tuple[int, float]]:
    """Of each task of a mixture, the number of its files and its share; none where everything is taken."""
    tasks = by_task(sources)
    if len(tasks) < 2 or all(files[0].weight == 1.0 for files in tasks):
        return []
    return [(len(files), files[0].weight) for files in tasks]


def _ledgers(build: Build, split: Any) -> list[SourceCounts]:
    out = []
    for found in build.ledgers():
        counts: dict[str, Any] = dict(found)
        counts["split_rows"], counts["supervised_tokens"] = counts.pop("split"), counts.pop("supervised")
        out.append(SourceCounts(**counts, split=split))
    return out


_LOOK = "Check the data, max_seq_length and train_on; `pretokenize --preview 5` shows what is learned."
# Where every row was left out for one reason: what to set.
_NOTHING = {
    "dropped_long": "Raise training.dataset.validation.max_length: no row has so few characters.",
    "dropped_short": "Lower training.dataset.validation.min_length: no row has so many characters.",
    "dropped_overlong": 'Raise max_seq_length, or set training.dataset.overlong to "truncate".',
    "dropped_unsupervised": "No answer begins before max_seq_length: raise it, or set "
    'training.dataset.overlong to "keep_end", which cuts the beginnings of long rows. '
    "`pretokenize --preview 5` shows what is learned.",
}


def _only(reasons: Mapping[str, int]) -> str:
    found = [name for name, count in reasons.items() if count]
    return found[0] if len(found) == 1 else ""


def _refuse_empty_task(sources: Sequence[Source], ledgers: Sequence[SourceCounts]) -> None:
    """Every task has its share of each row that is used: of one without rows, the others have none either."""
    if any(ledger.used for ledger in ledgers) or not any(ledger.dropped_mixture for ledger in ledgers):
        return
    for task, counts in _counts_by_task(sources, ledgers):
        if task[0].weight > 0 and not any(count.dropped_mixture for count in counts):
            raise _empty(counts, "the other tasks are taken in proportion to it")


def _counts_by_task(
    sources: Sequence[Source], ledgers: Sequence[SourceCounts]
) -> Iterator[tuple[list[Source], list[SourceCounts]]]:
    found = {ledger.name: ledger for ledger in ledgers}
    for task in by_task(sources):
        counts = [found[source.name] for source in task if source.name in found]
        if counts:
            yield task, counts


def _empty(counts: Sequence[SourceCounts], why: str) -> BadInput:
    """A task that has a share, and no rows."""
    names = ", ".join(count.name for count in counts)
    reasons = _reasons(counts)
    return BadInput(
        f"The task of {names} has no row left{_in_words(reasons)}, and {why}",
        hint=f"{_NOTHING.get(_only(reasons), _LOOK)} With a weight of 0 in training.dataset.weights "
        "the task is left out.",
        code="nothing-to-learn",
    )


# A row that is learned more often than this in one epoch is known by heart; such weights are a mistake.
_MOST_TIMES = 1000


def _refuse_endless_repeats(sources: Sequence[Source], ledgers: Sequence[SourceCounts]) -> None:
    """Before rows are repeated: all of a task's rows are there."""
    tasks = [
        (task, sum(count.used for count in counts), counts)
        for task, counts in _counts_by_task(sources, ledgers)
    ]
    total = max(used / task[0].weight for task, used, _ in tasks)
    for task, used, counts in tasks:
        if not used:
            raise _empty(counts, "none of its rows can be repeated")
        times = total * task[0].weight / used
        if times > _MOST_TIMES:
            names = ", ".join(count.name for count in counts)
            raise BadInput(
                f"The weights ask for each of the {used:,} rows of {names} {times:,.0f} times",
                hint="Lower the task's weight in training.dataset.weights, add rows to it, or set "
                'training.dataset.stopping_strategy to "first_exhausted".',
                code="task-repeated",
            )


def _refuse_nothing(ledgers: Sequence[SourceCounts]) -> None:
    if any(ledger.used for ledger in ledgers):
        return
    names = ", ".join(ledger.name for ledger in ledgers)
    read = sum(ledger.read for ledger in ledgers)
    reasons = _reasons(ledgers)
    raise BadInput(
        f"There is nothing to learn from in {names}: {read} rows read{_in_words(reasons)}",
        hint=_NOTHING.get(_only(reasons), _LOOK),
        code="nothing-to-learn",
    )


def _reasons(ledgers: Sequence[SourceCounts]) -> dict[str, int]:
    """Why rows are not used, and how many."""
    return {
        name: sum(getattr(ledger, name) for ledger in ledgers)
        for name in SourceCounts.model_fields
        if name == "bad" or name.startswith("dropped")
    }


def _in_words(reasons: Mapping[str, int]) -> str:
    named = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in reasons.items() if count)
    return f" ({named})" if named else ""


def _statistics(
    build: Build, totals: Totals, capacity: int | None, path: Path, *, held_out: bool
) -> SplitStatistics:
    room = totals["rows"] * capacity if capacity else 0
    return SplitStatistics(
        rows=totals["rows"],
        documents=totals["documents"],
        tokens=totals["tokens"],
        shared_tokens=totals["shared"],
        supervised_tokens=totals["supervised"],
        fill=totals["tokens"] / room if room else None,
        length_histogram=tuple(build.length_histogram(held_out)),
        length_quantiles=tuple(build.length_quantiles(held_out, _QUANTILES)),
        bytes=path.stat().st_size,
        sha256=files.sha256(path),
    )
