"""The warning where rows were lost or cut, and what to set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.pretokenize.cache import Cache
from expert_worker.row_counts import WORDS

_LONGER = "Raise max_seq_length (it is {length}), or set training.dataset.overlong to split."
_LATE = "With keep_end, rows lose their beginnings and keep answers that begin late."
_LOST = {
    "truncated": _LONGER,
    "dropped_pieces": "Pieces of split rows without a part of an answer have nothing to learn. "
    "Raise max_seq_length (it is {length}) to keep questions and answers together.",
    "dropped_overlong": _LONGER,
    "dropped_unsupervised": "Raise max_seq_length (it is {length}): answers begin after it. Or set "
    "training.dataset.overlong to keep_end, which cuts the beginnings of long rows.",
    "dropped_short": "Lower min_length.",
    "dropped_long": "Raise max_length.",
    "dropped_mixture": "Remove training.dataset.weights to use all rows, give tasks weights in proportion to "
    'their rows, or set training.dataset.stopping_strategy to "all_exhausted", which repeats rows instead.',
}
"""What to set where rows are lost or cut. Copies are dropped as asked, a split row loses only pieces without
anything to learn."""

# Also the hint where they are read.
PRINT_THOUGHTS = (
    "Templates of thinking models print the thoughts of the last answer only: make a row of each answer "
    "whose thoughts are to be learned, or set prompt_template to one that prints them."
)

_LOST_BEFORE = {
    "bad": "`expert-cli pretokenize {expert} --force` lists the bad rows.",
    "unanswered": "Complete rows whose last message lacks its answer, "
    'or set training.dataset.train_on to "all" to learn every message.',
    "thoughts_left_out": PRINT_THOUGHTS,
}
"""Named with their first rows where they are read, so only counted where an earlier run has read them."""


def warn_of_lost_rows(plan: Plan, cache: Cache, events: Events) -> None:
    """Of training and of validation rows apart: a share of both together says nothing about either."""
    hints = _LOST | (_LOST_BEFORE if cache.existed else {})
    for split, kind, use in (("train", "", "learned"), ("validation", "validation ", "scored")):
        _warn_of_lost(cache.ledger(split), f"{kind}rows read are {use} whole", hints, plan, events)


def _warn_of_lost(
    counts: Mapping[str, int], what: str, hints: Mapping[str, str], plan: Plan, events: Events
) -> None:
    lost = [name for name in hints if counts.get(name, 0)]
    if not lost:
        return
    read = counts["read"]
    shares = {name: f"{counts[name] / read:.1%}" for name in lost}
    if "dropped_pieces" in shares:
        shares["dropped_pieces"] = f"{counts['dropped_tokens']:,} tokens"
    parts = [f"{counts[name]:,} {WORDS[name]} ({shares[name]})" for name in lost]
    known = {
        "length": plan.recipe.batch.max_seq_length,
        "expert": shlex.quote(plan.machine.paths.expert_dir),
    }
    if any(hints[name] == _LONGER for name in lost):
        # Longer or split rows have their answers too.
        hints = {**hints, "dropped_unsupervised": _LATE}
    advice = dict.fromkeys(hints[name].format(**known) for name in lost)
    message = f"Not all of the {read:,} {what}: {'; '.join(parts)}"
    events.warning("rows-lost", message, " ".join(advice))
