"""The interval of a difference of scores, row by row, beside an exact test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import comb
from random import Random

import pytest

from expert_worker.evaluate import intervals
from expert_worker.evaluate.intervals import of_differences, of_paired_answers, wilson
from expert_worker.evaluate.scores import compared
from expert_worker.results import Answer


def sign_test(better: int, worse: int) -> float:
    """The probability of so uneven a division, or a more uneven one, by chance."""
    differ = better + worse
    tail = sum(comb(differ, place) for place in range(max(better, worse), differ + 1))
    return min(1.0, 2 * tail / 2**differ)


def tables(most: int) -> Iterator[tuple[int, int, int]]:
    for total in range(1, most + 1):
        for better in range(total + 1):
            for worse in range(total - better + 1):
                yield better, worse, total


def answers(*values: float) -> list[Answer]:
    return [Answer(text="", correct=value >= 1, reason="", score=value) for value in values]


def test_it_holds_the_difference_inside_its_bounds_and_is_symmetric() -> None:
    for better, worse, total in tables(14):
        low, high = of_paired_answers(better, worse, total)
        assert -1 <= low <= (better - worse) / total <= high <= 1 and low < high
        assert of_paired_answers(worse, better, total) == (-high, -low)


def test_it_leaves_out_0_only_where_an_exact_test_does() -> None:
    left_out = 0
    for better, worse, total in tables(14):
        low, high = of_paired_answers(better, worse, total)
        if not low <= 0 <= high:
            left_out += 1
            assert sign_test(better, worse) < 0.05, (better, worse, total)
    assert left_out > 100


def test_four_rows_of_16_may_be_chance_and_forty_against_five_of_200_are_not() -> None:
    low, high = of_paired_answers(4, 0, 16)
    assert low < 0 < 0.25 < high
    low, high = of_paired_answers(40, 5, 200)
    assert 0.1 < low < 0.175 < high < 0.25
    found = compared(answers(*[0] * 16), answers(*[1] * 4, *[0] * 12))
    assert found is not None
    assert (found.difference, found.better, found.worse) == (0.25, 4, 0)
    assert (found.low, found.high) == of_paired_answers(4, 0, 16)


@pytest.mark.parametrize(("better", "total"), [(0, 16), (4, 16), (7, 9), (1, 44)])
def test_where_no_row_is_worse_it_ends_as_wilsons_interval_of_the_share(better: int, total: int) -> None:
    """The statistic is then the same."""
    assert of_paired_answers(better, 0, total)[1] == pytest.approx(wilson(better, total)[1])


def test_it_gives_the_interval_that_was_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tango's example: of 44 patients one differs; its interval is of 90%."""
    monkeypatch.setattr(intervals, "NORMAL_95", 1.6448536)
    assert of_paired_answers(0, 1, 44) == pytest.approx((-0.096, 0.037), abs=5e-4)


def test_many_rows_have_the_usual_interval() -> None:
    low, high = of_paired_answers(3000, 2500, 20_000)
    half = 1.959964 * ((5500 / 20_000 - 0.025**2) / 20_000) ** 0.5
    assert (low, high) == pytest.approx((0.025 - half, 0.025 + half), abs=1e-4)


def test_of_partial_scores_too_a_few_rows_do_not_show_a_difference() -> None:
    assert of_differences([0.9] * 5 + [0.0] * 40)[0] == 0
    assert of_differences([-0.9] * 5 + [0.0] * 40)[1] == 0
    assert of_differences([0.9] * 9 + [0.0] * 40)[0] > 0
    # Rounding does not make a score a partial one.
    assert of_differences([1 - 1e-12] * 4 + [0.0] * 12) == of_paired_answers(4, 0, 16)
    assert of_differences([]) == (-1.0, 1.0)


def sign_flip_test(differences: Sequence[float]) -> float:
    """The probability of so large a sum by chance, from all signs."""
    sizes = [abs(it) for it in differences if it]
    total = abs(sum(differences)) - 1e-9
    flipped = (
        abs(sum(map(float.__mul__, sizes, signs))) for signs in product((1.0, -1.0), repeat=len(sizes))
    )
    return sum(it >= total for it in flipped) / 2 ** len(sizes)


@pytest.mark.parametrize(
    ("differences", "is_shown"),
    [
        ([1.0] * 5 + [-0.01], False),
        ([1.0] * 4 + [-0.01] * 2, False),
        ([1.0] * 5 + [-0.01, -0.02, 0.01], False),
        ([0.9] * 5 + [0.1], True),
        ([0.9] * 7 + [-0.1], True),
    ],
)
def test_the_size_and_the_direction_of_partial_differences_count(
    differences: list[float], is_shown: bool
) -> None:
    every = differences + [0.0] * (16 - len(differences))
    low, high = of_differences(every)
    assert (low > 0) == is_shown == (sign_flip_test(every) < 0.05)
    assert of_differences([-it for it in every]) == pytest.approx((-high, -low))


def test_of_partial_scores_it_leaves_out_0_only_where_all_signs_do() -> None:
    draw, left_out, widened = Random(7), 0, 0
    for _ in range(400):
        differ = draw.randint(3, 9)
        sizes = [draw.choice([1.0, 0.5, draw.random(), draw.random() ** 6]) for _ in range(differ)]
        differences = [it * draw.choice([1, 1, 1, 1, 1, -1]) for it in sizes] + [0.0] * draw.randint(0, 30)
        low, high = of_differences(differences)
        if not low <= 0 <= high:
            left_out += 1
            assert sign_flip_test(differences) < 0.05, differences
        widened += 0 in (low, high)
    assert left_out > 50 and widened > 5


@pytest.mark.parametrize("differ", [20, 21, 40, 150])
def test_of_many_rows_the_test_of_signs_is_that_of_the_sign_test(differ: int) -> None:
    for worse in range(differ // 2 + 1):
        better = differ - worse
        found = intervals._sign_flip_test([0.5] * better + [-0.5] * worse)
        assert found == pytest.approx(sign_test(better, worse), abs=3e-3), (better, worse)


def test_small_differences_beside_a_few_large_ones_do_not_show_one() -> None:
    few = [1.0] * 5
    assert of_differences([*few, *[-0.001] * 30])[0] == 0
    assert of_differences([*few, *[-0.001] * 3000])[0] <= 0
    assert of_differences([*few, *[0.1] * 30])[0] > 0
    assert of_differences([*few, 0.5, 0.5, 0.5, *[-0.001] * 30])[0] > 0
