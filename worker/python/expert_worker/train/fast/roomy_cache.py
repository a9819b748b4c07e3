"""Keys and values of generated text, with room for the next tokens: transformers copies all of them at each
one.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicLayer

# Tokens for which room is made at once.
ROOM = 32


class RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """New tokens are written behind the old ones."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rooms: tuple[Tensor, Tensor] | None = None

    def __copy__(self) -> RoomyLayer:
        """Without the room: two that write into one would overwrite each other's tokens."""
        made = RoomyLayer()
        made.__dict__.update(self.__dict__, _rooms=None)
        return made

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        rooms = self._rooms
        if rooms is None or not self._fits(rooms[0], end):
            shape = (*key_states.shape[:-2], end + ROOM, key_states.shape[-1])
            rooms = key_states.new_empty(shape), value_states.new_empty(shape)
            if self.keys is not None and self.values is not None and start:
                rooms[0][..., :start, :] = self.keys
                rooms[1][..., :start, :] = self.values
        for room, new in zip(rooms, (key_states, value_states), strict=True):
            room[..., start:end, :] = new
        self._rooms = rooms
        keys, values = (room[..., :end, :] for room in rooms)
        self.keys, self.values = keys, values
        return keys, values

    def _fits(self, room: Tensor, end: int) -> bool:
        """Whether the keys still are the beginning of the room: rows may have been selected since."""
        keys = self.keys
        assert keys is not None
        is_there = keys.data_ptr() == room.data_ptr() and len(keys) == len(room)
        return is_there and end <= room.shape[-2]
