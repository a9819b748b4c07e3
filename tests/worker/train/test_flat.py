"""Batches of documents end to end: supervised targets, pieces for several threads, and padding."""

from __future__ import annotations

import pytest
import torch

from expert_worker.train.fast.batch import IGNORED, PackedBatch, nothing, positions_of, supervised

LENGTHS = (3, 2, 4)


def batch(*, keys: bool = True) -> PackedBatch:
    positions = positions_of(LENGTHS)
    ids = torch.arange(10, 19)
    labels = ids.clone()
    labels[[0, 5]] = IGNORED
    return PackedBatch(ids, labels, positions, LENGTHS, torch.arange(100, 109) if keys else None, 7)


def test_a_document_s_first_token_is_asked_of_nobody():
    """Its predecessor belongs to another document."""
    assert batch().sources.tolist() == [0, 1, 3, 5, 6, 7]
    assert batch().targets.tolist() == [11, 12, 14, 16, 17, 18]
    assert batch().targets.dtype == torch.int64
    assert supervised(batch().labels, batch().positions) == 6


def test_a_masked_token_is_not_asked_for_but_may_be_asked():
    labels = torch.tensor([1, -100, 3, -100])
    flat = PackedBatch(torch.arange(4), labels, torch.arange(4), (4,))
    assert flat.sources.tolist() == [1] and flat.targets.tolist() == [3]
    assert supervised(labels, flat.positions) == 1


@pytest.mark.parametrize(("multiple", "filled"), [(1, 6), (3, 6), (4, 8), (7, 7), (32, 32)])
def test_what_is_asked_is_filled_up_by_what_counts_nothing(multiple, filled):
    sources, targets = batch().supervised_targets(multiple)
    assert len(sources) == len(targets) == filled
    assert sources[:6].tolist() == [0, 1, 3, 5, 6, 7] and targets[:6].tolist() == [11, 12, 14, 16, 17, 18]
    assert (sources[6:] == sources[5]).all() and (targets[6:] == IGNORED).all()


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("multiple", [1, 3, 4, 32])
def test_filling_up_adds_one_document_of_nothing(multiple, keys):
    flat = batch(keys=keys)
    filled = flat.filled(multiple)
    missing = -9 % multiple
    if not missing:
        assert filled is flat
        return
    assert len(filled.ids) == len(filled.labels) == len(filled.positions) == 9 + missing
    assert filled.lengths == (*LENGTHS, missing) and filled.step == 7
    assert torch.equal(filled.ids[:9], flat.ids) and torch.equal(filled.labels[:9], flat.labels)
    assert filled.positions.tolist() == [*flat.positions.tolist(), *range(missing)]
    assert (filled.labels[9:] == IGNORED).all() and not filled.ids[9:].any()
    if keys:
        assert filled.keys.tolist() == [*range(100, 109), *[0] * missing]
    else:
        assert filled.keys is None
    assert filled.sources.tolist() == flat.sources.tolist()


def test_pieces_are_level_and_hold_each_document_whole():
    first, second = batch().pieces(2)
    assert (first.lengths, second.lengths) == ((3, 2), (4,))
    assert first.ids.tolist() == [10, 11, 12, 13, 14] and second.ids.tolist() == [15, 16, 17, 18]
    assert first.labels.tolist() == [IGNORED, 11, 12, 13, 14]
    assert second.labels.tolist() == [IGNORED, 16, 17, 18]
    assert first.positions.tolist() == [0, 1, 2, 0, 1] and second.positions.tolist() == [0, 1, 2, 3]
    assert first.keys.tolist() == [100, 101, 102, 103, 104] and second.keys.tolist() == [105, 106, 107, 108]
    assert first.step == second.step == 7


def test_documents_that_are_apart_in_the_batch_keep_their_order():
    flat = PackedBatch(torch.arange(9), torch.arange(9), positions_of((2, 5, 2)), (2, 5, 2))
    first, second = flat.pieces(2)
    assert first.ids.tolist() == [0, 1, 7, 8] and first.lengths == (2, 2)
    assert second.ids.tolist() == [2, 3, 4, 5, 6] and second.keys is None


@pytest.mark.parametrize(("count", "sets"), [(1, 1), (2, 2), (3, 3), (8, 3)])
def test_there_are_no_more_pieces_than_documents(count, sets):
    flat = batch()
    pieces = flat.pieces(count)
    assert len(pieces) == sets
    assert (pieces[0] is flat) == (count == 1)


def test_it_moves_whole():
    flat = batch()
    moved = flat.to(torch.device("meta"))
    assert {part.device.type for part in (moved.ids, moved.labels, moved.positions, moved.keys)} == {"meta"}
    assert (moved.lengths, moved.step) == (LENGTHS, 7)
    assert batch(keys=False).to(torch.device("meta")).keys is None


def test_its_documents_are_on_its_device():
    moved = batch().to(torch.device("meta"))
    assert moved.documents.lengths == LENGTHS and moved.documents.boundaries.device.type == "meta"


def test_nothing_counts_nothing():
    empty = nothing()
    assert supervised(empty.labels, empty.positions) == 0 and len(empty.sources) == 0
    assert len(empty.ids) == len(empty.labels) == len(empty.positions) == sum(empty.lengths) == 2
    assert not empty.ids.any()


def test_without_a_step_the_draws_are_those_of_step_0():
    assert nothing().step == 0


@pytest.mark.parametrize("pinned", [False, True])
def test_it_is_pinned_for_a_copy_to_a_gpu_only(pinned, monkeypatch):
    copied = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: copied.append("pinned") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: copied.append("sent") or tensor)
    batch().to(torch.device("meta"), pinned=pinned)
    assert copied == ["sent"] * 6
    copied.clear()
    batch().to(torch.device("cuda"), pinned=pinned)
    assert copied == (["pinned", "sent"] if pinned else ["sent"]) * 6
