"""What happened on the way: all that went wrong, and of the checkpoints the last ones."""

from typing import Any

from expert_worker.report.numbers import clock
from expert_worker.report.parts import Raw, section, table
from expert_worker.report.read import Run

_ROUTINE = 20


def happened(run: Run) -> str:
    rows: list[tuple[object, str, str]] = [(_time(n), _kind(n), _text(n)) for n in _worth_telling(run.notes)]
    if run.ending and run.ending["type"] == "failed":
        rows.append((_time(run.ending), "failed", _with_hint(str(run.ending["message"]), run.ending)))
    choice = run.record.get("best")
    if choice:
        rows.append(("", "chosen", f"final/ is step {choice['step']}: {choice['reason']}"))
    return section("What happened", table(["", "", ""], rows)) if rows else ""


def _worth_telling(notes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    routine = [place for place, note in enumerate(notes) if note["type"] in {"checkpoint", "best"}]
    left_out = set(routine[:-_ROUTINE])
    return [note for place, note in enumerate(notes) if place not in left_out]


def _kind(note: dict[str, Any]) -> str:
    kind = note["type"] if note["type"] != "recovered" else note.get("kind", "recovered")
    return str(kind).replace("_", " ")


def _text(note: dict[str, Any]) -> str:
    if note["type"] == "checkpoint":
        return f"step {note['step']}, {note['bytes'] / 1e6:.1f} MB in {note['seconds']:.2f} s"
    if note["type"] == "best":
        return f"step {note['step']}: {note['metric']} {note['value']:.5g}"
    return _with_hint(str(note.get("detail") or note.get("message") or ""), note)


def _with_hint(text: str, note: dict[str, Any]) -> str:
    return f"{text} {note['hint']}" if note.get("hint") else text


def _time(event: dict[str, Any]) -> Raw:
    return Raw(f"<time>{clock(event['time'])}</time>")
