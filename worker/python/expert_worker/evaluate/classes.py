"""What a classification is measured by beside accuracy: F1 and the confusion of its labels."""

from __future__ import annotations

from collections.abc import Sequence

from expert_worker.evaluate.scorers.classification import Labels
from expert_worker.evaluate.verdict import Row
from expert_worker.results import Answer, Classes, ClassScores, LabelScore


def class_scores(
    labels: Sequence[str],
    rows: Sequence[Row],
    base: Sequence[Answer] | None,
    adapter: Sequence[Answer] | None,
) -> Classes:
    known = Labels(labels)
    return Classes(
        labels=known.labels, base=_scores(known, rows, base), adapter=_scores(known, rows, adapter)
    )


def _scores(labels: Labels, rows: Sequence[Row], judged: Sequence[Answer] | None) -> ClassScores | None:
    if judged is None:
        return None
    places = {label: place for place, label in enumerate(labels.labels)}
    nothing = len(places)
    confusion = [[0] * (nothing + 1) for _ in places]
    for row, answer in zip(rows, judged, strict=True):
        wanted, found = labels.wanted(row), labels.of(answer.text)
        if wanted is not None:
            confusion[places[wanted]][nothing if found is None else places[found]] += 1
    by_label = [_label_score(label, place, confusion) for label, place in places.items()]
    answered = [sum(line[place] for line in confusion) for place in range(nothing)]
    occurring = [score.f1 for score, count in zip(by_label, answered, strict=True) if score.rows or count]
    return ClassScores(
        macro_f1=sum(occurring) / len(occurring) if occurring else 0.0,
        by_label=tuple(by_label),
        confusion=tuple(map(tuple, confusion)),
    )


def _label_score(label: str, place: int, confusion: Sequence[Sequence[int]]) -> LabelScore:
    right, rows = confusion[place][place], sum(confusion[place])
    answered = sum(line[place] for line in confusion)
    return LabelScore(
        label=label,
        rows=rows,
        precision=right / answered if answered else 0.0,
        recall=right / rows if rows else 0.0,
        f1=2 * right / (rows + answered) if rows + answered else 0.0,
    )
