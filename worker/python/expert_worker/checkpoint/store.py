"""The checkpoints of one run: committed whole or not at all, found again only if every byte is as written."""

import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from expert_worker.checkpoint import files, record, tensors
from expert_worker.checkpoint.record import DamagedError
from expert_worker.checkpoint.refusal import human, refusals_in_words
from expert_worker.checkpoint.retention import doomed
from expert_worker.checkpoint.unpack import is_packed, unpack
from expert_worker.checkpoint.verify import verify
from expert_worker.errors import Failed, Storage
from expert_worker.events import Events
from expert_worker.results import CheckpointFacts, CheckpointRecord, FileDigest

Content = Mapping[str, torch.Tensor] | Mapping[str, Any] | bytes
"""Tensors under a name that ends in .safetensors, a JSON document under .json, or plain bytes."""

_NAME = re.compile(record.FOLDER)
_ASIDE = re.compile(rf"{record.FOLDER}\.(damaged|superseded)")
# What a run replaces as a whole, and may leave under a temporary name.
_OWN = re.compile(rf"{record.FOLDER}(\.(damaged|superseded))?|final|(run|evaluation)\.json|report\.html")


@dataclass(frozen=True)
class Loaded:
    """A checkpoint that has been verified."""

    path: Path
    record: CheckpointRecord

    @property
    def step(self) -> int:
        return self.record.step

    @property
    def facts(self) -> CheckpointFacts:
        return self.record.facts

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        return tensors.decode(self.path / name)

    def json(self, name: str) -> Any:
        return files.read_json(self.path / name)


