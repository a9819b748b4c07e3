"""What can be asked, and how often."""

from __future__ import annotations

from collections.abc import Callable

from expert_worker.evaluate.authoring.draw import Draw

from . import grouped, joined, nested, plain
from .question import Question
from .scene import Scene

Composition = Callable[[Scene], Question | None]
# How often each is asked among all: people ask simple questions more often than hard ones, and a small model
# learns only what it sees often.
SHARES: tuple[tuple[Composition, int], ...] = (
    (plain.listing, 34),
    (plain.whole, 3),
    (plain.columns, 24),
    (plain.counting, 28),
    (plain.aggregate, 18),
    (plain.ends, 6),
    (plain.top, 18),
    (plain.ordered, 8),
    (plain.distinct, 14),
    (plain.lookup, 14),
    (grouped.group_count, 13),
    (grouped.group_value, 12),
    (grouped.group_top, 6),
    (grouped.having, 5),
    (grouped.per_period, 5),
    (joined.join_list, 8),
    (joined.children_of, 18),
    (joined.parent_of, 3),
    (joined.children_where, 10),
    (joined.unlinked, 5),
    (joined.join_group, 14),
    (joined.join_top, 7),
    (joined.join_having, 6),
    (joined.membership, 9),
    (joined.two_joins, 4),
    (joined.left_count, 5),
    (nested.above_average, 3),
    (nested.extreme, 1),
    (plain.choice, 1),
    (plain.fallback, 1),
    (plain.days_since, 1),
    (plain.product, 1),
    (joined.set_operation, 2),
    (grouped.share, 2),
    (nested.ranking, 1),
    (nested.own_group, 1),
    (nested.totals, 1),
    (nested.best_of_each, 1),
    (nested.over_time, 1),
)
TURNS = tuple(Draw("turns").shuffled([composition for composition, share in SHARES for _ in range(share)]))
# About one table, without groups or a query within the query.
_SIMPLE = {
    plain.listing,
    plain.columns,
    plain.counting,
    plain.aggregate,
    plain.top,
    plain.ordered,
    plain.distinct,
    plain.lookup,
}
SIMPLE = tuple(composition for composition in TURNS if composition in _SIMPLE)
