"""What decides the result. Only semantics: no absolute path, no device."""

from typing import Annotated, Literal

from pydantic import Field

from expert_worker.document import U32, U64, Document

Quantization = Literal["none", "fp16", "bf16", "int8", "int4"]
RopeKind = Literal["linear", "dynamic", "yarn", "longrope", "llama3"]
TemplateKind = Literal[
    "tokenizer",
    "chatml",
    "qwen3",
    "alpaca",
    "llama",
    "mistral",
    "phi",
    "gemma",
    "deepseek",
    "vicuna",
    "custom",
]
DataFormat = Literal["jsonl", "json", "csv", "parquet", "arrow", "huggingface"]
TrainOn = Literal["completions", "all", "assistant"]
BadRow = Literal["error", "skip"]
Overlong = Literal["truncate", "split", "drop", "error"]
TextDialogue = Literal["parse", "raw"]
AdapterKind = Literal["lora", "rslora", "dora", "ia3", "lokr", "adalora", "prompt"]
SoftPromptInit = Literal["random", "text", "vocab_sample"]
OptimizerName = Literal[
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_bnb_8bit",
    "paged_adamw_32bit",
    "paged_adamw_8bit",
    "sgd",
    "adafactor",
    "muon",
]
ScheduleKind = Literal[
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "one_cycle",
]
PrecisionRequest = Literal["auto", "bf16", "fp16", "fp32"]
Strategy = Literal["no", "steps", "epoch"]


class RopeScaling(Document):
    kind: RopeKind
    factor: float
    original_max_position_embeddings: U64 | None = None
    max_position_embeddings: U64 | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    short_factor: tuple[float, ...] | None = None
    long_factor: tuple[float, ...] | None = None


class Base(Document):
    name: str
    sha256: str | None = None
    quantization: Quantization
    rope_scaling: RopeScaling | None = None


class Template(Document):
    kind: TemplateKind
    source: str | None = None


class Source(Document):
    name: str
    format: DataFormat
    weight: float
    task: str | None = None


class Data(Document):
    train: tuple[Source, ...]
    validation: tuple[Source, ...]
    test: tuple[Source, ...]
    validation_split: float | None = None
    field_mapping: dict[str, str]
    train_on: TrainOn
    on_bad_row: BadRow
    overlong: Overlong
    text_dialogue: TextDialogue
    deduplicate: bool
    min_length: U64 | None = None
    max_length: U64 | None = None
    streaming: bool


class SoftPrompt(Document):
    name: str
    tokens: U32
    init: SoftPromptInit
    init_text: str | None = None


class Adapter(Document):
    kind: AdapterKind
    rank: U32 | None = None
    alpha: float | None = None
    dropout: float
    target_modules: tuple[str, ...]
    feedforward_modules: tuple[str, ...]
    soft_prompts: tuple[SoftPrompt, ...]


class Batch(Document):
    rows_per_step: U64
    max_seq_length: U32
    packing: bool
    group_by_length: bool
    drop_last: bool


class Neftune(Document):
    noise_alpha: float


class Optimizer(Document):
    name: OptimizerName
    learning_rate: float
    weight_decay: float
    beta1: float
    beta2: float
    epsilon: float
    max_grad_norm: float | None = None
    neftune: Neftune | None = None


class WarmupSteps(Document):
    unit: Literal["steps"]
    value: U64


class WarmupRatio(Document):
    unit: Literal["ratio"]
    value: float


class DurationEpochs(Document):
    unit: Literal["epochs"]
    value: float


class DurationSteps(Document):
    unit: Literal["steps"]
    value: U64


Warmup = Annotated[WarmupSteps | WarmupRatio, Field(discriminator="unit")]
Duration = Annotated[DurationEpochs | DurationSteps, Field(discriminator="unit")]


class Schedule(Document):
    kind: ScheduleKind
    options: dict[str, float]
    warmup: Warmup
    duration: Duration


class Precision(Document):
    compute: PrecisionRequest
    tf32: bool


class BestModel(Document):
    metric: str
    greater_is_better: bool
    patience: U32 | None = None


class TestCase(Document):
    __test__ = False  # The name is the contract's; pytest shall not collect it.

    prompt: str
    expected: str


class Evaluation(Document):
    strategy: Strategy
    steps: U64 | None = None
    rows: U64 | None = None
    best: BestModel | None = None
    suite: str | None = None
    scorer: str | None = None
    metrics: tuple[str, ...]
    test_set_size: U64 | None = None
    test_cases: tuple[TestCase, ...]


class Saving(Document):
    strategy: Strategy
    steps: U64 | None = None


class Decoding(Document):
    temperature: float
    top_p: float
    top_k: U32
    min_p: float
    stop_sequences: tuple[str, ...]
    max_new_tokens: U32


class Recipe(Document):
    expert: str
    base: Base
    template: Template
    data: Data
    adapter: Adapter
    batch: Batch
    optimizer: Optimizer
    schedule: Schedule
    precision: Precision
    evaluation: Evaluation
    saving: Saving
    decoding: Decoding
    seed: U64
