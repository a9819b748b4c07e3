"""The router: a linear classifier over hashed features, with a class for prompts of none of the experts.

Ridge regression on one column per class. Its leave-one-out scores have a closed form, and the threshold comes
from them: of the everyday prompts that the router learns from, 5% may go to an expert.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expert_worker.checkpoint.files import replace_shared
from expert_worker.errors import BadInput
from expert_worker.routing.features import COUNT, bounded, features, matrix, weight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Changes with everything that makes other weights of the same rows.
VERSION = 4
# The time to learn grows with the cube of all rows.
_ROWS_OF_ALL = 3_200
_ROWS_OF_ONE = 800
_FEWEST_ROWS = 4
_RIDGE = 1.0
_EVERYDAY_TO_EXPERTS = 0.05
_SHARPNESS = (0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5)
# What a keyword of the manifest adds to an expert's score or takes from it; a clear prompt has about 1.
_HINT = 0.15


class Route(NamedTuple):
    """The expert for a prompt, or None, and the probability that this is right."""

    expert: str | None
    confidence: float


@dataclass(frozen=True)
class Examples:
    """What the router learns an expert from."""

    expert: str
    prompts: Sequence[str]
    keywords: tuple[str, ...] = ()
    exclude_keywords: tuple[str, ...] = ()


@dataclass(frozen=True)
class Router:
    experts: tuple[str, ...]
    # Of each feature for each expert and, last, for "none".
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    threshold: float
    sharpness: float
    keywords: tuple[tuple[str, ...], ...] = ()
    exclude_keywords: tuple[tuple[str, ...], ...] = ()
    # What else the file records, such as the accuracy.
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def learn(cls, shelf: Sequence[Examples]) -> Router:
        _check(shelf)
        rows = _rows_of_each(len(shelf))
        chosen = [drawn(examples.prompts, rows) for examples in shelf]
        everyday = everyday_prompts("train")
        own = np.concatenate([matrix(prompts) for prompts in chosen])
        labels = np.repeat(np.arange(len(shelf)), [len(prompts) for prompts in chosen])
        hints = _Hints.of(shelf)
        hinted = np.array([hints.of_prompt(prompt) for prompts in chosen for prompt in prompts])
        foreign, hinted_foreign = matrix(everyday), np.array([hints.of_prompt(it) for it in everyday])
        none = len(shelf)
        fit = _Fit.of(own, labels, foreign, none)
        margins = fit.margins(hinted, hinted_foreign)
        threshold = float(np.quantile(margins[len(own) :], 1 - _EVERYDAY_TO_EXPERTS))
        return cls(
            experts=tuple(examples.expert for examples in shelf),
            weights=fit.weights,
            bias=fit.bias,
            threshold=threshold,
            sharpness=fit.sharpness(threshold),
            keywords=tuple(tuple(examples.keywords) for examples in shelf),
            exclude_keywords=tuple(tuple(examples.exclude_keywords) for examples in shelf),
        )

    def route(self, prompt: str) -> Route:
        found = features(prompt)
        if not len(found):
            return Route(None, 1.0)
        scores = self.weights[found].sum(axis=0, dtype=np.float64) * weight(len(found)) + self.bias
        scores[:-1] += self._hints.of_prompt(prompt)
        scores[-1] += self.threshold
        chances = _softmax(scores / self.sharpness)
        best = int(chances.argmax())
        return Route(self.experts[best] if best < len(self.experts) else None, float(chances[best]))

    def save(self, path: Path) -> None:
        from safetensors.numpy import save

        head = {
            "version": VERSION,
            "experts": self.experts,
            "threshold": self.threshold,
            "sharpness": self.sharpness,
            "keywords": self.keywords,
            "exclude_keywords": self.exclude_keywords,
            "notes": self.notes,
        }
        tensors = {"weights": self.weights, "bias": self.bias}
        content = save(tensors, {"router": json.dumps(head, sort_keys=True)})
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_shared(path, content)

    @classmethod
    def load(cls, path: Path) -> Router | None:
        """None where there is no file, or one that another version wrote or that is damaged."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as file:
                head = json.loads((file.metadata() or {})["router"])
                weights, bias = file.get_tensor("weights"), file.get_tensor("bias")
            experts = tuple(map(str, head["experts"]))
            classes = len(experts) + 1
            if head["version"] != VERSION or weights.shape != (COUNT, classes) or bias.shape != (classes,):
                return None
            return cls(
                experts=experts,
                weights=weights.astype(np.float32, copy=False),
                bias=bias.astype(np.float32, copy=False),
                threshold=float(head["threshold"]),
                sharpness=float(head["sharpness"]),
                keywords=tuple(map(tuple, head["keywords"])),
                exclude_keywords=tuple(map(tuple, head["exclude_keywords"])),
                notes=dict(head["notes"]),
            )
        except (OSError, SafetensorError, ValueError, KeyError, TypeError):
            return None

    @cached_property
    def _hints(self) -> _Hints:
        return _Hints(self.keywords, self.exclude_keywords)


