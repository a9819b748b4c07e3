"""What one invocation of the worker is asked to do with the plan."""

from typing import Annotated, Literal

from pydantic import Field

from expert_worker.document import U32, Document


class ResumeNothing(Document):
    from_: Literal["nothing"] = Field(alias="from")


class ResumeNewest(Document):
    from_: Literal["newest"] = Field(alias="from")


class ResumeCheckpoint(Document):
    from_: Literal["checkpoint"] = Field(alias="from")
    path: str


Resume = Annotated[ResumeNothing | ResumeNewest | ResumeCheckpoint, Field(discriminator="from_")]


class PretokenizeRequest(Document):
    stage: Literal["pretokenize"]
    force: bool
    preview: U32


class TrainRequest(Document):
    stage: Literal["train"]
    resume: Resume
    extend: bool
    evaluate: bool
    profile: bool


class BaseRequest(Document):
    stage: Literal["base"]


class BenchRequest(Document):
    stage: Literal["bench"]
    limit_seconds: float


class EvaluateRequest(Document):
    stage: Literal["evaluate"]
    adapter: str | None = None


class GenerateRequest(Document):
    stage: Literal["generate"]
    adapter: str | None = None
    prompt: str | None = None


class ExportRequest(Document):
    stage: Literal["export"]
    adapter: str
    target: str
    merge: bool


Request = Annotated[
    PretokenizeRequest
    | TrainRequest
    | BaseRequest
    | BenchRequest
    | EvaluateRequest
    | GenerateRequest
    | ExportRequest,
    Field(discriminator="stage"),
]
