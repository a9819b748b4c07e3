"""The order of rows, number by number."""

from __future__ import annotations

import pytest
import torch
from plans import example_plan

from expert_worker.errors import BadInput
from expert_worker.train import loader
from expert_worker.train.dataset import InMemory, longest
from expert_worker.train.loader import StepSampler, order_of, total_steps
from expert_worker.train.objective import SupervisedFineTuning

ROWS = InMemory([[([1, 2, 3], [-100, 2, 3])], [([4], [4]), ([5, 6], [5, 6])], [([7, 8], [7, 8])]])


def test_steps_of_an_epoch():
    assert StepSampler(10, 4, 0).steps_per_epoch == 3
    assert StepSampler(10, 4, 0, drop_last=True).steps_per_epoch == 2
    assert StepSampler(8, 4, 0).steps_per_epoch == 2
    assert StepSampler(3, 4, 0, drop_last=True).steps_per_epoch == 1
    assert StepSampler(10, 4, 0).epoch(6) == 2.0


def test_an_epoch_is_one_permutation_cut_into_steps():
    order = StepSampler(10, 4, 5)
    first = [order.step(step) for step in range(3)]
    assert [len(rows) for rows in first] == [4, 4, 2]
    assert sorted(row for rows in first for row in rows) == list(range(10))
    second = [order.step(step) for step in range(3, 6)]
    assert sorted(row for rows in second for row in rows) == list(range(10)) and second != first
    assert StepSampler(10, 4, 6).step(0) != order.step(0)


def test_rows_of_like_length_share_a_step_the_longest_first_among_fifty_steps():
    lengths = tuple(range(1, 204))
    order = StepSampler(203, 2, 1, lengths=lengths)
    steps = [order.step(step) for step in range(order.steps_per_epoch)]
    assert sorted(row for rows in steps for row in rows) == list(range(203))
    assert len(steps[-1]) == 1
    whole = steps[:-1]
    assert all(len(rows) == 2 and lengths[rows[0]] > lengths[rows[1]] for rows in whole)
    # Pools of fifty steps: three of them, the last with one step and the row that is left.
    near = [lengths[first] - lengths[second] for first, second in whole]
    assert max(sorted(near)[:100]) < 20
    longest = [max(lengths[row] for row in rows) for rows in whole]
    assert longest != sorted(longest, reverse=True), "steps are not shuffled"


def test_at_most_a_hundred_rows_are_sorted_together_with_two_rows_per_step():
    lengths = tuple(range(200))
    shuffled = StepSampler(200, 2, 3)._permutation(0)
    steps = StepSampler(200, 2, 3, lengths=lengths)._permutation(0)
    pools = [sorted(shuffled[:100], reverse=True), sorted(shuffled[100:], reverse=True)]
    pairs = {tuple(pool[i : i + 2]) for pool in pools for i in range(0, 100, 2)}
    assert {tuple(steps[i : i + 2]) for i in range(0, 200, 2)} == pairs


@pytest.mark.parametrize(
    ("group", "packing", "expected"), [(True, False, (3, 3, 2)), (True, True, None), (False, False, None)]
)
def test_lengths_count_only_where_rows_are_grouped_and_not_packed(tmp_path, group, packing, expected):
    changes = {"recipe.batch.group_by_length": group, "recipe.batch.packing": packing, "recipe.seed": 11}
    plan = example_plan(tmp_path, {**changes, "recipe.batch.drop_last": True})
    order = order_of(plan.recipe.batch, plan.recipe.seed, ROWS)
    assert order == StepSampler(3, plan.recipe.batch.rows_per_step, 11, True, expected)


def test_no_rows_are_refused(tmp_path):
    with pytest.raises(BadInput) as refused:
        order_of(example_plan(tmp_path, {}).recipe.batch, 0, InMemory([]))
    assert refused.value.code == "no-rows"


@pytest.mark.parametrize(
    ("unit", "value", "steps"),
    [("steps", 7, 7), ("epochs", 2, 6), ("epochs", 1.5, 5), ("epochs", 0.01, 1), ("epochs", 1 / 3 * 3, 3)],
)
def test_total_steps(tmp_path, unit, value, steps):
    plan = example_plan(tmp_path, {"recipe.schedule.duration": {"unit": unit, "value": value}})
    assert total_steps(plan.recipe.schedule.duration, StepSampler(10, 4, 0)) == steps


def test_rounding_of_a_share_makes_no_step_more(tmp_path):
    """0.07 * 100 is a little above 7 in floating point."""
    plan = example_plan(tmp_path, {"recipe.schedule.duration": {"unit": "epochs", "value": 0.07}})
    assert 0.07 * 100 > 7 and total_steps(plan.recipe.schedule.duration, StepSampler(100, 1, 0)) == 7


def test_the_longest():
    assert longest([3, 9, 1, 7], 2) == [1, 3]


def test_a_batch_of_documents():
    batch = SupervisedFineTuning().batch(ROWS, [1, 0])
    assert batch.ids.tolist() == [4, 5, 6, 1, 2, 3] and batch.labels.tolist() == [4, 5, 6, -100, 2, 3]
    assert batch.positions.tolist() == [0, 0, 1, 0, 1, 2] and batch.lengths == (1, 2, 3)
    assert {part.dtype for part in (batch.ids, batch.labels, batch.positions)} == {torch.int64}
    assert batch.keys is None and batch.step == 0


def test_keys_are_drawn_by_step_row_and_place():
    def keys(seed: int, step: int, rows: list[int]) -> list[int]:
        batch = loader.keyed(SupervisedFineTuning().batch(ROWS, rows), seed, step, rows, [3, 3, 2])
        assert batch.step == step
        return batch.keys.tolist()

    alone, together = keys(1, 4, [0]), keys(1, 4, [2, 0])
    assert len(alone) == 3 and together[2:] == alone
    assert keys(1, 5, [0]) != alone and keys(2, 4, [0]) != alone


def test_boundaries_begin_at_nothing_and_end_at_the_last_token():
    _, _, bounds, _ = ROWS.batch([1, 2])
    assert bounds.tolist() == [0, 1, 3, 5]


def test_rows_may_be_arrays_of_numpy():
    class Arrays:
        def batch(self, indices):
            return tuple(part.numpy() for part in ROWS.batch(indices))

    batch, expected = (
        SupervisedFineTuning().batch(Arrays(), [0, 1]),
        SupervisedFineTuning().batch(ROWS, [0, 1]),
    )
    assert torch.equal(batch.ids, expected.ids) and torch.equal(batch.labels, expected.labels)
    assert torch.equal(batch.positions, expected.positions) and batch.lengths == expected.lengths
