"""A packed batch for the fast path: documents end to end, with positions that restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapreplace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from .kernels.attention import Documents

IGNORED = -100
# On a CPU oneDNN compiles and caches a kernel for each number of rows: pad to few of them.
CPU_MULTIPLE = 32


@dataclass(frozen=True)
class PackedBatch:
    """`ids`, `labels` and `positions` are [tokens]; `keys` are each token's dropout key, and `step` is
    the optimizer step, for draws shared by all tokens."""

    ids: Tensor
    labels: Tensor
    positions: Tensor
    lengths: tuple[int, ...]
    keys: Tensor | None = None
    step: int = 0
    experts: tuple[int, ...] = ()
    """Whose each document is, where several experts train together; one expert's follow each other."""
    shared: tuple[int, ...] = ()
    """With how many tokens each document begins that are not there again: they are the first ones of the last
    document that shares none. Empty where no document shares any."""
    repeated_noise_lengths: Tensor | None = None
    """`noise_lengths` where shared tokens were repeated."""

    @classmethod
    def of_experts(cls, batches: Sequence[PackedBatch]) -> PackedBatch:
        """The batches of several experts, end to end."""
        keys = [batch.keys for batch in batches if batch.keys is not None]
        return cls(
            torch.cat([batch.ids for batch in batches]),
            torch.cat([batch.labels for batch in batches]),
            torch.cat([batch.positions for batch in batches]),
            tuple(length for batch in batches for length in batch.lengths),
            torch.cat(keys) if len(keys) == len(batches) else None,
            experts=tuple(number for number, batch in enumerate(batches) for _ in batch.lengths),
            shared=_joined([batch.shared for batch in batches], [len(batch.lengths) for batch in batches]),
        )

    def tokens_of_experts(self, count: int) -> list[int]:
        """How many tokens are each expert's."""
        return self._of_experts(count, self.lengths)

    def supervised_of_experts(self, count: int) -> list[int]:
        """How many of `sources` are each expert's."""
        return self._of_experts(count, self.supervised_lengths)

    def _of_experts(self, count: int, lengths: Sequence[int]) -> list[int]:
        found = [0] * count
        for expert, length in zip(self.experts, lengths, strict=True):
            found[expert] += length
        return found

    @cached_property
    def documents(self) -> Documents:
        return Documents(self.lengths, self.ids.device, self.shared)

    @property
    def whole_lengths(self) -> tuple[int, ...]:
        """Of each document with what it shares."""
        return self.documents.whole_lengths

    @property
    def noise_lengths(self) -> Tensor:
        """By which NEFTune scales each token's noise: its document's length, with what that shares. Tokens
        that several documents share have one noise, that of the first."""
        if self.repeated_noise_lengths is not None:
            return self.repeated_noise_lengths
        whole, here = (
            torch.tensor(lengths, device=self.ids.device) for lengths in (self.whole_lengths, self.lengths)
        )
        return torch.repeat_interleave(whole, here)

    def whole(self) -> PackedBatch:
        """With each document's shared tokens before it, for what knows separate documents only."""
        if not self.shared:
            return self
        place, documents = self.documents.repeated
        # No shared token is learned, so that their labels are right in each document.
        noise = self.noise_lengths[place]
        return replace(self._at(place), lengths=documents.lengths, shared=(), repeated_noise_lengths=noise)

    def _at(self, place: Tensor) -> PackedBatch:
        """The tokens at these places, with the same documents."""

        def at(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[place]

        return replace(
            self,
            ids=self.ids[place],
            labels=self.labels[place],
            positions=self.positions[place],
            keys=at(self.keys),
            repeated_noise_lengths=at(self.repeated_noise_lengths),
        )

    @cached_property
    def sources(self) -> Tensor:
        """The tokens whose successor is supervised. A document's first token has no predecessor."""
        wanted = (self.labels != IGNORED) & (self.positions > 0)
        return wanted.nonzero().squeeze(1) - 1

    @cached_property
    def targets(self) -> Tensor:
        return self.labels[self.sources + 1].long()

    @cached_property
    def supervised_lengths(self) -> tuple[int, ...]:
        """How many of `sources` are each document's."""
        bounds = torch.tensor([*accumulate(self.lengths)], device=self.sources.device)
        ends = torch.searchsorted(self.sources, bounds).tolist()
        return tuple(end - start for start, end in pairwise([0, *ends]))

    def supervised_targets(self, multiple: int) -> tuple[Tensor, Tensor]:
        """Sources and targets, padded to a multiple of `multiple` with ignored targets."""
        missing = -len(self.sources) % multiple
        if not missing:
            return self.sources, self.targets
        # The last token once more, which is the last expert's: another's could spread a NaN.
        again = self.sources[-1:].expand(missing)
        ignored = self.targets.new_full((missing,), IGNORED)
        return torch.cat([self.sources, again]), torch.cat([self.targets, ignored])

    def pieces(self, count: int) -> list[PackedBatch]:
        """At most `count` sets of whole documents, as equal as can be. Documents that share stay together."""
        families = self._families()
        sets = _level([sum(self.lengths[at] for at in family) for family in families], count)
        if len(sets) == 1:
            return [self]
        return [self._part([at for number in chosen for at in families[number]]) for chosen in sets]

    def padded_parts(self, room: int) -> list[PackedBatch]:
        """Sets of documents of like length: their number times the longest is at most `room`, unless one
        alone is longer. Within a set they keep the batch's order."""
        sets: list[list[int]] = []
        for at in sorted(range(len(self.lengths)), key=lambda at: self.lengths[at]):
            if sets and (len(sets[-1]) + 1) * self.lengths[at] <= room:
                sets[-1].append(at)
            else:
                sets.append([at])
        return [self] if len(sets) == 1 else [self._part(sorted(chosen)) for chosen in sets]

    def _families(self) -> list[list[int]]:
        """Each document that shares nothing, with those that continue its beginning."""
        found: list[list[int]] = []
        for at, shared in enumerate(self.shared or (0,) * len(self.lengths)):
            if shared:
                found[-1].append(at)
            else:
                found.append([at])
        return found

    def filled(self, multiple: int) -> PackedBatch:
        """With a padding document at the end, so that the number of tokens is a multiple of `multiple`."""
        missing = -len(self.ids) % multiple
        if not missing:
            return self
        nothing = self.ids.new_zeros(missing)
        keys = torch.cat([self.keys, self.keys.new_zeros(missing)]) if self.keys is not None else None
        return PackedBatch(
            torch.cat([self.ids, nothing]),
            torch.cat([self.labels, nothing + IGNORED]),
            torch.cat([self.positions, torch.arange(missing, device=self.ids.device)]),
            (*self.lengths, missing),
            keys,
            self.step,
            (*self.experts, *self.experts[-1:]),
            (*self.shared, 0) if self.shared else (),
        )

    def _part(self, chosen: list[int]) -> PackedBatch:
        starts = [0, *accumulate(self.lengths)]
        place = torch.cat([torch.arange(starts[i], starts[i + 1], device=self.ids.device) for i in chosen])
        lengths = tuple(self.lengths[i] for i in chosen)
        experts = tuple(self.experts[i] for i in chosen) if self.experts else ()
        shared = tuple(self.shared[i] for i in chosen) if self.shared else ()
        return replace(self._at(place), lengths=lengths, experts=experts, shared=shared)

    def to(self, device: torch.device, *, pinned: bool = False) -> PackedBatch:
        """With what depends on values, such as where supervised tokens are: the host would have to wait for a
        GPU to find it. From pinned memory the host does not wait for the copy to a GPU either."""
        if self.ids.device == device:
            return self

        def move(tensor: Tensor) -> Tensor:
            from_host = tensor.pin_memory() if pinned and device.type == "cuda" else tensor
            return from_host.to(device, non_blocking=True)

        keys = move(self.keys) if self.keys is not None else None
        moved = PackedBatch(
            move(self.ids),
            move(self.labels),
            move(self.positions),
            self.lengths,
            keys,
            self.step,
            self.experts,
            self.shared,
        )
        moved.__dict__.update(sources=move(self.sources), targets=move(self.targets))
        if self.experts:
            moved.__dict__.update(supervised_lengths=self.supervised_lengths)
        return moved


def _joined(shared: Sequence[tuple[int, ...]], counts: Sequence[int]) -> tuple[int, ...]:
    """Of several batches, whose numbers of documents are `counts`."""
    if not any(shared):
        return ()
    return tuple(one for part, count in zip(shared, counts, strict=True) for one in part or (0,) * count)


def _level(lengths: Sequence[int], count: int) -> list[list[int]]:
    """The longest documents first, each into the emptiest set; within a set they keep the batch's order."""
    held = [(0, number) for number in range(min(count, len(lengths)))]
    sets: list[list[int]] = [[] for _ in held]
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        full, number = held[0]
        sets[number].append(index)
        heapreplace(held, (full + lengths[index], number))
    return sorted(sorted(chosen) for chosen in sets)


def nothing() -> PackedBatch:
    """A padding document without supervised tokens."""
    return PackedBatch(torch.zeros(2, dtype=torch.long), torch.full((2,), IGNORED), torch.arange(2), (2,))


def supervised(labels: Tensor, positions: Tensor) -> int:
    """The number of supervised tokens."""
    return int(((labels != IGNORED) & (positions > 0)).sum())


def positions_of(lengths: Sequence[int]) -> Tensor:
    return torch.cat([torch.arange(length) for length in lengths])
