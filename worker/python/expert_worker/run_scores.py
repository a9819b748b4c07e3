"""The scores that an evaluation leaves in a run's folder: which adapter they are of, and when they go."""

from __future__ import annotations

from pathlib import Path

from expert_worker import lease
from expert_worker.adapter import WEIGHTS
from expert_worker.checkpoint import files
from expert_worker.record_reader import read_json

SCORES = "evaluation.json"
# Every answer of the last evaluation, whole.
ANSWERS = "answers.jsonl"


def has_adapters_scores(run: Path) -> bool:
    return bool((read_json(run / SCORES) or {}).get("adapter"))


def remove_replaced_scores(final: Path, weights: Path) -> None:
    """Before the file `weights` takes its place in `final`: the run's scores go, unless it has the weights
    that are there. Called after the replacement, a crash in between would leave the new adapter with the
    scores of the one before. Scores of the base alone, or of another adapter, stay."""
    run = final.parent
    found = read_json(run / SCORES)
    if found is not None and (not found.get("adapter") or found.get("other_adapter")):
        return
    paths = [path for path in (run / SCORES, run / ANSWERS) if path.exists()]
    before = final / WEIGHTS
    if not paths or (before.is_file() and files.sha256(before) == files.sha256(weights)):
        return
    lease.confirm()
    for path in paths:
        path.unlink()
    files.sync_folder(run)