class Store:
    def __init__(self, output: Path, events: Events) -> None:
        self.output = output
        self._events = events

    def open(self) -> None:
        """Make the folder and clear what a killed attempt left half-made."""
        with self._storage("prepare the output folder"):
            self.output.mkdir(parents=True, exist_ok=True)
            files.remove_leftovers(self.output, _OWN)

    def commit(self, step: int, parts: Mapping[str, Content], facts: CheckpointFacts) -> Path:
        """Returns when the checkpoint is durable; a crash before that leaves the older ones as they were.

        One that is there and whole is left alone: a step has one state, and replacing would put it at risk.
        """
        began = time.monotonic()
        target = self.path(step)
        if target.is_dir() and _is_whole(target):
            return target
        with self._storage(f"save {target.name}", needed=lambda: _size(parts)):
            files.build_folder(target, lambda folder: _fill(folder, step, parts, facts))
            self._forget_set_aside(step)
            size = files.folder_bytes(target)
        seconds = time.monotonic() - began
        self._events.checkpoint(step, target, size, seconds)
        return target

    def record_evaluation(
        self, step: int, totals: Mapping[str, Any], metrics: Mapping[str, float]
    ) -> Path | None:
        """Adds to a checkpoint the evaluation that it was saved without; only its record is written, in one
        rename. None where it is not there or not whole."""
        target = self.path(step)
        try:
            found = verify(target)
        except DamagedError:
            return None
        given = {name: value for name, value in found.facts if name in found.facts.model_fields_set}
        del given["evaluation_owed"]
        facts = CheckpointFacts(**given | {"totals": dict(totals), "metrics": dict(metrics)})
        evaluated = found.model_copy(update={"facts": facts})
        with self._storage(f"record the evaluation of {target.name}"):
            files.replace(target / record.NAME, record.sealed(evaluated))
        return target

    def drop(self, step: int) -> None:
        with self._storage("delete a checkpoint that is not to be kept"):
            if self.path(step).is_dir():
                files.discard_folder(self.path(step))

    def path(self, step: int) -> Path:
        return self.output / f"checkpoint-{step}"

    def candidates(self) -> list[Path]:
        """Every folder that has a checkpoint's name, oldest first, whole or not."""
        if not self.output.is_dir():
            return []
        named = [p for p in self.output.iterdir() if _NAME.fullmatch(p.name) and p.is_dir()]
        return sorted(named, key=step_of)

    def newest_valid(self, best_of: Callable[[Loaded], int | None] = lambda _: None) -> Loaded | None:
        """None only if there is no candidate at all: an unreadable past is never a silent fresh start.
        `best_of` says at which step a checkpoint's run was best: that checkpoint must be whole too, as the
        run may end with it."""
        skipped: list[tuple[Path, DamagedError, str]] = []
        for path in reversed(self.candidates()):
            try:
                loaded = _verified(path)
            except DamagedError as damage:
                skipped.append((path, damage, "damaged"))
                continue
            try:
                self._verify_best(best_of(loaded), loaded)
            except DamagedError as damage:
                skipped.append((path, damage, "superseded"))
                continue
            for bad, reason, why in skipped:
                self._set_aside(bad, why)
                self._report_damage(bad, reason, loaded.step)
            return loaded
        if skipped:
            raise _none_verifies(skipped)
        return None

    def _verify_best(self, step: int | None, loaded: Loaded) -> None:
        if step is None or step == loaded.step:
            return
        best = self.path(step)
        try:
            _verified(best)
        except DamagedError as damage:
            raise DamagedError(f"the best one at that time, {best.name}, cannot be used: {damage}") from None

    def load(self, path: Path) -> Loaded:
        try:
            return _verified(path)
        except DamagedError as damage:
            raise self._unusable(path, damage) from None

    def named(self, path: Path) -> Loaded:
        """The checkpoint that `--resume` names. One that a mirror compressed is unpacked among this run's."""
        if not is_packed(path):
            return self.load(path)
        target = self.path(step_of(path))
        if not _has_same_record(path, target):
            with self._storage(f"unpack {path.name}"):
                if target.exists():
                    self._set_aside(target, "superseded")
                try:
                    files.build_folder(target, lambda folder: _take(path, folder))
                except DamagedError as damage:
                    raise self._unusable(path, damage) from None
        return self.load(target)

    def keep(self, loaded: Loaded) -> None:
        """The checkpoint that is resumed is among this run's own from then on: a run that is killed before it
        saves must not begin again at step 0."""
        try:
            self._copy(loaded.step, loaded.path)
        except DamagedError as damage:
            raise self._unusable(loaded.path, damage) from None

    def demand_best(self, step: int, source: Path) -> None:
        """The best checkpoint so far must be among this run's own, or be copied from `source` in a
        mirror. Asked before the first step: the end of the run is too late to miss it."""
        try:
            self._copy(step, source)
        except DamagedError as damage:
            raise Failed(
                f"The best checkpoint so far, {source}, cannot be used: {damage}",
                hint="Put it there from a mirror or a backup, or start over with --fresh.",
                code="no-best-checkpoint",
            ) from None

    def _copy(self, step: int, source: Path) -> None:
        """Nothing where it is there already."""
        target = self.path(step)
        if _is_whole(target):
            if _is_same(target, source):
                return
            self._set_aside(target, "superseded")
        with self._storage(f"copy {target.name}"):
            files.build_folder(target, lambda folder: _take(source, folder))

    def rewind(self, step: int) -> None:
        """Resuming from an older checkpoint: newer ones belong to the abandoned attempt."""
        with self._storage("set newer checkpoints aside"):
            for path in self.candidates():
                if step_of(path) > step:
                    self._set_aside(path, "superseded")

    def demand_room(self, needed: int) -> None:
        """Asked before the first step: a disk that is too small should not show after hours of work."""
        free = self.free()
        if free < needed:
            raise Storage(
                f"Saving in {self.output} needs about {human(needed)}; {human(free)} are free.",
                hint="Free some space, or choose a folder on another disk with -o.",
            )

    def free(self) -> int:
        with self._storage("look at the disk"):
            return shutil.disk_usage(self.output).free

    def retain(self, limit: int | None, best_step: int | None, pinned: Collection[int] = ()) -> list[int]:
        """Returns the steps of those that were deleted."""
        steps = [step_of(path) for path in self.candidates()]
        earlier = self._best_at(steps[-2]) if len(steps) > 1 else None
        going = doomed(steps, limit, best=best_step, earlier_best=earlier, pinned=pinned)
        with self._storage("delete an old checkpoint"):
            for step in going:
                files.discard_folder(self.path(step))
        return going

    def _best_at(self, step: int) -> int | None:
        """The step of the best checkpoint when this one was saved."""
        try:
            best = record.read(self.path(step)).facts.totals.get("best_step")
        except DamagedError:
            return None
        return best if isinstance(best, int) else None

    def clear(self) -> None:
        """For --fresh: every checkpoint and every one set aside goes."""
        with self._storage("delete the checkpoints of an earlier run"):
            for path in [*self.candidates(), *self._set_aside_folders()]:
                files.discard_folder(path)

    def _set_aside(self, path: Path, why: str) -> None:
        target = path.with_name(f"{path.name}.{why}")
        with self._storage(f"rename {path.name}"):
            files.move_folder(path, target)

    def _set_aside_folders(self) -> list[Path]:
        return sorted(p for p in self.output.iterdir() if _ASIDE.fullmatch(p.name))

    def _forget_set_aside(self, step: int) -> None:
        """Training has passed that step again: nothing is lost any more."""
        for path in self._set_aside_folders():
            if step_of(path) <= step:
                files.discard_folder(path)

    def _unusable(self, path: Path, damage: DamagedError) -> Failed:
        if path.parent.resolve() == self.output.resolve():
            hint = "Use --resume without a path: it takes the newest checkpoint that is whole."
        elif others := _others_beside(path):
            # Without a path the run would begin at step 0.
            hint = f"Name another one with --resume: {' or '.join(map(str, others))}."
        else:
            hint = "Name another copy of it with --resume, or start over with --fresh."
        return Failed(f"The checkpoint {path} cannot be used: {damage}", hint=hint, code="damaged-checkpoint")

    def _report_damage(self, path: Path, reason: DamagedError, fallback: int) -> None:
        detail = f"{path.name} was skipped: {reason}. Resuming from checkpoint-{fallback}."
        self._events.recovered("damaged_checkpoint", fallback, detail)

    def _storage(self, doing: str, needed: Callable[[], int] = int) -> AbstractContextManager[None]:
        return refusals_in_words(self.output, doing, needed, lambda: [p.name for p in self.candidates()])


