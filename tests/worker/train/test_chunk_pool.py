"""Pieces side by side: the sums of one walk, always in one order, and failures that come through."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from tiny import apart, base, flat, gradients, lora

from expert_worker.train.chunk_pool import ChunkPool
from expert_worker.train.engine import FastEngine
from expert_worker.train.fast.decoder import FastDecoder, rotations
from expert_worker.train.fast.dropout import Place, PlaceByThread, install
from expert_worker.train.fast.kernels import head_loss
from expert_worker.train.fast.kernels.adapted_linear import lora as fused_lora
from expert_worker.train.objective import SupervisedFineTuning

LENGTHS = (9, 12, 17, 5, 30, 2, 8, 21)


def engine(model, room, threads):
    place = PlaceByThread() if threads > 1 else Place()
    install(model, place)
    lanes = ChunkPool(room, threads) if room else None
    return FastEngine(model, FastDecoder(model, place), SupervisedFineTuning(), torch.device("cpu"), lanes)


@pytest.mark.parametrize("dora", [False, True])
def test_two_lanes_come_to_what_one_walk_does(dora):
    found = []
    for room, threads in ((None, 1), (1000, 1), (32, 2), (32, 2)):
        model = lora(dora=dora, dropout=0.3)
        loss = engine(model, room, threads).backward(flat(LENGTHS), 0.5)
        found.append((loss, gradients(model)))
    (whole, wanted), *others = found
    for loss, grads in others:
        assert apart(loss, whole) < 1e-6
        assert max(apart(grads[name], wanted[name]) for name in wanted) < 1e-5
    (_, one), (_, again) = found[2:]
    assert all(torch.equal(one[name], again[name]) for name in one)


def test_evaluation_takes_the_lanes_too():
    model = lora()
    whole, split = (engine(model, room, 2).loss(flat(LENGTHS)) for room in (None, 32))
    assert apart(split, whole) < 1e-6 and model.training


def test_pieces_hold_every_document_once_and_are_level():
    batch = flat(LENGTHS)
    pieces = ChunkPool(32, 2).pieces(batch)
    assert len(pieces) == 4
    assert sorted(length for piece in pieces for length in piece.lengths) == sorted(LENGTHS)
    assert max(len(piece.ids) for piece in pieces) - min(len(piece.ids) for piece in pieces) <= 9
    assert sum(int(piece.targets.sum()) for piece in pieces) == int(batch.targets.sum())


def test_a_long_document_walks_alone():
    seen = {}

    def work(piece):
        seen[piece.lengths] = threading.current_thread() is threading.main_thread()
        return len(piece.ids)

    lanes = ChunkPool(20, 2)
    pieces = lanes.pieces(flat((80, 10, 9, 11)))
    assert sum(lanes.walk(work, pieces)) == 110
    assert seen[80,] and not all(seen.values())


def test_a_failure_in_a_lane_is_raised_when_all_have_ended():
    ended = []

    def work(piece):
        ended.append(len(piece.ids))
        raise MemoryError("out of memory")

    lanes = ChunkPool(32, 2)
    with pytest.raises(MemoryError):
        list(lanes.walk(work, lanes.pieces(flat((30, 30)))))
    assert len(ended) == 2


def test_products_meet_few_numbers_of_rows(monkeypatch):
    """oneDNN compiles and keeps a kernel for each: what varies from batch to batch must not."""
    met = set()
    for module in (fused_lora, head_loss):
        product = module.times_transposed

        def recorded(x, weight, product=product):
            met.add(x.shape[0])
            return product(x, weight)

        monkeypatch.setattr(module, "times_transposed", recorded)
    walker = engine(lora(model=base(dtype=torch.bfloat16)), 64, 2)
    for seed in range(12):
        lengths = [int(length) for length in torch.randint(3, 40, (5,))]
        walker.backward(flat(tuple(lengths), seed), 1.0)
    assert met and all(size % 32 == 0 for size in met) and len(met) <= 4


class LastRow:
    """Rotary positions whose frequency is that of the rows computed last, as longrope's are."""

    frequency = 0.0

    def __call__(self, _x, positions):
        self.frequency = 1.0 / len(positions[0])
        time.sleep(0.02)
        angles = positions[..., None].float() * self.frequency
        return angles.cos().repeat(1, 1, 2), angles.sin().repeat(1, 1, 2)


def test_pieces_that_are_computed_together_have_their_own_rotary_frequencies():
    body = SimpleNamespace(norm=torch.nn.LayerNorm(4), rotary_emb=LastRow())
    rows = [torch.arange(length) for length in (5, 9, 30, 4)]
    alone = [rotations(body, row) for row in rows]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda row: rotations(body, row), rows))
    for found, wanted in zip(together, alone, strict=True):
        assert all(map(torch.equal, found, wanted))
