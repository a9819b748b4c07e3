"""The order of rows, and what is drawn at tokens."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scene import rows

from expert_worker.errors import BadInput
from expert_worker.train.dataset import InMemory, check_ids
from expert_worker.train.loader import StepSampler, keyed
from expert_worker.train.objective import SupervisedFineTuning

flat = SupervisedFineTuning().batch


def test_no_row_is_left_out_of_every_epoch():
    """Also where the short ones are sorted to the end."""
    for lengths in (None, tuple(range(1, 108))):
        order = StepSampler(107, 8, 3, drop_last=True, lengths=lengths)
        seen = {row for step in range(10 * order.steps_per_epoch) for row in order.step(step)}
        assert seen == set(range(107)), lengths


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 9), st.booleans(), st.booleans())
def test_every_epoch_sees_every_row_once(count, size, drop_last, grouped):
    lengths = tuple((7 * i) % 23 + 1 for i in range(count)) if grouped else None
    order = StepSampler(count, size, 3, drop_last, lengths)
    for epoch in range(2):
        seen = [
            row
            for step in range(order.steps_per_epoch)
            for row in order.step(epoch * order.steps_per_epoch + step)
        ]
        assert max(Counter(seen).values()) == 1
        assert len(seen) == (count // size * size if drop_last and count >= size else count)


def test_the_order_is_a_function_of_seed_and_step():
    one, two = StepSampler(50, 4, seed=1), StepSampler(50, 4, seed=1)
    assert [one.step(s) for s in range(30)] == [two.step(s) for s in reversed(range(30))][::-1]
    assert one.step(0) != StepSampler(50, 4, seed=2).step(0)
    assert one.step(0) != one.step(one.steps_per_epoch)


def test_group_by_length_puts_like_rows_together():
    lengths = tuple((31 * i) % 97 for i in range(200))

    def spread(order):
        return sum(
            max(lengths[r] for r in order.step(s)) - min(lengths[r] for r in order.step(s)) for s in range(25)
        )

    assert spread(StepSampler(200, 8, 5, lengths=lengths)) < 0.2 * spread(StepSampler(200, 8, 5))


@pytest.mark.parametrize(("vectors", "refused"), [(97, False), (5, True)], ids=["unused", "used"])
def test_an_id_that_the_base_has_no_vector_for_is_refused_before_training(vectors, refused):
    """A tokenizer may be larger than the base, as long as the rows do not use what it has more."""

    class Tokenizer:
        @property
        def added_tokens_decoder(self):
            return {200: "<new>"}

        def __len__(self):
            return 90

        def convert_ids_to_tokens(self, number):
            return f"<{number}>"

    class Base:
        def get_input_embeddings(self):
            return torch.nn.Embedding(vectors, 4)

    if not refused:
        check_ids(rows(), Tokenizer(), Base(), key="")
        return
    with pytest.raises(BadInput, match="but the base has only 5 token vectors"):
        check_ids(rows(), Tokenizer(), Base(), key="")


@pytest.mark.parametrize("row", [([1, 8], [-100, 3]), ([1, 2], [-100, 8])], ids=["id", "label"])
def test_rows_of_another_tool_are_searched_where_the_tokenizer_knows_no_such_id(row):
    class Tokenizer:
        @property
        def added_tokens_decoder(self):
            return {}

        def __len__(self):
            return 8

    class Base:
        def get_input_embeddings(self):
            return torch.nn.Embedding(8, 4)

    found = InMemory([[([1, 2], [-100, 7])], [row]])
    check_ids(found, Tokenizer(), Base(), key="0123")
    with pytest.raises(BadInput, match="they have the id 8, which is not below 8, the base's vocabulary"):
        check_ids(found, Tokenizer(), Base(), key="foreign-0123")


def test_batches_lay_rows_end_to_end():
    batch = flat(rows(), [2, 0])
    assert sum(batch.lengths) == batch.ids.numel() == batch.positions.numel()
    assert [int(batch.positions[0]), int(batch.positions[batch.lengths[0]])] == [0, 0]


def test_keys_hang_on_the_row_and_not_on_the_batch():
    data = rows()
    lengths = data.row_lengths()
    together = keyed(flat(data, [3, 5]), 1, 7, [3, 5], lengths).keys
    alone = keyed(flat(data, [5]), 1, 7, [5], lengths).keys
    assert together[lengths[3] :].equal(alone)
    assert not alone.equal(keyed(flat(data, [5]), 1, 8, [5], lengths).keys)
    assert not alone.equal(keyed(flat(data, [5]), 2, 7, [5], lengths).keys)


@pytest.mark.parametrize("drop_last", [False, True])
def test_fewer_rows_than_a_step_takes_still_make_a_step(drop_last):
    order = StepSampler(3, 8, 1, drop_last)
    assert order.steps_per_epoch == 1 and sorted(order.step(0)) == [0, 1, 2]


def test_in_memory_rows_know_their_lengths():
    assert InMemory([[([1, 2], [1, 2])], [([3], [3]), ([4, 5, 6], [4, 5, 6])]]).row_lengths() == [2, 4]
