"""Retention deletes old checkpoints, but never the best and the newest."""

from hypothesis import given
from hypothesis import strategies as st

from expert_worker.checkpoint.retention import doomed


def test_no_limit_keeps_all() -> None:
    assert doomed([1, 2, 3], None, best=1) == []


def test_the_limit_counts_the_best_one() -> None:
    assert doomed([10, 20, 30, 40, 50], 3, best=10) == [20, 30]
    assert doomed([10, 20, 30, 40, 50], 3, best=50) == [10, 20]
    assert doomed([10, 20, 30, 40, 50], 3) == [10, 20]


def test_a_limit_of_one_still_keeps_the_best_and_the_newest() -> None:
    assert doomed([10, 20, 30], 1, best=10) == [20]
    assert doomed([10, 20, 30], 0) == [10, 20]


def test_what_is_on_its_way_to_the_mirror_stays() -> None:
    assert doomed([10, 20, 30], 1, pinned=[10]) == [20]


def test_the_best_one_before_the_newest_stays_within_the_limit() -> None:
    steps = [20, 30, 35, 40]
    assert doomed(steps, 3, best=40, earlier_best=20) == [30]
    assert doomed(steps, 2, best=40, earlier_best=20) == [30, 35]
    assert doomed(steps, 1, best=40, earlier_best=20) == [20, 30, 35]
    assert doomed(steps, 3, best=20, earlier_best=20) == [30]
    assert doomed(steps, 2, best=35, earlier_best=20) == [20, 30]


@given(
    steps=st.sets(st.integers(0, 500), min_size=1),
    limit=st.integers(0, 8),
    data=st.data(),
)
def test_best_and_newest_are_never_deleted(steps: set[int], limit: int, data: st.DataObject) -> None:
    best, earlier = (data.draw(st.none() | st.sampled_from(sorted(steps))) for _ in range(2))
    gone = set(doomed(steps, limit, best=best, earlier_best=earlier))
    assert best not in gone and max(steps) not in gone
    kept = len(steps) - len(gone)
    assert kept <= max(limit, 2)
    assert kept >= min(len(steps), limit)


def test_a_limit_of_one_keeps_one_where_the_newest_is_the_best() -> None:
    assert doomed([1, 2, 3], 1, best=3) == [1, 2]
