"""Copies between training, validation and test rows, and within the training rows.

Test rows are not an input of a token cache, so a cache that is used again may have been compared with other
ones: then its rows are compared again, and its record is replaced.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from expert_worker._native import Duplicates as Found
from expert_worker._native import NativeError, compare
from expert_worker.errors import ExpertError, Failed, Interrupted
from expert_worker.events import Events
from expert_worker.plan import Data, Plan, Source
from expert_worker.pretokenize.broken_rows import FIX_OR_SKIP, bad_rows, hint_of, lines
from expert_worker.pretokenize.inputs import Inputs, recipe_for
from expert_worker.pretokenize.parts import TEST, TRAIN, VALIDATION, Part, learned_parts, test_parts
from expert_worker.pretokenize.sources import open_source, place_of_row, source_digest
from expert_worker.pretokenize.watch import watched
from expert_worker.process.work_folder import WorkFolder, create_work_folder, remove_abandoned
from expert_worker.processor import available_cores
from expert_worker.results import DataWarning, DuplicateRows, Duplicates

_SILENCE_BUDGET = 600.0
# A warning from this share of a part's rows on.
LEAK = 0.01


def compared(inputs: Inputs, events: Events, folder: Path) -> tuple[Found | None, Duplicates | None]:
    """Copies among the rows of all parts; unpacked files are written into `folder` meanwhile, or into the
    system's temporary one where that is refused. Of test files that cannot be read a warning is kept, and the
    other parts are compared without them. Training files that cannot be read are for the build to report."""
    files = _test_files(inputs.plan)
    digests = {name: digest for name, digest in files.items() if isinstance(digest, str)}
    unread = [_unread_file(name, error) for name, error in files.items() if not isinstance(error, str)]
    parts = learned_parts(inputs.plan)
    for test in test_parts(inputs.plan):
        readable = [source for source in test.sources if source.name in digests]
        if readable:
            parts.append(replace(test, sources=readable))
    found = _compare(inputs, parts, events, folder)
    if isinstance(found, ExpertError):
        unread.append(_unread_file(", ".join(digests), found))
        parts = learned_parts(inputs.plan)
        digests = {}
        found = _compare(inputs, parts, events, folder)
    if isinstance(found, ExpertError):
        return None, None
    rows = {part.name: count for part, count in zip(parts, found.rows(), strict=True)}
    data = inputs.plan.recipe.data
    counted = tuple(_counted(found, parts, rows, data))
    unread += _unread_rows(found, parts, data)
    record = Duplicates(
        rows=rows,
        test_files=digests,
        found=counted,
        data=data.model_dump(mode="json"),
        unread=tuple(unread),
    )
    return found, record


def is_current(record: Duplicates | None, plan: Plan) -> bool:
    """Whether the comparison was with the test rows of this plan, read as it says."""
    return (
        record is not None
        and record.data == plan.recipe.data.model_dump(mode="json")
        and record.test_files == test_digests(plan)
    )


def warn(record: Duplicates | None, events: Events) -> None:
    for found in record.found if record is not None else ():
        if found.leak is not None:
            events.warning("data-leak", found.leak.message, found.leak.hint)
    for unread in record.unread if record is not None else ():
        events.warning("test-rows-unread", unread.message, unread.hint)


def test_digests(plan: Plan) -> dict[str, str]:
    """Of the test files that can be read."""
    return {name: digest for name, digest in _test_files(plan).items() if isinstance(digest, str)}


def _test_files(plan: Plan) -> dict[str, str | ExpertError | OSError]:
    """Their digests, or why they cannot be read."""
    threads = plan.machine.threads.pretokenize
    return {
        source.name: _digest(source, part.places, threads)
        for part in test_parts(plan)
        for source in part.sources
    }


def _unread_file(name: str, error: ExpertError | OSError) -> DataWarning:
    reason = error.message if isinstance(error, ExpertError) else str(error)
    return DataWarning(
        message=f"The test rows of {name} are not compared with the training rows: {reason}",
        hint=getattr(error, "hint", None) or "`evaluate` needs this file: correct it.",
    )


def _unread_rows(found: Found, parts: Sequence[Part], data: Data) -> Iterator[DataWarning]:
    """Of test sets: unreadable rows of the other parts are for the build to report."""
    skips = data.on_bad_row == "skip"
    then = "does not score" if skips else "refuses"
    otherwise = "Correct these rows, or take them out of the file." if skips else FIX_OR_SKIP
    for place, part in enumerate(parts):
        problems, total = found.problems(place)
        if part.name in (TRAIN, VALIDATION) or not total:
            continue
        rows, them = ("1 row", "it") if total == 1 else (f"{total:,} rows", "them")
        message = f"{rows} of the {_named(part.name)} cannot be read, and `evaluate` {then} {them}:"
        yield DataWarning(
            message="\n".join([message, *lines(problems, total)]), hint=hint_of(problems) or otherwise
        )


def _digest(source: Source, places: Mapping[str, str], threads: int | None) -> str | ExpertError | OSError:
    if source.format == "huggingface":
        # Its name says which one it is; loading it only for its digest may need the network.
        return source.name
    try:
        return source_digest(source, places, threads)
    except (ExpertError, OSError) as error:
        return error


def _compare(inputs: Inputs, parts: Sequence[Part], events: Events, folder: Path) -> Found | ExpertError:
    names = ", ".join(source.name for part in parts for source in part.sources)
    events.stage("compare rows", _SILENCE_BUDGET, ", ".join(part.name for part in parts))
    start = time.monotonic()

    def progress(done: int, total: int, _rows: int) -> bool:
        seconds = time.monotonic() - start
        rate = done / seconds if seconds > 0 else None
        events.advance("compare rows", done, total or None, unit="bytes", rate=rate)
        return not events.stop_requested

    recipe = recipe_for(inputs, (), (), interpret=False)
    threads = inputs.plan.machine.threads.pretokenize or available_cores()
    try:
        with closing(_scratch(folder)) as scratch:
            opened = [
                [
                    (source.name, open_source(source, part.places, scratch.path / part.name))
                    for source in part.sources
                ]
                for part in parts
            ]
            with watched(events, f"Comparing the rows of {names}"):
                return compare(recipe, opened, threads, progress)
    except NativeError as error:
        if error.args[0] == "interrupted":
            raise Interrupted("Stopped while comparing rows; nothing of it is kept") from None
        code, message, problems, total = error.args
        return bad_rows(problems, total) if code == "bad_rows" else Failed(message)
    except Interrupted:
        raise
    except ExpertError as error:
        return error


def _scratch(folder: Path) -> WorkFolder:
    """Those that killed processes left are removed."""
    try:
        remove_abandoned(folder.glob(".compare-*"))
        return create_work_folder(".compare-", folder)
    except OSError:
        # The rows of a cache that is only read, or on a full disk, are compared all the same.
        remove_abandoned(Path(tempfile.gettempdir()).glob("expert-compare-*"))
        return create_work_folder("expert-compare-")


def _counted(
    found: Found, parts: Sequence[Part], rows: Mapping[str, int], data: Data
) -> Iterator[DuplicateRows]:
    """What is learned from or chosen by, copied elsewhere; copies within test rows harm nothing."""
    for part, of, exact, near, examples in found.copies():
        name, original = parts[part].name, parts[of].name
        if (name == original) != (name == TRAIN) or original not in (TRAIN, VALIDATION):
            continue
        pairs = tuple((place_of_row(*copy), place_of_row(*source)) for copy, source in examples)
        counted = DuplicateRows(
            part=name, of=original, rows=rows[name], exact=exact, near=near, examples=pairs
        )
        yield counted.model_copy(update={"leak": _leak(counted, data)})


def _leak(found: DuplicateRows, data: Data) -> DataWarning | None:
    is_within = found.part == found.of
    # Rows that are not learned cannot be learned and held out.
    dropped = found.exact if is_within and data.deduplicate else 0
    exact, rows = found.exact - dropped, found.rows - dropped
    count = exact + found.near
    if count < LEAK * rows:
        return None
    share = f"{count / rows:.1%}; {exact:,} exact, {found.near:,} near"
    counts = f"{count:,} of {rows:,} rows ({share})"
    pairs = "; ".join(f"{copy} copies {original}" for copy, original in found.examples)
    # Some of the pairs may be of rows that are dropped.
    shown = "" if dropped else f": {pairs}"
    if not is_within:
        return DataWarning(
            message=f"{counts} of the {_named(found.part)} are copies of {found.of} rows{shown}",
            hint="Remove them from one of the two: a score on learned rows says nothing about new ones.",
        )
    if data.validation_split and not data.drop_near_copies:
        return DataWarning(
            message=f"{counts} of the training data repeat earlier ones, and validation_split may hold out "
            f"one of two copies{shown}",
            hint='Set training.dataset.validation.deduplicate to "near", or name a validation file.',
        )
    return None


def _named(part: str) -> str:
    return (
        f"{part} data" if part in (TRAIN, VALIDATION) else "test set" if part == TEST else f"test set {part}"
    )
