"""What a model that judges said of answers. Each of its verdicts may cost money, so all are kept, also those
that came before a failure or a stop. Where it gave no score, it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from pydantic import TypeAdapter, ValidationError

from expert_worker.evaluate.cached_scores import CachedScores, digest
from expert_worker.evaluate.llm_judge import LlmJudge
from expert_worker.evaluate.verdict import Row, Verdict

_BY_PLACE = TypeAdapter(dict[int, Verdict])


def model_verdicts(
    judge: LlmJudge,
    rows: Sequence[Row],
    texts: Sequence[str],
    each: Callable[[], None],
    cache: CachedScores | None,
) -> list[Verdict]:
    key = digest({"judge": judge.document(), "rows": rows, "answers": texts})
    found = _kept(cache.load(key)) if cache is not None else {}
    for _ in found:
        each()
    places = [place for place in range(len(rows)) if place not in found]
    if places:
        try:
            with closing(judge.verdicts([rows[at] for at in places], [texts[at] for at in places])) as coming:
                for place, verdict in zip(places, coming, strict=True):
                    found[place] = verdict
                    each()
        finally:
            if cache is not None:
                scored = {place: verdict for place, verdict in found.items() if not verdict.failed}
                cache.save(key, {"verdicts": _BY_PLACE.dump_python(scored, mode="json")})
    return [found[place] for place in range(len(rows))]


def _kept(document: Mapping[str, Any] | None) -> dict[int, Verdict]:
    """What another version kept is asked again."""
    try:
        return {} if document is None else _BY_PLACE.validate_python(document.get("verdicts"))
    except ValidationError:
        return {}
