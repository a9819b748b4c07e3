"""A classification: F1 by label, and which label was answered for which."""

from __future__ import annotations

from expert_worker.recorded import Classes, ClassScores, LabelScore
from expert_worker.report.html import Raw, fold, section, table
from expert_worker.report.numbers import percent, whole
from expert_worker.report.read import Run
from expert_worker.report.scores import sets_of

# More make a matrix that nobody reads.
_MOST_IN_MATRIX = 30
_MOST_LABELS = 500
_NONE = "none or several"


def class_tables(run: Run) -> str:
    return "".join(_of_set(name, scores.classes) for name, scores in sets_of(run))


def _of_set(name: str, found: Classes | None) -> str:
    if found is None or not found.labels:
        return ""
    sides = [(who, side) for who, side in (("adapter", found.adapter), ("base", found.base)) if side]
    if not sides:
        return ""
    means = "; ".join(f"{who} {percent(side.macro_f1)}" for who, side in sides if side.macro_f1 is not None)
    body = f"<p>Macro F1, the mean of the labels' F1: {means}.</p>" + _by_label(found)
    body += "".join(_matrix(who, found, side) for who, side in sides)
    return section(f"Classes, test set {name}" if name else "Classes", body)


def _by_label(found: Classes) -> str:
    head = ["label", "rows", "base F1", "adapter F1", "adapter precision", "adapter recall"]
    rows: list[list[object]] = []
    for place, label in enumerate(found.labels[:_MOST_LABELS]):
        base, adapter = _at(found.base, place), _at(found.adapter, place)
        one = adapter or base
        rows.append(
            [
                label,
                whole(one.rows) if one and one.rows is not None else "",
                _share(base.f1 if base else None),
                Raw(f"<b>{_share(adapter.f1 if adapter else None)}</b>"),
                _share(adapter.precision if adapter else None),
                _share(adapter.recall if adapter else None),
            ]
        )
    return table(head, rows, frozenset(range(1, len(head))))


def _at(side: ClassScores | None, place: int) -> LabelScore | None:
    return side.by_label[place] if side and place < len(side.by_label) else None


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)


def _matrix(who: str, found: Classes, side: ClassScores) -> str:
    """Rows are references, columns answers."""
    labels = found.labels
    if len(labels) > _MOST_IN_MATRIX or not side.confusion:
        return ""
    head = ["reference, answered as", *labels, _NONE]
    lines = zip(labels, side.confusion, strict=False)
    rows = [
        [label, *(_count(count, is_right=place == at) for at, count in enumerate(line))]
        for place, (label, line) in enumerate(lines)
    ]
    body = table(head, rows, frozenset(range(1, len(head))))
    return fold(f"Confusion matrix of the {who}", Raw(body))


def _count(count: int | None, *, is_right: bool) -> object:
    shown = whole(count or 0)
    return Raw(f'<b class="good">{shown}</b>') if is_right else shown
