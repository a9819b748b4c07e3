"""Parts of every function that takes an array of a kind: names, signature, the interface in the prompt."""

from __future__ import annotations

from collections.abc import Callable

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import plural

from .functions import Function, asked
from .kinds import Kind, Prop
from .task import Composition, Task

Maker = Callable[[Kind, Draw], Function]


def capital(name: str) -> str:
    return name[0].upper() + name[1:]


def list_name(kind: Kind, draw: Draw) -> str:
    return draw.one([kind.plural, kind.plural, kind.plural, "items", "list"])


def plural_of(name: str) -> str:
    return name if name.endswith("s") else plural(name)


def many(prop: Prop) -> str:
    """`names`; a list keeps its name."""
    return prop.spaced if prop.type.endswith("[]") or prop.spaced.endswith("s") else plural(prop.spaced)


def over_list(
    kind: Kind, draw: Draw, name: str, result: str, body: str, told: str, level: int, tag: str, used: set[str],
    more: tuple[tuple[str, str], ...] = (), others: tuple[str, ...] = (), given: str = "",
) -> Function:  # fmt: skip
    """The interface stands in the prompt: the properties in use and some others."""
    shown = {prop.name for prop in kind.simple() if prop.name in used or draw.chance(0.2)}
    ordered = kind.declared(shown)
    return Function(
        name, ((given, f"{kind.name}[]"), *more), result, (f"return {body};",), told, level, (tag,),
        others=tuple(f"return {other};" for other in others), context=kind.declared({prop.name for prop in kind.props}),
        shown=ordered,
    )  # fmt: skip


def composed(maker: Maker) -> Composition:
    def composition(kind: Kind, draw: Draw) -> Task:
        return asked(maker(kind, draw), draw)

    return composition
