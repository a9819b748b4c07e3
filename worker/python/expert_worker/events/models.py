"""The lines of the event stream.

Generated from the Rust types by `UPDATE=1 cargo test -p expert-contract --test generated`.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from expert_worker.document import U8, U32, U64, Document

EVAL_LOSS = "eval_loss"
ACCURACY = "accuracy"

# What one process of the worker does, as its command line names it.
Task = Literal["pretokenize", "train", "base", "bench", "evaluate", "generate", "export"]

# A part of the worker's work.
StageName = Literal[
    "load libraries",
    "processes",
    "download tokenizer",
    "check tokenizer",
    "download data",
    "digest data",
    "token cache",
    "tokenize",
    "pack",
    "download base",
    "verify base",
    "convert base",
    "load base",
    "adapter",
    "try largest batch",
    "try evaluation batch",
    "train",
    "evaluate",
    "mirror",
    "final",
    "base answers",
    "base judged",
    "base loss",
    "adapter answers",
    "adapter judged",
    "adapter loss",
    "compared model answers",
    "compared model judged",
    "compared model loss",
    "sampled answers",
    "samples judged",
    "copy",
    "merge",
    "write",
    "compare logits",
    "compare answers",
    "compare rows",
    "wait",
    "answering",
]

Recovery = Literal["out_of_memory", "non_finite", "damaged_checkpoint", "tracker"]


class Started(Document):
    """The first line of an attempt."""

    type: Literal["started"] = "started"
    contract: U32
    stage: Task
    pid: U32
    recipe_digest: str
    # The step that this attempt resumes from; 0 for a fresh start.
    resumed_from: U64


class Stage(Document):
    """The worker has begun a part of its work."""

    type: Literal["stage"] = "stage"
    name: StageName
    # Seconds without progress in this part before a warning.
    quiet_budget: float
    detail: str | None = None


class Advance(Document):
    """A countable part of a stage: rows tokenized, answers scored, bytes copied."""

    type: Literal["advance"] = "advance"
    stage: StageName
    done: U64
    unit: str
    rate: float | None = None
    total: U64 | None = None


class Accumulating(Document):
    """Micro-batch `micro` of `of` has been added to the gradients of the step after `step`."""

    type: Literal["accumulating"] = "accumulating"
    step: U64
    micro: U64
    of: U64


class Progress(Document):
    """The optimizer has stepped."""

    type: Literal["progress"] = "progress"
    step: U64
    total_steps: U64
    epoch: float
    loss: float
    lr: float
    # Real tokens of this step, padding not counted.
    tokens: U64
    supervised_tokens: U64
    tokens_per_second: float
    # Seconds of this step, and of it those spent waiting for data.
    seconds: float
    data_wait: float
    memory_allocated: U64
    memory_reserved: U64
    # Seconds from their beginning to their end on the device; on a CPU this equals the host's time.
    device_compute: float | None = None
    # Seconds to the end, from the steps measured so far.
    eta: float | None = None
    gpu_util: float | None = None
    grad_norm: float | None = None
    # Seconds until the host had launched the step's forward and backward passes.
    host_launch: float | None = None
    # Seconds of copying the step's batches to the device.
    transfer: float | None = None


class Applied(Document):
    """A setting as read back from torch, peft or the loader: never from the plan."""

    type: Literal["applied"] = "applied"
    key: str
    value: JsonValue
    # The message for the user, if the setting has one: "TF32 enabled".
    note: str | None = None


class Evaluated(Document):
    type: Literal["evaluated"] = "evaluated"
    step: U64
    metrics: dict[str, float]
    seconds: float


class Checkpoint(Document):
    """A checkpoint is committed."""

    type: Literal["checkpoint"] = "checkpoint"
    step: U64
    path: str
    bytes: U64
    seconds: float


class Best(Document):
    """A checkpoint is the best so far."""

    type: Literal["best"] = "best"
    step: U64
    metric: str
    value: float


class Recovered(Document):
    """A problem was handled without changing the result's meaning."""

    type: Literal["recovered"] = "recovered"
    kind: Recovery
    # The number of the step that was made; 0 outside of the steps.
    step: U64
    detail: str


class WarningLine(Document):
    type: Literal["warning"] = "warning"
    code: str
    message: str
    hint: str | None = None


class Heartbeat(Document):
    """Every two seconds; `ticks` counts the main loop's iterations, so that a stuck loop is visible."""

    type: Literal["heartbeat"] = "heartbeat"
    ticks: U64


class Text(Document):
    """Decoded text while it is generated."""

    type: Literal["text"] = "text"
    source: str
    text: str
    done: bool
    # With `done`: the answer ended because it reached the most tokens that it may have.
    cut: bool = False


class Finished(Document):
    """The last line of a successful attempt; `result` is the stage's result document."""

    type: Literal["finished"] = "finished"
    result: JsonValue


class Failed(Document):
    """The last line of a failed attempt."""

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
    """The fields of every line."""

    # Seconds since the epoch.
    time: float
    # The attempt of this run that wrote the line, from 1. Readers drop an earlier attempt's steps beyond
    # `resumed_from`.
    attempt: U32
    body: Body