def everyday_prompts(split: str) -> list[str]:
    """`train`: the router learns "none" from these. `test`: it is only measured on these."""
    file = resources.files("expert_worker.routing") / f"everyday_{split}.txt"
    return file.read_text(encoding="utf-8").splitlines()


def drawn(prompts: Sequence[str], count: int) -> list[str]:
    """At most `count` of them, the same each time. Not at even distances: generators write their kinds of
    rows in turn, and an even distance would meet the same kinds again and again."""
    places = random.Random(len(prompts)).sample(range(len(prompts)), min(count, len(prompts)))
    return [prompts[place] for place in sorted(places)]


def _rows_of_each(experts: int) -> int:
    return max(_FEWEST_ROWS, min(_ROWS_OF_ONE, _ROWS_OF_ALL // experts))


def _check(shelf: Sequence[Examples]) -> None:
    names = [examples.expert for examples in shelf]
    if not shelf:
        raise BadInput("There is no expert to choose from", code="no-experts")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"Two experts are named {twice}", hint="Rename one.", code="same-name")
    for examples in shelf:
        if not any(len(features(prompt)) for prompt in examples.prompts):
            raise BadInput(
                f"{examples.expert} has no row with a prompt: the router learns from the prompts of its "
                "training rows",
                hint="Name the fields in training.dataset.field_mapping.",
                code="no-prompts",
            )


@dataclass(frozen=True)
class _Fit:
    """The regression, and each row's scores without the row itself."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    labels: NDArray[np.int64]
    held_out: Floats

    @classmethod
    def of(
        cls, own: NDArray[np.float32], labels: NDArray[np.int64], foreign: NDArray[np.float32], none: int
    ) -> _Fit:
        rows = np.concatenate([own, foreign])
        labels = np.concatenate([labels, np.full(len(foreign), none)])
        counts = np.bincount(labels, minlength=none + 1)
        # Every class has the same weight, however many rows it has.
        importance = len(labels) / (none + 1) / counts[labels]
        importance /= importance.mean()
        targets = np.eye(none + 1)[labels]
        # 1 is the product of two constant features: the bias.
        inverse = np.linalg.inv((rows @ rows.T).astype(np.float64) + 1.0 + np.diag(_RIDGE / importance))
        dual = inverse @ targets
        return cls(
            weights=rows.T @ dual.astype(np.float32),
            bias=dual.sum(axis=0).astype(np.float32),
            labels=labels,
            held_out=targets - dual / np.diag(inverse)[:, None],
        )

    def margins(self, hinted: Floats, hinted_foreign: Floats) -> Floats:
        """By how much each row's best expert exceeds "none"."""
        experts = self.held_out[:, :-1] + np.concatenate([hinted, hinted_foreign])
        margins: Floats = experts.max(axis=1) - self.held_out[:, -1]
        return margins

    def sharpness(self, threshold: float) -> float:
        """That of the probabilities which fit the held-out rows best."""
        scores = self.held_out.copy()
        scores[:, -1] += threshold
        counts = np.bincount(self.labels)[self.labels]

        def loss(sharpness: float) -> float:
            right = _softmax(scores / sharpness)[np.arange(len(scores)), self.labels]
            return float(-(np.log(np.maximum(right, 1e-12)) / counts).sum())

        return min(_SHARPNESS, key=loss)


class _Hints:
    """Keywords of manifests: they move a score by a fixed amount, however many are found."""

    def __init__(self, keywords: Sequence[Sequence[str]], exclude_keywords: Sequence[Sequence[str]]) -> None:
        self._added = [_any_of(words) for words in keywords]
        self._taken = [_any_of(words) for words in exclude_keywords]

    @classmethod
    def of(cls, shelf: Sequence[Examples]) -> _Hints:
        return cls(
            [examples.keywords for examples in shelf], [examples.exclude_keywords for examples in shelf]
        )

    def of_prompt(self, prompt: str) -> Floats:
        hints = np.zeros(len(self._added))
        text = bounded(prompt).casefold()
        for place, (added, taken) in enumerate(zip(self._added, self._taken, strict=True)):
            hints[place] = _HINT * (_is_in(added, text) - _is_in(taken, text))
        return hints


def _any_of(words: Sequence[str]) -> re.Pattern[str] | None:
    """Whole words, without regard to case."""
    known = sorted({word.strip().casefold() for word in words} - {""})
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)") if known else None


def _is_in(words: re.Pattern[str] | None, text: str) -> int:
    return int(words is not None and words.search(text) is not None)


def _softmax(scores: Floats) -> Floats:
    raised: Floats = np.exp(scores - scores.max(axis=-1, keepdims=True))
    raised /= raised.sum(axis=-1, keepdims=True)
    return raised
