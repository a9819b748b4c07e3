"""`expert.json`: what an adapter is, what it was made of and how well it does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from expert_worker import recorded
from expert_worker.adapter import EXPERT, WEIGHTS
from expert_worker.checkpoint import files
from expert_worker.evaluate.scorers import scorer_title
from expert_worker.events import Events
from expert_worker.plan import Grammar, Plan, Recipe, RopeScaling
from expert_worker.record_reader import read_json, read_record
from expert_worker.results import (
    EvaluationResult,
    ExpertBase,
    ExpertRecord,
    ExpertScore,
    FileDigest,
    Score,
    SetScore,
    Share,
    TestScores,
)
from expert_worker.run_record import inference
from expert_worker.run_record.card import public_name
from expert_worker.run_record.digests import (
    GRAMMARS,
    RUN,
    KnownDigests,
    check_base,
    digest_of,
    final_digests,
)

FORMAT = 1
_VERIFY_BUDGET = 600.0


def expert_record(
    recipe: Recipe,
    recipe_digest: str,
    license_name: str | None,
    *,
    data: Mapping[str, FileDigest | None],
    base: Mapping[str, FileDigest | None],
    system_message: str | None = None,
) -> ExpertRecord:
    """Before training has written the files beside it."""
    return ExpertRecord(
        format=FORMAT,
        name=recipe.expert,
        license=license_name,
        base=ExpertBase(
            name=public_name(recipe.base.name),
            quantization=recipe.base.quantization,
            files=dict(base),
            **_present(rope_scaling=_given(recipe.base.rope_scaling)),
        ),
        adapter=recipe.adapter.kind,
        template=recipe.template.kind,
        recipe_digest=recipe_digest,
        data=dict(data),
        files={},
        score=None,
        **_present(grammar=inference.named(recipe.decoding.grammar), system_message=system_message),
    )


def write_record(folder: Path, record: ExpertRecord) -> None:
    """Last of the folder's files, because it has their digests."""
    with_files = record.model_copy(update={"files": final_digests(folder)})
    files.write(folder / EXPERT, [files.json_bytes(with_files.as_json())])


def add_score(folder: Path, result: EvaluationResult) -> None:
    """Into the record of this adapter. A record that cannot be read is left as it is."""
    _change(folder, {"score": _score(result).as_json()})


def has_other_scores(folder: Path, plan: Plan) -> bool:
    """Whether this adapter has scores by another scorer, with another grammar or of other test sets."""
    document = read_json(folder / EXPERT) or {}
    score, named = document.get("score"), inference.named(plan.recipe.decoding.grammar)
    if not isinstance(score, dict):
        return False
    return (
        score.get("scorer") != scorer_title(plan.recipe.evaluation)
        or document.get("grammar") != (None if named is None else named.as_json())
        or set(score.get("test_sets") or {}) != set(plan.test_sets)
    )


def replace_grammar(folder: Path, grammar: Grammar | None) -> None:
    """The scores that are added next are those of answers that this one constrained."""
    named = inference.named(grammar)
    for name in GRAMMARS:
        if named is not None and grammar is not None and name == named.name:
            files.replace(folder / name, grammar.text.encode())
        else:
            (folder / name).unlink(missing_ok=True)
    _change(folder, {"grammar": None if named is None else named.as_json()})


def check_base_of(adapter: Path, base: Path, events: Events, hint: str, home: Path | None = None) -> None:
    """Another base of the same shapes loads, and answers otherwise. An adapter from elsewhere and a bare
    checkpoint do not say which base they were trained on. `home` keeps the digests of large files."""
    record = read_json(adapter / EXPERT) or {}
    try:
        trained_on = ExpertBase.model_validate(record.get("base"), strict=False).files
    except ValidationError:
        return
    if any(trained_on.values()):
        events.stage("verify base", _VERIFY_BUDGET, base.name)
        known = None if home is None else KnownDigests(home)
        check_base(base, trained_on, str(record.get("name")), hint, known)


def system_message_of(folder: Path) -> str | None:
    """The one that this adapter's training rows have in common."""
    found = (read_json(folder / EXPERT) or {}).get("system_message")
    return found if isinstance(found, str) and found else None


def replace_digest(folder: Path, name: str, digest: Mapping[str, JsonValue]) -> None:
    """Of a file of this adapter that has changed."""
    document = read_json(folder / EXPERT) or {}
    recorded = document.get("files")
    if isinstance(recorded, dict):
        _change(folder, {"files": {**recorded, name: digest}})


def rope_scaling_of_run(final: Path, recipe_digest: object) -> RopeScaling | None:
    """For an `expert.json` of an earlier version, which has no `rope_scaling`: that of the run which holds
    `final/`, if it is this recipe's."""
    run, _ = read_record(recorded.RunRecord, read_json(final.parent / RUN))
    found = run.recipe and run.recipe_digest == recipe_digest and run.recipe.base.rope_scaling
    if not found:
        return None
    try:
        # Not strict: a list stands for a tuple.
        return _given(RopeScaling.model_validate(found.as_found, strict=False))
    except ValidationError:
        return None


def _given(scaling: RopeScaling | None) -> RopeScaling | None:
    """Without the numbers that the manifest does not set."""
    return None if scaling is None else RopeScaling(**scaling.model_dump(exclude_none=True))


def _present(**fields: Any) -> dict[str, Any]:
    """Without what is absent from the document, too."""
    return {name: value for name, value in fields.items() if value is not None}


def describe_export(folder: Path, adapter: Path) -> None:
    """The digests of an export's files as they are now, and of the weights that it was made of: a merged
    model or a GGUF file does not show by itself which training it is of."""
    found = {name: digest.as_json() for name, digest in final_digests(folder).items()}
    _change(folder, {"files": found, "exported_from": digest_of(adapter / WEIGHTS).as_json()})


def _change(folder: Path, changes: Mapping[str, object]) -> None:
    path = folder / EXPERT
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return
    if isinstance(document, dict) and document.get("format") == FORMAT:
        changed = {**document, **changes, **_scaled_base(folder, document)}
        files.replace_json(path, {name: it for name, it in changed.items() if name != "grammar" or it})


def _scaled_base(folder: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    base = document.get("base")
    if not isinstance(base, dict) or "rope_scaling" in base:
        return {}
    scaling = rope_scaling_of_run(folder, document.get("recipe_digest"))
    given = scaling and scaling.model_dump(mode="json", exclude_none=True)
    return {"base": {**base, "rope_scaling": given}} if given else {}


def _score(result: EvaluationResult) -> ExpertScore:
    further = {name: SetScore(**_set_score(found)) for name, found in result.test_sets.items()}
    # Absent where there are none, as in records of earlier versions.
    sets: dict[str, Any] = {"test_sets": further} if further else {}
    prompt = result.base.prompt if result.base is not None else None
    examples = _present(base_examples=prompt.shots if prompt is not None else None)
    return ExpertScore(scorer=result.scorer, **_set_score(result), **examples, **sets)


def _set_score(found: EvaluationResult | TestScores) -> dict[str, Any]:
    return {
        "measure": found.measure,
        "rows": found.rows,
        "base": _share(found.base),
        "adapter": _share(found.adapter),
    }


def _share(score: Score | None) -> Share | None:
    if score is None:
        return None
    return Share(
        correct=score.correct, total=score.total, accuracy=score.accuracy, low=score.low, high=score.high
    )
