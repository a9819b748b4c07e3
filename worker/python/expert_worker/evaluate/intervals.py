"""95% intervals: of a mean score, and of the difference between two scores of the same rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import erfc, exp, lgamma, log, sqrt

NORMAL_95 = 1.959963984540054
_NO_VARIANCE = 1e-9
_ROUNDING = 1e-9
_HALVINGS = 60
# Of so many rows all signs are tried; of more rows only those of the largest differences.
_MOST_SIGNS = 20
_LARGEST = 12

Interval = tuple[float, float]


def interval(values: Sequence[float]) -> Interval:
    """Of the mean of scores from 0 to 1. Of right and wrong answers it is Wilson's.

    Partial scores vary less than right and wrong ones with the same mean, so that fewer of them say as much:
    they count as that many more answers. One answer is added to their variance as if it were right or wrong,
    because a few equal scores do not show that there are no others.
    """
    total = len(values)
    if all(value in (0, 1) for value in values):
        return wilson(sum(values), total)
    mean = min(1.0, max(0.0, sum(values) / total))
    binary = mean * (1 - mean)
    if binary < _NO_VARIANCE:
        # Only rounding is between these scores and 0 or 1.
        return wilson(mean * total, total)
    variance = (sum((value - mean) ** 2 for value in values) + binary) / (total + 1)
    worth = total * binary / variance
    return wilson(mean * worth, worth)


def wilson(correct: float, total: float) -> Interval:
    """Wilson's score interval: unlike the usual one it stays inside 0..1 and is right near both ends."""
    if total == 0:
        return 0.0, 1.0
    rate, square = correct / total, NORMAL_95**2
    middle = (rate + square / (2 * total)) / (1 + square / total)
    half = NORMAL_95 / (1 + square / total) * sqrt(rate * (1 - rate) / total + square / (4 * total**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def of_differences(differences: Sequence[float]) -> Interval:
    """Of the mean of a score less another one, row by row; each difference is from -1 to 1."""
    if all(abs(difference - round(difference)) < _ROUNDING for difference in differences):
        better = sum(difference > 0.5 for difference in differences)
        worse = sum(difference < -0.5 for difference in differences)
        return of_paired_answers(better, worse, len(differences))
    # From -1 to 1 becomes from 0 to 1 and back.
    low, high = (2 * end - 1 for end in interval([(difference + 1) / 2 for difference in differences]))
    if low <= 0 <= high or _sign_flip_test(differences) < 0.05:
        return low, high
    return min(low, 0.0), max(high, 0.0)


def _sign_flip_test(differences: Sequence[float]) -> float:
    """The probability of so large a sum, or a larger one, where chance alone chooses each row's sign."""
    sizes = sorted((abs(it) for it in differences if abs(it) > _ROUNDING), reverse=True)
    total = abs(sum(differences)) - _ROUNDING
    at_least = _share_of_signs if len(sizes) <= _MOST_SIGNS else _nearly_share_of_signs
    return min(1.0, 2 * at_least(sizes, total))


def _share_of_signs(sizes: Sequence[float], total: float) -> float:
    """Of all signs, those with a sum of at least `total`; the sums of one half are looked up in the other."""
    left, right = _signed_sums(sizes[::2]), sorted(_signed_sums(sizes[1::2]))
    reached = sum(len(right) - bisect_left(right, total - part) for part in left)
    return float(reached / (len(left) * len(right)))


def _nearly_share_of_signs(sizes: Sequence[float], total: float) -> float:
    """All signs of the largest, with a normal distribution for the sum of the others. Sums of equal sizes
    are two sizes apart, so the sum begins one size earlier: the continuity correction."""
    deviation = sqrt(2 * sum(size**2 for size in sizes[_LARGEST:]))
    sums = _signed_sums(sizes[:_LARGEST])
    return sum(erfc((total - sizes[-1] - part) / deviation) / 2 for part in sums) / len(sums)


def _signed_sums(sizes: Sequence[float]) -> list[float]:
    sums = [0.0]
    for size in sizes:
        sums = [part + signed for part in sums for signed in (size, -size)]
    return sums


def of_paired_answers(better: int, worse: int, total: int) -> Interval:
    """Of right and wrong answers: of `total` rows one side alone is right on `better`, the other alone on
    `worse`.

    Tango's score interval (Statistics in Medicine 17, 1998). Where few rows differ it may leave out 0, and an
    exact sign test does not: it is widened to the exact interval of the rows that differ.
    """
    if total == 0:
        return -1.0, 1.0
    return -_highest(worse, better, total), _highest(better, worse, total)


def _highest(better: int, worse: int, total: int) -> float:
    score = _last(
        lambda difference: _is_likely(difference, better, worse, total), (better - worse) / total, 1.0
    )
    differ = better + worse
    exact = (2 * _highest_share(better, differ) - 1) * differ / total
    return max(score, exact)


def _is_likely(difference: float, better: int, worse: int, total: int) -> bool:
    """Whether Tango's statistic is within the 95% of a normal distribution."""
    linear = (2 * total - better + worse) * difference - better - worse
    constant = -worse * difference * (1 - difference)
    only_worse = (sqrt(max(0.0, linear**2 - 8 * total * constant)) - linear) / (4 * total)
    variance = total * max(0.0, 2 * only_worse + difference * (1 - difference))
    return (better - worse - total * difference) ** 2 <= NORMAL_95**2 * variance


def _highest_share(count: int, total: int) -> float:
    """The upper end of Clopper and Pearson's exact interval for `count` of `total`."""
    if count == total:
        return 1.0
    return _last(lambda share: _at_most(count, total, share) >= 0.025, count / total, 1.0)


def _at_most(count: int, total: int, share: float) -> float:
    """The probability of at most `count` successes among `total` tries."""
    if share in (0.0, 1.0):
        return 1.0 if share == 0.0 else float(count >= total)
    logs = (
        lgamma(total + 1)
        - lgamma(n + 1)
        - lgamma(total - n + 1)
        + n * log(share)
        + (total - n) * log(1 - share)
        for n in range(count + 1)
    )
    return sum(map(exp, logs))


def _last(holds: Callable[[float], bool], first: float, end: float) -> float:
    """The last number up to `end` for which `holds`; it holds for `first`."""
    if holds(end):
        return end
    low, high = first, end
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
