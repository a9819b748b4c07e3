"""The lines of the event stream, one model a type: the mirror of the contract crate's `event` module."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from expert_worker.document import U8, U32, U64, Document

Recovery = Literal["out_of_memory", "non_finite", "damaged_checkpoint", "tracker"]


class Started(Document):
    type: Literal["started"] = "started"
    contract: U32
    stage: str
    pid: U32
    recipe_digest: str
    resumed_from: U64


class Stage(Document):
    type: Literal["stage"] = "stage"
    name: str
    detail: str | None = None
    quiet_budget: float


class Advance(Document):
    type: Literal["advance"] = "advance"
    stage: str
    done: U64
    total: U64 | None = None
    unit: str
    rate: float | None = None


class Accumulating(Document):
    type: Literal["accumulating"] = "accumulating"
    step: U64
    micro: U64
    of: U64


class Progress(Document):
    type: Literal["progress"] = "progress"
    step: U64
    total_steps: U64
    epoch: float
    loss: float
    lr: float
    grad_norm: float | None = None
    tokens: U64
    supervised_tokens: U64
    tokens_per_second: float
    seconds: float
    data_wait: float
    transfer: float | None = None
    host_launch: float | None = None
    device_compute: float | None = None
    memory_allocated: U64
    memory_reserved: U64
    gpu_util: float | None = None
    eta: float | None = None


class Applied(Document):
    type: Literal["applied"] = "applied"
    key: str
    value: JsonValue
    note: str | None = None


class Evaluated(Document):
    type: Literal["evaluated"] = "evaluated"
    step: U64
    metrics: dict[str, float]
    seconds: float


class Checkpoint(Document):
    type: Literal["checkpoint"] = "checkpoint"
    step: U64
    path: str
    bytes: U64
    seconds: float


class Best(Document):
    type: Literal["best"] = "best"
    step: U64
    metric: str
    value: float


class Recovered(Document):
    type: Literal["recovered"] = "recovered"
    kind: Recovery
    step: U64
    detail: str


class WarningLine(Document):
    type: Literal["warning"] = "warning"
    code: str
    message: str
    hint: str | None = None


class Heartbeat(Document):
    type: Literal["heartbeat"] = "heartbeat"
    ticks: U64
    stage: str


class Text(Document):
    type: Literal["text"] = "text"
    source: str
    text: str
    done: bool


class Finished(Document):
    type: Literal["finished"] = "finished"
    result: JsonValue


class Failed(Document):
    type: Literal["failed"] = "failed"
    exit: U8
    code: str
    message: str
    hint: str | None = None


Body = Annotated[
    Started
    | Stage
    | Advance
    | Accumulating
    | Progress
    | Applied
    | Evaluated
    | Checkpoint
    | Best
    | Recovered
    | WarningLine
    | Heartbeat
    | Text
    | Finished
    | Failed,
    Field(discriminator="type"),
]


class Event(Document):
    time: float
    attempt: U32
    body: Body