def step_of(path: Path) -> int:
    match = re.match(r"checkpoint-(\d+)", path.name)
    if match is None:
        raise ValueError(f"{path.name} is not a checkpoint's name")
    return int(match[1])


def _verified(path: Path) -> Loaded:
    loaded = Loaded(path, verify(path))
    if _NAME.fullmatch(path.name) and step_of(path) != loaded.step:
        raise DamagedError(f"it holds step {loaded.step}, which its name does not say")
    return loaded


def _others_beside(path: Path) -> list[Path]:
    """The newest two in a mirror that were copied to their end."""
    found = [p for p in path.parent.glob(f"*/{record.NAME}") if _NAME.fullmatch(p.parent.name)]
    others = sorted((p.parent for p in found if p.parent != path), key=step_of)
    return others[:-3:-1]


def _take(source: Path, folder: Path) -> None:
    unpack(source, folder)
    verify(folder)


def _has_same_record(one: Path, other: Path) -> bool:
    record_of_other = other / record.NAME
    return record_of_other.is_file() and (one / record.NAME).read_bytes() == record_of_other.read_bytes()


def _is_same(one: Path, other: Path) -> bool:
    """Whether the other one, if there is one, has the same content. Their records may differ in the speed."""
    try:
        there = record.read(other)
    except DamagedError:
        return True
    return record.read(one).files == there.files


def _is_whole(path: Path) -> bool:
    try:
        _verified(path)
    except DamagedError:
        return False
    return True


def _fill(folder: Path, step: int, parts: Mapping[str, Content], facts: CheckpointFacts) -> None:
    entries: dict[str, FileDigest] = {}
    for name, content in sorted(parts.items()):
        path = folder / name
        if path.parent != folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        written = files.write(path, _chunks(name, content))
        entries[name] = FileDigest(sha256=written.sha256, bytes=written.bytes)
    whole = CheckpointRecord(format=record.FORMAT, step=step, facts=facts, files=entries)
    files.write(folder / record.NAME, [record.sealed(whole)])


def _chunks(name: str, content: Content) -> Iterable[files.Chunk]:
    if isinstance(content, bytes):
        return [content]
    if name.endswith(".safetensors"):
        return tensors.encode(content)
    return [files.json_bytes(content)]


def _size(parts: Mapping[str, Content]) -> int:
    return sum(len(memoryview(c)) for name, content in parts.items() for c in _chunks(name, content))


def _none_verifies(skipped: list[tuple[Path, DamagedError, str]]) -> Failed:
    reasons = "\n".join(f"  {path.name}: {reason}" for path, reason, _ in skipped)
    return Failed(
        f"No checkpoint in {skipped[0][0].parent} can be used:\n{reasons}",
        hint="Name the folder of its mirror with --resume, or start over with --fresh.",
        code="no-valid-checkpoint",
    )
