"""The data files as they were when their rows were read: by them `plan` sees that counts still hold, without
reading the data."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from expert_worker.plan import Plan, Source
from expert_worker.pretokenize.parts import Part, learned_parts, test_parts
from expert_worker.results import ReadFile

# Two changes within one tick of the file system's clock have the same time.
_TICK, _WHOLE_SECONDS_TICK = 20_000_000, 2_000_000_000
_SECOND = 1_000_000_000
OF_TOKENIZER = (
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


def before_reading(plan: Plan) -> tuple[ReadFile, ...]:
    """Every data file, once a later change of it would show. Empty where a source is not one plain file, or
    the system has no inodes."""
    found = _files(plan)
    young = [_settled_in(file) for file in found]
    if any(wait > _WHOLE_SECONDS_TICK for wait in young):
        # A clock that is ahead of this machine's.
        return ()
    time.sleep(max([0, *young]) / _SECOND)
    return found


def unchanged(before: tuple[ReadFile, ...], plan: Plan) -> tuple[ReadFile, ...]:
    """The same files after they were read; empty where one has changed meanwhile."""
    return before if before == _files(plan) else ()


def perhaps_changed(before: tuple[ReadFile, ...], plan: Plan) -> list[Source]:
    """Sources of the rows that are learned, except those that are as they were. Of a dataset of the Hub, the
    files are named by what they hold."""
    known = {(file.part, file.name): file for file in before}

    def is_as_before(part: Part, source: Source) -> bool:
        file = known.get((part.name, source.name))
        return file is not None and file == _file(part.name, source.name, part.places.get(source.name))

    return [
        source
        for part in learned_parts(plan)
        for source in part.sources
        if source.format != "huggingface" and not is_as_before(part, source)
    ]


def tokenizer_files(folder: Path) -> tuple[ReadFile, ...]:
    """What decides tokens and template, of the files that the base has."""
    found = [_file("base", name, str(folder / name)) for name in OF_TOKENIZER]
    return tuple(file for file in found if file is not None)


def _files(plan: Plan) -> tuple[ReadFile, ...]:
    """Test rows may be elsewhere or not be made yet: nothing of the cache follows from them but copies."""
    learned = [_file_of(part, source) for part in learned_parts(plan) for source in part.sources]
    tested = [_file_of(part, source) for part in test_parts(plan) for source in part.sources]
    if None in learned:
        return ()
    return tuple(file for file in learned + tested if file is not None)


def _file_of(part: Part, source: Source) -> ReadFile | None:
    return _file(part.name, source.name, part.places.get(source.name))


def _file(part: str, name: str, place: str | None) -> ReadFile | None:
    if place is None or os.name != "posix":
        return None
    try:
        now = Path(place).stat()
    except OSError:
        return None
    if not stat.S_ISREG(now.st_mode) or min(now.st_mtime_ns, now.st_ctime_ns) < 0:
        return None
    return ReadFile(
        part=part,
        name=name,
        bytes=now.st_size,
        modified=now.st_mtime_ns,
        changed=now.st_ctime_ns,
        inode=now.st_ino,
    )


def _settled_in(file: ReadFile) -> int:
    """Nanoseconds until another change would have another time. Older files give 0 or less."""
    tick = _TICK if file.changed % _SECOND else _WHOLE_SECONDS_TICK
    return file.changed + tick - time.time_ns()
