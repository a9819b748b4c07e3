"""What an expert could score: several sampled answers to each row, one of which may be right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

from expert_worker.evaluate import scores
from expert_worker.evaluate.verdict import Row, Verdict
from expert_worker.plan import Samples
from expert_worker.results import PassAt, SampledLine, SampledScores, Share

Sampled = Sequence[Sequence[Verdict]]
"""The samples of each row, in the order in which they were drawn."""


def sampled_scores(rows: Sequence[Row], sampled: Sampled, asked: Samples) -> SampledScores:
    sizes = sizes_up_to(asked.per_row)
    return SampledScores(
        per_row=asked.per_row,
        temperature=asked.temperature,
        pass_at=_pass_at(sampled, sizes),
        vote=_vote(sampled),
        by_level=_lines(rows, scores.by_level, sampled, sizes),
        by_tag=_lines(rows, scores.by_tag, sampled, sizes),
    )


def sizes_up_to(count: int) -> list[int]:
    """1, 2, 4 and so on, and `count` itself."""
    powers = [1 << power for power in range(count.bit_length())]
    return powers if powers[-1] == count else [*powers, count]


def pass_at(right: int, count: int, k: int) -> float:
    """The share of choices of `k` from `count` samples that hold one of the `right` ones: an unbiased
    estimate, which 1 - (1 - right/count)^k is not."""
    return 1.0 - comb(count - right, k) / comb(count, k)


def voted(samples: Sequence[Verdict]) -> Verdict:
    """The first sample of the largest group with the same result; of groups of one size, of the earliest.
    Answers without a result, such as queries that fail, have no vote while there are others."""
    groups: dict[str, list[Verdict]] = {}
    for sample in samples:
        if sample.result_key is not None:
            groups.setdefault(sample.result_key, []).append(sample)
    return max(groups.values(), key=len)[0] if groups else samples[0]


def _pass_at(sampled: Sampled, sizes: Sequence[int]) -> tuple[PassAt, ...]:
    right = [(sum(sample.correct for sample in samples), len(samples)) for samples in sampled]
    found = []
    for k in sizes:
        share = scores.share([pass_at(correct, count, k) for correct, count in right])
        found.append(PassAt(k=k, **dict(share)))
    return tuple(found)


def _vote(sampled: Sampled) -> Share:
    return scores.share([voted(samples).score for samples in sampled])


def _lines(
    rows: Sequence[Row], names: Callable[[Row], Sequence[str]], sampled: Sampled, sizes: Sequence[int]
) -> tuple[SampledLine, ...]:
    """In the order of the other tables: most rows first."""
    by_name: dict[str, list[Sequence[Verdict]]] = {}
    for row, samples in zip(rows, sampled, strict=True):
        for name in set(names(row)):
            by_name.setdefault(name, []).append(samples)
    ordered = sorted(by_name.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        SampledLine(name=name, pass_at=_pass_at(its, sizes), vote=_vote(its)) for name, its in ordered
    )


@dataclass(frozen=True)
class Distinct:
    """Each text of a row once: a model that is sure says the same again and again."""

    rows: list[Row]
    texts: list[str]
    # For each row, which of them its samples are.
    places: list[list[int]]

    @classmethod
    def of(cls, rows: Sequence[Row], answers: Sequence[Sequence[str]]) -> Distinct:
        found, texts, places = list[Row](), list[str](), list[list[int]]()
        for row, its in zip(rows, answers, strict=True):
            known: dict[str, int] = {}
            for text in its:
                if text not in known:
                    known[text] = len(texts)
                    found.append(row)
                    texts.append(text)
            places.append([known[text] for text in its])
        return cls(found, texts, places)

    def sampled(self, verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
        return [[verdicts[place] for place in its] for its in self.places]
