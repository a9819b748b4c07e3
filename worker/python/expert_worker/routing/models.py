"""What the router of a shelf learns from, and what it answers.

Generated from the Rust types by `UPDATE=1 cargo test -p expert-contract --test generated`.
"""

from expert_worker.document import U64, Document
from expert_worker.plan.models import Source


class Keywords(Document):
    """The manifest's hints."""

    keywords: tuple[str, ...]
    exclude_keywords: tuple[str, ...]


class RoutedExpert(Document):
    """An expert that the router can choose."""

    name: str
    # The router learns from the prompts of these.
    train: tuple[Source, ...]
    # Its accuracy is measured on these.
    test: tuple[Source, ...]
    field_mapping: dict[str, str]
    # Source name -> absolute file. Hub datasets are not listed.
    data: dict[str, str]
    # Of each file in `data`.
    digests: dict[str, str]
    hints: Keywords


class Shelf(Document):
    """The experts of a shelf, and the file of the router that was learnt from them."""

    experts: tuple[RoutedExpert, ...]
    # Written when the router is learnt. Its name depends on everything that the router is learnt from.
    file: str


class RouteRequest(Document):
    """Prompts to route."""

    shelf: Shelf
    prompts: tuple[str, ...]


class RoutedShare(Document):
    """How many prompts the router sent where they belong."""

    name: str
    rows: U64
    right: U64


class PromptOverlap(Document):
    experts: tuple[str, str]
    # Of the prompts of the expert that has fewer.
    share: float


class RouterRecord(Document):
    """A learnt router, as measured."""

    # Of each expert's own test rows.
    experts: tuple[RoutedShare, ...]
    # Everyday prompts for which it chose none of the experts.
    none: RoutedShare
    # Pairs of experts with the same prompts among their training rows, which the router confuses.
    overlaps: tuple[PromptOverlap, ...]


class ChosenExpert(Document):
    # The probability that this is right, by the router.
    confidence: float
    # Null where the prompt is for none of the experts.
    expert: str | None = None


class RouteResult(Document):
    """`route`."""

    ok: bool
    # One for each prompt, in their order.
    routes: tuple[ChosenExpert, ...]
    router: RouterRecord
    # Whether the router was learnt now; else it was read from its file.
    learnt: bool
    # What the user should know, in sentences.
    warnings: tuple[str, ...]
