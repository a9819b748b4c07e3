"""Receipts and shopping lists: lines of things with prices and numbers."""

from __future__ import annotations

from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .task import Task
from .values import whole
from .wording import phrase, request
from .worlds import World

_ITEMS = """
milk bread butter apples rice soap pens paper coffee tea eggs flour sugar salt pasta beans cheese honey juice nails glue
paint tape string candles batteries socks gloves towels bowls
"""
ITEMS = _ITEMS.split()
_HELD = "yogurt plums lentils vinegar shampoo envelopes erasers screws bulbs mugs napkins radishes"
HELD_ITEMS = _HELD.split()


def _lines(world: World, draw: Draw) -> tuple[list[tuple[str, float]], str, str]:
    training = "Ada" in world.pools["first"]
    names = draw.some(ITEMS if training else HELD_ITEMS, draw.between(2, 4))
    capital = draw.chance(0.5)
    things = [
        (
            name.capitalize() if capital else name,
            whole(draw.between(5, 160) * draw.one((5, 10, 10, 50)) / 100),
        )
        for name in names
    ]
    pattern = draw.one(("{} {:.2f}", "{}: {:.2f}", "{} - {:.2f}", "{}  {:.2f}", "{}, {:.2f}"))
    lines = [pattern.format(name, price) for name, price in things]
    text = "\n".join(lines) if draw.chance(0.7) or "," in pattern else "; ".join(lines)
    return things, text, draw.one(("receipt", "bill", "list", "shopping list"))


def priced(world: World, draw: Draw) -> Task:
    """The things of a receipt as objects or as one object."""
    things, text, source = _lines(world, draw)
    if draw.chance(0.5):
        name, price = draw.one(
            (("name", "price"), ("item", "price"), ("product", "cost"), ("item", "amount"))
        )
        asked = request("priced", draw, text, name=name, price=price, source=source)
        return Task(asked, [{name: thing, price: cost} for thing, cost in things], 2, ("extract-receipt",))
    asked = request("pricemap", draw, text, source=source)
    return Task(asked, dict(things), 2, ("extract-receipt",))


def summed(world: World, draw: Draw) -> Task | None:
    things, text, source = _lines(world, draw)
    if len(things) > 3:
        return None
    name = draw.one(("total", "sum", "amount"))
    total = whole(round(sum(cost for _, cost in things), 2))
    asked = request("totalled", draw, text, shape=f'{{"{name}": ...}}', source=source)
    return Task(asked, {name: total}, 3, ("extract-total",))


def counted(world: World, draw: Draw) -> Task:
    """`2 apples, 3 pens` as numbers by thing."""
    training = "Ada" in world.pools["first"]
    names = draw.some(ITEMS if training else HELD_ITEMS, draw.between(2, 4))
    things: dict[str, Any] = {name: draw.between(1, 24) for name in names}
    pattern = draw.one(("{} {}", "{}x {}", "{} x {}"))
    text = draw.one((", ", "; ", "\n", ", ")).join(
        pattern.format(number, name) for name, number in things.items()
    )
    if draw.chance(0.5):
        asked = request("amounts", draw, text, source=draw.one(("list", "shopping list", "order")))
        return Task(asked, things, 1, ("extract-amounts",))
    name, number = draw.one((("item", "quantity"), ("item", "qty"), ("name", "count"), ("product", "amount")))
    shape = phrase("pairshape", draw, name=name, number=number)
    asked = request(
        "amountlist", draw, text, shape=shape, source=draw.one(("list", "shopping list", "order"))
    )
    return Task(
        asked, [{name: thing, number: count} for thing, count in things.items()], 2, ("extract-amounts",)
    )
