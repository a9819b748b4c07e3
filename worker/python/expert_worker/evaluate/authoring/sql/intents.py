"""What can be asked, and how often."""

from __future__ import annotations

from collections.abc import Callable

from expert_worker.evaluate.authoring.draw import Draw

from . import grouped, joined, nested, plain
from .question import Question
from .scene import Scene

Composition = Callable[[Scene], Question | None]
# How often each is asked among a hundred: people ask simple questions more often than hard ones.
SHARES: tuple[tuple[Composition, int], ...] = (
    (plain.listing, 14),
    (plain.whole, 2),
    (plain.columns, 8),
    (plain.counting, 10),
    (plain.aggregate, 9),
    (plain.ends, 2),
    (plain.top, 10),
    (plain.ordered, 5),
    (plain.distinct, 4),
    (plain.lookup, 5),
    (grouped.group_count, 8),
    (grouped.group_value, 6),
    (grouped.group_top, 5),
    (grouped.having, 3),
    (grouped.per_period, 2),
    (joined.join_list, 4),
    (joined.children_of, 6),
    (joined.parent_of, 1),
    (joined.children_where, 4),
    (plain.choice, 1),
    (plain.fallback, 1),
    (plain.days_since, 1),
    (plain.product, 1),
    (nested.extreme, 1),
    (joined.join_group, 3),
    (joined.join_top, 2),
    (joined.join_having, 1),
    (joined.membership, 3),
    (joined.left_count, 1),
    (joined.two_joins, 1),
    (joined.set_operation, 1),
    (nested.above_average, 2),
    (grouped.share, 1),
    (nested.ranking, 1),
    (nested.own_group, 1),
    (nested.totals, 1),
    (nested.best_of_each, 1),
    (nested.over_time, 1),
)
TURNS = Draw("turns").shuffled([composition for composition, share in SHARES for _ in range(share)])
