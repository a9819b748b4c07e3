"""The JSON documents of a run, typed for showing.

Files may be older, damaged or forged. A value that does not fit its field is counted and left out; the rest
is shown. Numbers and texts have bounds, so that no value can break or bloat a page.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import from_json

_LARGEST_FILE = 256 << 20
_MOST_ITEMS = 1000
_PASSAGE = 2000
_LINE = 300


def _cut(most: int) -> AfterValidator:
    return AfterValidator(lambda text: text if len(text) <= most else text[:most] + "…")


def _strings(items: Any) -> Any:
    return (
        [item for item in items[:_MOST_ITEMS] if isinstance(item, str)] if isinstance(items, list) else items
    )


def _objects(items: Any) -> Any:
    return (
        [item for item in items[:_MOST_ITEMS] if isinstance(item, dict)] if isinstance(items, list) else items
    )


Number = Annotated[float, Field(ge=-1e15, le=1e15)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Rate = Annotated[float, Field(ge=0.0, le=1.0)]
Line = Annotated[str, _cut(_LINE)]
Passage = Annotated[str, _cut(_PASSAGE)]
Raw = dict[str, Any]


class View(BaseModel):
    """A part of a document: every field has a default, which stands where the value does not fit."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _default_where_it_does_not_fit(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        try:
            return handler(value)
        except ValidationError:
            if value is not None and isinstance(info.context, Counter):
                info.context["left out"] += 1
            assert info.field_name is not None
            return cls.model_fields[info.field_name].get_default(call_default_factory=True)


class Adapter(View):
    kind: Line = "adapter"
    rank: Count | None = None
    alpha: Number | None = None
    dropout: Number | None = None
    target_modules: Annotated[list[Line], BeforeValidator(_strings)] = []


class Base(View):
    name: Line = "an unknown base"
    quantization: Line = "none"


class Optimizer(View):
    name: Line = ""
    learning_rate: Number | None = None
    weight_decay: Number | None = None


class Batch(View):
    rows_per_step: Count | None = None
    max_seq_length: Count | None = None
    packing: bool | None = None


class Amount(View):
    unit: Line = ""
    value: Number | None = None


class Schedule(View):
    kind: Line = ""
    duration: Amount = Amount()
    warmup: Amount = Amount()


class Precision(View):
    compute: Line = ""


class Data(View):
    train_on: Line = ""


class Recipe(View):
    expert: Line = ""
    seed: int | None = None
    adapter: Adapter = Adapter()
    base: Base = Base()
    optimizer: Optimizer = Optimizer()
    batch: Batch = Batch()
    schedule: Schedule = Schedule()
    precision: Precision = Precision()
    data: Data = Data()


class Chosen(View):
    """Which checkpoint became `final/`."""

    step: Count | None = None
    reason: Passage = ""


class SlowEncoder(View):
    reason: Line = ""
    words: Line = ""


class Result(View):
    steps: Count | None = None
    tokens: Count | None = None
    train_loss: Number | None = None
    eval_loss: Number | None = None
    seconds: Annotated[float, Field(ge=0, le=1e11)] | None = None
    tokens_per_second: Number | None = None
    peak_memory_bytes: Number | None = None
    slow_encoder: SlowEncoder | None = None


class Device(View):
    kind: Line = ""
    name: Line = ""
    index: Annotated[int, Field(ge=0, le=1023)] = 0


class Machine(View):
    device: Device = Device()
    dtype: Line = "?"
    cpu_capability: Line = "?"
    threads: Count | None = None
    os: Line = ""
    architecture: Line = ""
    python: Line = "?"


class RunRecord(View):
    """`run.json`."""

    recipe: Recipe | None = None
    recipe_digest: Line = ""
    cache_key: Annotated[str, Field(pattern=r"^([0-9a-f]{32}|foreign-[0-9a-f]{24})$")] | None = None
    best: Chosen | None = None
    result: Result = Result()
    machine: Machine | None = None
    git_commit: Line = ""


class Paths(View):
    cache: str | None = None
    home: str | None = None


class PlanMachine(View):
    device: Device = Device()
    paths: Paths = Paths()


class PlanView(View):
    """`plan.json`."""

    recipe: Recipe | None = None
    recipe_digest: Line = ""
    machine: PlanMachine = PlanMachine()


class Share(View):
    """Right answers of all, with the 95% interval."""

    accuracy: Rate | None = None
    low: Rate | None = None
    high: Rate | None = None
    total: Count | None = None


class ScoreLine(View):
    name: Line = ""
    base: Share | None = None
    adapter: Share | None = None


class Answer(View):
    text: Passage = ""
    correct: bool = False
    reason: Line = "wrong"


class Example(View):
    prompt: Passage = ""
    expected: Passage = ""
    tags: Annotated[list[Line], BeforeValidator(_strings)] = []
    base: Answer | None = None
    adapter: Answer | None = None


class Scores(View):
    """`evaluation.json`."""

    scorer: Line = "unnamed"
    rows: Count | None = None
    base: Share | None = None
    adapter: Share | None = None
    by_level: Annotated[list[ScoreLine], BeforeValidator(_objects)] = []
    by_tag: Annotated[list[ScoreLine], BeforeValidator(_objects)] = []
    gains: Annotated[list[Example], BeforeValidator(_objects)] = []
    failures: Annotated[list[Example], BeforeValidator(_objects)] = []


class Split(View):
    rows: Count = 0
    documents: Count = 0
    tokens: Count = 0
    supervised_tokens: Count = 0
    fill: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    length_histogram: list[tuple[Count, Count]] = Field(default=[], max_length=_MOST_ITEMS)
    length_quantiles: list[Count] = Field(default=[], max_length=_MOST_ITEMS)


class Cache(View):
    """`cache.json` of the token cache."""

    sources: Annotated[list[Raw], BeforeValidator(_objects)] = []
    splits: dict[str, Split] = {}


Kind = TypeVar("Kind", bound=View)


def read_json(path: Path) -> Raw | None:
    """The file's object; None for a file that is absent, too large, or holds no JSON object."""
    try:
        # A named pipe or a device would block or never end.
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return None
        document = from_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def view(kind: type[Kind], document: Raw | None) -> tuple[Kind, int]:
    """The valid part of the document, and the number of invalid values."""
    counted: Counter[str] = Counter()
    try:
        return kind.model_validate(document or {}, context=counted), counted["left out"]
    except ValidationError:
        return kind(), 1
