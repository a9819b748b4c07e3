"""The plan's token cache: reused where it is whole, built where it is not."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.errors import BadInput, storage_error
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.pretokenize import duplicates
from expert_worker.pretokenize.build import Builder, rendering
from expert_worker.pretokenize.cache import Cache, open_cache
from expert_worker.pretokenize.coder import find_coder
from expert_worker.pretokenize.encoder_cost import cost, record, warn
from expert_worker.pretokenize.foreign import foreign_cache
from expert_worker.pretokenize.inputs import Inputs, gather
from expert_worker.pretokenize.read_files import unchanged
from expert_worker.pretokenize.record import FILE, damage, is_cache_folder, read_description, sealed
from expert_worker.pretokenize.thoughts import FIELDS, warn_of_thoughts
from expert_worker.pretokenize.watch import watched
from expert_worker.process.builder_lock import builder_lock
from expert_worker.results import CacheRecord
from expert_worker.slow_disk import warn_if_slow

_DIGEST_BUDGET = 600.0
REUSED = "Loading pre-tokenized dataset from cache"


def ensure_cache(plan: Plan, events: Events, *, root: Path | None = None, force: bool = False) -> Cache:
    """The cache of this plan's data, tokenizer, template and lengths; in `root` or the folder
    that the plan names. `force` builds it again."""
    root = root or Path(plan.machine.paths.cache)
    if (foreign := _foreign(plan, root, events)) is not None:
        return foreign
    inputs = gather(plan, events)
    warn_of_thoughts(inputs, events)
    target = root / inputs.key
    if not force and (found := _existing(inputs, target, events)) is not None:
        return found
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = root / f".{inputs.key}.lock"
        with builder_lock(lock, events, "another process is building this token cache") as alone:
            # Another builder may have finished it while this one waited.
            if not force and (found := _existing(inputs, target, events)) is not None:
                return found
            _build(inputs, target, events, force=force, alone=alone)
    except OSError as error:
        raise storage_error(
            error, "build the token cache", "with training.config.pretokenized_cache"
        ) from error
    built = read_description(target)
    if built is None:
        raise BadInput(
            f"The token cache in {target} was changed while it was being built", code="cache-changed"
        )
    _name_unused_fields(built, events)
    return open_cache(target, built, existed=False)


def find_cache(plan: Plan, key: str, events: Events) -> Cache | None:
    """The whole cache of this key in the folder that the plan names; it is not built."""
    root = Path(plan.machine.paths.cache)
    if (foreign := _foreign(plan, root, events)) is not None:
        return foreign if foreign.key == key else None
    found = _undamaged(root / key, events)
    return open_cache(root / key, found, existed=True) if found is not None else None


def _foreign(plan: Plan, root: Path, events: Events) -> Cache | None:
    paths = plan.machine.paths
    base = Path(paths.base) if paths.base is not None else None
    return foreign_cache(root, Path(paths.home), base, events)


# As the rows' reader names what an answer says before its content.
_THOUGHTS = tuple(f"messages.{name}" for name in FIELDS)
# As the rows' reader names flags that ask for more than `train_on` does.
_NOT_LEARNED = " of earlier answers"


def _name_unused_fields(cache: CacheRecord, events: Events) -> None:
    """Fields that nothing is read from, so that nobody takes them for learned. Most are ids and tags: no
    warning. Thoughts are a part of the answer, and flags say what is wanted."""
    for source in cache.sources:
        for name, count in source.unused_fields.items():
            rows = f"{count:,} {'row' if count == 1 else 'rows'} of {source.name}"
            if name in _THOUGHTS:
                _warn_of_thoughts(rows, name.removeprefix("messages."), events)
            elif name.endswith(_NOT_LEARNED):
                _warn_of_flags(rows, name.removeprefix("messages.").removesuffix(_NOT_LEARNED), events)
        fields = [
            f'"{name}" ({count:,} {"row" if count == 1 else "rows"})'
            for name, count in source.unused_fields.items()
        ]
        if fields:
            note = f"Not used in {source.name}: {', '.join(fields)}"
            events.applied("data.unused_fields", dict(source.unused_fields), note)


def _warn_of_thoughts(rows: str, name: str, events: Events) -> None:
    events.warning(
        "reasoning-not-learned",
        f'{rows}: the chat template does not print "{name}", so answers are learned without it',
        "Choose a base or a prompt_template that prints it, such as qwen3, or write the thoughts into the "
        "content.",
    )


def _warn_of_flags(rows: str, name: str, events: Events) -> None:
    events.warning(
        "answers-not-learned",
        f'{rows}: "{name}" asks to learn answers before the last one, and only the last one is learned',
        'Set training.dataset.train_on to "assistant" to learn all answers except those of weight 0.',
    )


def _existing(inputs: Inputs, target: Path, events: Events) -> Cache | None:
    found = _undamaged(target, events)
    if found is None:
        return None
    _name_unused_fields(found, events)
    found = _compared(inputs, target, found, events)
    duplicates.warn(found.duplicates, events)
    return open_cache(target, found, existed=True)


def _undamaged(target: Path, events: Events) -> CacheRecord | None:
    found = read_description(target)
    if found is None:
        return None
    events.stage("token cache", _DIGEST_BUDGET, "Checking the cached dataset")
    hint = "Set training.config.pretokenized_cache to a folder on a local disk."
    warn_if_slow("the token cache", target, hint, events)
    if damage(target, found) is not None:
        return None
    events.stage("token cache", detail=REUSED)
    return found


def _compared(inputs: Inputs, target: Path, cache: CacheRecord, events: Events) -> CacheRecord:
    """The record, with the cache's rows compared with the test rows as they are now, and the files that they
    were read from and rendered by."""
    current = duplicates.is_current(cache.duplicates, inputs.plan)
    known = current and inputs.files in ((), cache.read_files)
    by = rendering(inputs)
    if known and (cache.rendered_by, cache.tokenizer_files) == (by["rendered_by"], by["tokenizer_files"]):
        return cache
    try:
        found = cache.duplicates if current else duplicates.compared(inputs, events, target)[1]
    except OSError as error:
        raise storage_error(error, "unpack the rows to compare them", "with TMPDIR") from error
    read = cache.read_files if known else unchanged(inputs.files, inputs.plan)
    cache = cache.model_copy(update={"duplicates": found, "read_files": read, **by})
    if found is not None:
        # In a folder that is only read, the rows are compared for this run alone.
        with suppress(OSError):
            files.replace(target / FILE, sealed(cache))
    return cache


def _build(inputs: Inputs, target: Path, events: Events, *, force: bool, alone: bool) -> None:
    _refuse_unknown(target)
    _say_why(inputs, target, events, force=force)
    with watched(events, f"The tokenizer of {inputs.plan.recipe.base.name}"):
        coder = find_coder(inputs.vocabulary, inputs.template, Path(inputs.plan.machine.paths.home), events)
        slow = cost(inputs, coder)
    warn(slow, events)
    record(slow, inputs)
    files.build_folder(target, Builder(inputs, coder, slow, events).fill, alone=alone)


def _refuse_unknown(target: Path) -> None:
    if target.exists() and not (target / FILE).is_file() and not is_cache_folder(target):
        raise BadInput(
            f"{target} is in the way and is not a token cache",
            hint="Move it away, or set pretokenized_cache to another folder.",
            code="cache-in-the-way",
        )


def _say_why(inputs: Inputs, target: Path, events: Events, *, force: bool) -> None:
    """What is wrong with the cache that is here, or differs from the newest other one."""
    if target.exists():
        if force:
            events.stage("token cache", detail="Building it again, as asked")
            return
        known = read_description(target)
        reason = (
            "cache.json is missing, changed or of another version" if known is None else damage(target, known)
        )
        events.warning("cache-rebuilt", f"The token cache {target} is not used: {reason}. It is built again")
        return
    others = [path for path in target.parent.glob(f"*/{FILE}") if path.parent != target]
    if not others:
        return
    newest = max(others, key=lambda path: path.stat().st_mtime)
    known = read_description(newest.parent)
    if known is None:
        return
    changed = [name for name, value in inputs.parts.items() if known.inputs.get(name) != value]
    events.stage("token cache", detail=f"Tokenizing again: {', '.join(changed)} changed since the last cache")
