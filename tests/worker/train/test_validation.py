"""A validation whose rows do not fit into memory."""

from types import SimpleNamespace

import pytest

from expert_worker.events import Events
from expert_worker.train.memory import RowTooLarge
from expert_worker.train.validation import Validation


class Full:
    """An engine that has room for so many rows at once."""

    def __init__(self, room: int) -> None:
        self.room = room

    def loss(self, batch: list[int]) -> float:
        if len(batch) > self.room:
            raise MemoryError("out of memory")
        return 2.0 * len(batch)


OBJECTIVE = SimpleNamespace(
    batch=lambda rows, indices: [rows[index] for index in indices],
    weight=len,
    metrics=lambda loss: {"loss": loss},
)
ALONE = SimpleNamespace(sharded=False, share=list, any=bool, sum=lambda *values: values)


def validation(room: int) -> Validation:
    return Validation(Full(room), OBJECTIVE, list(range(5)), 4, Events([]), ALONE)


def test_fewer_rows_at_once_give_the_same_loss():
    at_once = validation(4)
    with_less_room = validation(1)
    assert with_less_room.run(1, None) == at_once.run(1, None) == {"loss": 2.0}
    assert (at_once.micro_batch, with_less_room.micro_batch) == (4, 1)


def test_a_row_that_does_not_fit_names_settings_that_an_evaluation_reads():
    with pytest.raises(RowTooLarge) as error:
        validation(0).run(1, None)
    assert "max_seq_length" in error.value.hint and "gradient_checkpointing" not in error.value.hint
