"""What happened during the run: all problems, and the last checkpoints."""

from expert_worker import event as events
from expert_worker.report.numbers import clock, size, whole
from expert_worker.report.parts import Raw, section, table, text
from expert_worker.report.read import Note, Resumed, Run

_LONGEST = 4000


def happened(run: Run) -> str:
    notes = sorted([*run.notes, *run.checkpoints], key=lambda noted: noted.time)
    rows: list[tuple[object, object, object]] = [
        (_time(noted.time), _kind(noted.what), _words(noted.what)) for noted in notes
    ]
    earlier = run.notes_in_all - len(run.notes)
    if earlier > 0:
        rows.insert(0, ("", "earlier", f"{whole(earlier)} more warnings and recoveries are in events.jsonl"))
    if isinstance(run.ending, events.Failed):
        ending = _with_hint(run.ending.message, run.ending.hint)
        rows.append((_time(run.ended_at), "failed", ending))
    choice = run.record.best
    if choice and choice.step is not None:
        rows.append(("", "chosen", f"final/ is step {choice.step}: {choice.reason or ''}"))
    rows += [("", "left out", _left_out(name, count)) for name, count in sorted(run.left_out.items())]
    return section("What happened", table(["", "", ""], rows, kind="log"))


def _left_out(name: str, count: int) -> str:
    what = "line" if name.endswith(".jsonl") else "value"
    return f"{name}: {whole(count)} {what}{'' if count == 1 else 's'} could not be read and cannot be shown"


def _kind(note: Note) -> str:
    match note:
        case events.Recovered():
            return note.kind.replace("_", " ")
        case Resumed():
            return "resumed"
    return note.type


def _words(note: Note) -> object:
    match note:
        case events.Checkpoint():
            return f"step {note.step}, {size(note.bytes)} in {note.seconds:.2f} s"
        case events.Best():
            return f"step {note.step}: {note.metric} {note.value:.5g}"
        case events.Recovered():
            return _with_hint(note.detail, None)
        case Resumed():
            return f"Attempt {note.attempt} resumed from step {note.step}."
    return _with_hint(note.message, note.hint)


def _with_hint(message: str, hint: str | None) -> Raw:
    told = text(message[:_LONGEST])
    return Raw(f"{told}<small>{text(hint[:_LONGEST])}</small>" if hint else told)


def _time(time: float) -> Raw:
    return Raw(f"<time>{clock(time)}</time>")
