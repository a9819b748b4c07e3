"""`plan.json`: every setting of a run. `recipe` decides the result, `machine` how it is computed here,
and `request` is the task of this process.

Generated from the Rust types by `UPDATE=1 cargo test -p expert-contract --test generated`.
"""

from typing import Annotated, Literal

from pydantic import Field

from expert_worker.document import U32, U64, Document

CONTRACT_VERSION = 1


class Code(Document):
    """The code that decides an adapter."""

    # expert-cli's version.
    version: str
    # Of the native module: SHA-256 of the sources that it was built from.
    native: str | None = None
    # SHA-256 over the worker's Python sources; null where the package is not installed.
    worker: str | None = None


class Inputs(Document):
    """A digest that is not known is null. Null never equals anything."""

    # The recipe's digest: comments, formatting and settings of the machine do not count.
    recipe: str
    # Of training and validation data: source name -> SHA-256 of every byte that its rows are read from, or
    # `revision:` of the Hub dataset's commit. One that is not in the Hub's cache yet is not listed. Test data
    # is named by its scores. The adapter that training starts from is listed too.
    data: dict[str, str]
    template: str
    code: Code
    # `sha256:` of the weights and their configuration, or `revision:` of the Hub's snapshot. Null where the
    # base is not on this machine yet: the worker fills it in when it has located the base.
    base: str | None = None
    # SHA-256 of the expert's own scorer, where the best checkpoint is chosen by its scores.
    scorer: str | None = None
    tokenizer: str | None = None


# `selective` recomputes attention only; `full` each whole layer.
CheckpointingMode = Literal["none", "selective", "full"]


class Compile(Document):
    backend: str
    mode: str
    # Whether the manifest asks for it; if not, it must have been found right on the device.
    asked: bool


class Graphs(Document):
    """A micro-batch's forward and backward pass as one launch."""

    # Whether the manifest asks for them; if not, they must have been found right on the device.
    asked: bool


DeviceKind = Literal["cuda", "mps", "cpu"]


class Device(Document):
    kind: DeviceKind
    index: U32
    name: str
    memory_bytes: U64 | None = None


# `ddp`: every process holds the base. `fsdp2`: its weights are sharded over them.
DistributedStrategy = Literal["ddp", "fsdp2"]


class Distributed(Document):
    """Processes that train together, each on its own device: `device.index` and the following ones."""

    strategy: DistributedStrategy
    processes: U32


Dtype = Literal["bf16", "fp16", "fp32"]


class MemoryEstimate(Document):
    """Bytes by part for one micro-batch on the device."""

    weights: U64
    adapter: U64
    gradients: U64
    optimizer: U64
    activations: U64
    logits: U64
    context: U64
    total: U64
    # Python and its libraries. GPUs hold none of it.
    process: U64 = 0


class JudgeEndpoint(Document):
    url: str
    timeout_seconds: U32
    concurrency: U32
    # The environment variable that holds the key.
    key_variable: str | None = None


class Loader(Document):
    """Honoured where rows do not come from the mapped cache; the worker reports the values in use."""

    # False tokenizes on the fly instead of reading the token cache.
    use_cache: bool
    workers: U32
    pin_memory: bool
    prefetch_factor: U32 | None = None


Tracker = Literal["tensorboard", "wandb"]


class Logging(Document):
    steps: U64
    trackers: tuple[Tracker, ...]


class Mirror(Document):
    # Any fsspec URL.
    target: str
    compress: bool
    # False waits for the copy before training continues.
    background: bool


class AdaptedModules(Document):
    """The layers of this base that get an adapter. The worker refuses to train anything else."""

    target: tuple[str, ...]
    feedforward: tuple[str, ...]
    # Parameters that are trained; null where they are counted in the loaded base only.
    parameters: U64 | None = None


class Paths(Document):
    """Absolute paths on this machine."""

    manifest: str
    expert_dir: str
    output: str
    # Root of this expert's token caches; a cache is `<cache>/<key>/`.
    cache: str
    # Where downloaded and converted base models, compiled tokenizers and base scores are kept.
    home: str
    # Source name -> absolute file. Hub datasets are not listed.
    data: dict[str, str]
    # The base's folder; null for a Hub id that the worker finds in the Hub's cache, and for the embedded
    # base.
    base: str | None = None
    # The folder of the adapter that training starts from.
    initial_adapter: str | None = None
    # The Python file of the expert's own scorer.
    scorer: str | None = None


class Threads(Document):
    # torch's intra-op threads; null leaves torch's own choice.
    compute: U32 | None = None
    # Threads that tokenize; null uses every core.
    pretokenize: U32 | None = None


class Machine(Document):
    device: Device
    dtype: Dtype
    # True on a CPU whose products in the run's 16-bit format are slower than those in fp32: the base, read in
    # its format, is held and computed in fp32. The result is that of the 16-bit format within rounding.
    fp32_products: bool
    # Rows per micro-batch; the worker halves it when memory runs out.
    micro_batch: U64
    # Micro-batches per optimizer step in each process: ceil(rows_per_step / micro_batch / processes).
    accumulation: U64
    # False takes the plain transformers + peft path: the adapter, eager attention or a sharded base needs it,
    # or it is compared. The worker takes it for unknown architectures too.
    fast_path: bool
    # The kernel of an operation of the fast path, by name, where a benchmark wants another than the first
    # that runs.
    kernels: dict[str, str]
    flash_attention: bool
    sdpa: bool
    checkpointing: CheckpointingMode
    threads: Threads
    loader: Loader
    logging: Logging
    paths: Paths
    estimate: MemoryEstimate
    compile: Compile | None = None
    # Null where each launch is the host's. The worker says why where it cannot capture what is wanted.
    cuda_graphs: Graphs | None = None
    # Null for a single process.
    distributed: Distributed | None = None
    # Where the model is asked that scores answers.
    judge: JudgeEndpoint | None = None
    # Steps between two releases of the allocator's cached memory; null never.
    memory_clear_every: U64 | None = None
    mirror: Mirror | None = None
    # Null where the base's layers are not known before it is loaded.
    modules: AdaptedModules | None = None
    # Tokens of a micro-batch that the fast path processes at once, in whole documents; null processes all of
    # them together. A chunk that fits a CPU's cache is faster, and the gradients have the same sum.
    piece_tokens: U64 | None = None
    # Checkpoints to keep, including the best; the newest is never deleted, null keeps all.
    save_total_limit: U32 | None = None


AdapterKind = Literal["lora", "rslora", "dora", "ia3", "lokr", "adalora", "prompt"]

SoftPromptInit = Literal["random", "text", "vocab_sample"]


class SoftPrompt(Document):
    name: str
    tokens: U32
    init: SoftPromptInit
    init_text: str | None = None


class Adapter(Document):
    kind: AdapterKind
    dropout: float
    # Names of layers, sorted and without duplicates, or `all-linear` alone: the linear layers of the base's
    # blocks. Empty for prompt, and for ia3 where the base's family decides. `machine.modules` has the names
    # on this base.
    target_modules: tuple[str, ...]
    # For ia3: the subset whose input is scaled. Sorted.
    feedforward_modules: tuple[str, ...]
    # Trained virtual tokens; only where `kind` is prompt.
    soft_prompts: tuple[SoftPrompt, ...]
    alpha: float | None = None
    # The folder of the adapter that training starts from, as the manifest names it; its place is in
    # `machine.paths.initial_adapter`. Left out for a new one, so that older recipes keep their digests.
    initial: str | None = None
    # Null for ia3 and prompt.
    rank: U32 | None = None


Quantization = Literal["none", "fp16", "bf16", "int8", "int4"]

RopeKind = Literal["linear", "dynamic", "yarn", "longrope", "llama3"]


class RopeScaling(Document):
    """`rope_scaling` as transformers takes it."""

    kind: RopeKind
    factor: float
    # Set to 1.0 for `ntk-by-parts`, which is YaRN without its attention temperature.
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    high_freq_factor: float | None = None
    long_factor: tuple[float, ...] | None = None
    low_freq_factor: float | None = None
    max_position_embeddings: U64 | None = None
    original_max_position_embeddings: U64 | None = None
    short_factor: tuple[float, ...] | None = None


class Base(Document):
    # Logical name: a Hub id, the embedded base's name, or a folder's last component. Never a path.
    name: str
    quantization: Quantization
    rope_scaling: RopeScaling | None = None
    # The digest that the manifest demands of the weights, if it demands one.
    sha256: str | None = None


class Batch(Document):
    # Rows per optimizer step, over all micro-batches and devices.
    rows_per_step: U64
    max_seq_length: U32
    packing: bool
    # Only without packing: rows of similar length share a micro-batch.
    group_by_length: bool
    # Whether an epoch's last, smaller step is dropped.
    drop_last: bool
    # Only with packing: documents that follow one another and begin alike share their beginning. Left out if
    # not.
    share_prefixes: bool = False


BadRow = Literal["error", "skip"]

Overlong = Literal["truncate", "keep_end", "split", "drop", "error"]

# `first_exhausted`: the task that is scarcest for its weight is used whole, and rows of the others are left
# out. `all_exhausted`: the task that is largest for its weight is used whole, and rows of the others are
# repeated.
StoppingStrategy = Literal["first_exhausted", "all_exhausted"]

DataFormat = Literal["jsonl", "json", "csv", "parquet", "arrow", "huggingface"]


class Source(Document):
    # Relative path with forward slashes, or `name::split::config` of a Hub dataset. For data named on the
    # command line: the file's name and its absolute place in `machine.paths.data`.
    name: str
    format: DataFormat
    # Share of this source's task in a mixture; 1 where all rows are taken.
    weight: float
    # The mixture's name for this source.
    task: str | None = None


# Whether a `text` that is itself a rendered dialogue is parsed into messages.
TextDialogue = Literal["parse", "raw"]

# `completions`: the last answer only; `assistant`: every assistant turn; `all`: every token.
TrainOn = Literal["completions", "all", "assistant"]


class Data(Document):
    train: tuple[Source, ...]
    validation: tuple[Source, ...]
    test: tuple[Source, ...]
    # Canonical field name -> dotted path in the row (`completion` -> `output.sql`). Empty: recognise the
    # shape.
    field_mapping: dict[str, str]
    train_on: TrainOn
    on_bad_row: BadRow
    overlong: Overlong
    text_dialogue: TextDialogue
    deduplicate: bool
    streaming: bool
    # Whether near copies among the training rows are dropped too. Left out if not, so that older recipes keep
    # their digests.
    drop_near_copies: bool = False
    # Rows with more characters than this are dropped and counted.
    max_length: U64 | None = None
    # Rows with fewer characters than this are dropped and counted.
    min_length: U64 | None = None
    # Which task of a mixture decides how many rows there are. Left out if it is the scarcest, so that older
    # recipes keep their digests.
    stopping_strategy: StoppingStrategy = "first_exhausted"
    # Share of the training rows held out for validation; null where a validation file is named or none is
    # wanted.
    validation_split: float | None = None


GrammarKind = Literal["gbnf", "json_schema", "sql", "cypher"]


class Grammar(Document):
    kind: GrammarKind
    # The file in the expert's folder, with forward slashes; `json`, `sql` or `cypher` for a built-in one.
    name: str
    # Of `sql` and `cypher` their name: the worker writes the grammar for the schema in each prompt.
    text: str


class Decoding(Document):
    """How text is generated when an expert is tried or scored. A temperature of 0 is greedy."""

    temperature: float
    top_p: float
    top_k: U32
    min_p: float
    stop_sequences: tuple[str, ...]
    max_new_tokens: U32
    # What every answer conforms to. Left out where there is none, so that older recipes keep their digests.
    grammar: Grammar | None = None


class BestModel(Document):
    metric: str
    greater_is_better: bool
    # Evaluations without a better value after which training stops; null never stops early.
    patience: U32 | None = None


RougeVariant = Literal["rouge1", "rouge2", "rougeL"]


class ScorerSettingsPython(Document):
    """A function in a Python file. The file's place is in `machine.paths.scorer`."""

    kind: Literal["python"] = "python"
    # Relative to the expert's folder, with forward slashes.
    file: str
    function: str


class ScorerSettingsClassification(Document):
    kind: Literal["classification"] = "classification"
    labels: tuple[str, ...]


class ScorerSettingsRouge(Document):
    kind: Literal["rouge"] = "rouge"
    variant: RougeVariant


class ScorerSettingsJudge(Document):
    """A model that scores answers. Its endpoint is `machine.judge`."""

    kind: Literal["judge"] = "judge"
    model: str
    instructions: str | None = None


ScorerSettings = Annotated[
    ScorerSettingsPython | ScorerSettingsClassification | ScorerSettingsRouge | ScorerSettingsJudge,
    Field(discriminator="kind"),
]

Strategy = Literal["no", "steps", "epoch"]


class TestCase(Document):
    prompt: str
    expected: str


class Evaluation(Document):
    strategy: Strategy
    test_cases: tuple[TestCase, ...]
    # How the best checkpoint is chosen; null: the last one is final.
    best: BestModel | None = None
    # Maximum tokens of a scored answer, where it differs from that of other answers.
    max_new_tokens: U32 | None = None
    # Rows of the validation data that an evaluation during training looks at; null for all.
    rows: U64 | None = None
    # The name of a built-in scorer, or `package:name` of one that an installed package offers.
    scorer: str | None = None
    # Of a scorer that has settings.
    scorer_settings: ScorerSettings | None = None
    steps: U64 | None = None
    # Rows of the test set that are scored; null for all.
    test_set_size: U64 | None = None
    # An adapter is scored alone: trials of a search are compared with each other. Left out if not.
    without_base: bool = False


# What is learned from a row. Preference and reinforcement methods are refused, never trained as something
# else.
Objective = Literal["sft"]

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


class Neftune(Document):
    noise_alpha: float


class Optimizer(Document):
    name: OptimizerName
    learning_rate: float
    weight_decay: float
    beta1: float
    beta2: float
    epsilon: float
    # Global norm that gradients are clipped to; null leaves them alone.
    max_grad_norm: float | None = None
    neftune: Neftune | None = None


# `auto`: bf16 where the device computes in it, else fp32.
PrecisionRequest = Literal["auto", "bf16", "fp16", "fp32"]


class Precision(Document):
    compute: PrecisionRequest
    tf32: bool


class Saving(Document):
    strategy: Strategy
    steps: U64 | None = None


class DurationEpochs(Document):
    unit: Literal["epochs"] = "epochs"
    value: float


class DurationSteps(Document):
    unit: Literal["steps"] = "steps"
    value: U64


Duration = Annotated[DurationEpochs | DurationSteps, Field(discriminator="unit")]

ScheduleKind = Literal[
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "one_cycle",
]


class WarmupSteps(Document):
    unit: Literal["steps"] = "steps"
    value: U64


class WarmupRatio(Document):
    """Share of all steps."""

    unit: Literal["ratio"] = "ratio"
    value: float


Warmup = Annotated[WarmupSteps | WarmupRatio, Field(discriminator="unit")]


class Schedule(Document):
    kind: ScheduleKind
    # Numbers that the kind takes: `num_cycles`, `power`, `lr_end`, `min_lr_ratio`.
    options: dict[str, float]
    warmup: Warmup
    duration: Duration


# `tokenizer` is the chat template that the base's tokenizer carries.
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

TemplateValue = bool | int | str


class Template(Document):
    kind: TemplateKind
    # Variables that the template reads. Left out if there are none, so that older recipes keep their digests.
    kwargs: dict[str, TemplateValue] = Field(default_factory=dict)
    # The Jinja text of a `custom` template; null for the others.
    source: str | None = None


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
    # Every random draw is a function of this number and of its position.
    seed: U64
    # Left out if it is `sft`, so that recipes from before it was a choice keep their digests.
    objective: Objective = "sft"


class ResumeNothing(Document):
    """Start at step 0; the output folder is fresh."""

    from_: Literal["nothing"] = Field(alias="from")


class ResumeNewest(Document):
    """The newest checkpoint that verifies; step 0 if there is none at all."""

    from_: Literal["newest"] = Field(alias="from")


class ResumeCheckpoint(Document):
    from_: Literal["checkpoint"] = Field(alias="from")
    path: str


Resume = Annotated[ResumeNothing | ResumeNewest | ResumeCheckpoint, Field(discriminator="from_")]


class AgainstModel(Document):
    """Another model, asked with its tokenizer's chat template."""

    kind: Literal["model"] = "model"
    base: Base
    # Null where it is in the Hub's cache or comes with the worker.
    folder: str | None = None


class AgainstAdapter(Document):
    """Another adapter of the same base."""

    kind: Literal["adapter"] = "adapter"
    path: str


Against = Annotated[AgainstModel | AgainstAdapter, Field(discriminator="kind")]

# What replaces the manifest's test rows, or how they are scored. Such scores stay out of the adapter's
# folder.
OtherRows = Literal["file", "settings", "few"]


class Samples(Document):
    """Several answers to each row, of the adapter or else of the base."""

    per_row: U32
    temperature: float


# A block format of GGUF, by the name that llama.cpp's tools and Ollama give it.
GgufQuantization = Literal["q8_0", "q4_1"]


class PretokenizeRequest(Document):
    stage: Literal["pretokenize"] = "pretokenize"
    # Build again although a valid cache of this key exists.
    force: bool
    # Rows to show decoded, with their loss mask.
    preview: U32


class TrainRequest(Document):
    stage: Literal["train"] = "train"
    resume: Resume
    # Accept a recipe that differs from the checkpoint's only in running longer.
    extend: bool
    # Score base and adapter on the test set once training has ended.
    evaluate: bool
    profile: bool


class BaseRequest(Document):
    """Download or convert the base, and download the Hub datasets, if they are not on this machine yet;
    report the base's folder.
    """

    stage: Literal["base"] = "base"


class BenchRequest(Document):
    """Train the recipe's few steps as a measurement, the longest batch first, and report their time and
    memory.
    """

    stage: Literal["bench"] = "bench"
    # Seconds after which the measurement is given up.
    limit_seconds: float


class EvaluateRequest(Document):
    stage: Literal["evaluate"] = "evaluate"
    # The adapter's folder; null scores the base alone.
    adapter: str | None = None
    # What else answers the same rows, after base and adapter.
    against: Against | None = None
    # What replaces the manifest's test rows; absent where nothing does.
    other_rows: OtherRows | None = None
    # Answers that are sampled besides those that are scored.
    samples: Samples | None = None


class GenerateRequest(Document):
    stage: Literal["generate"] = "generate"
    adapter: str | None = None
    # Null reads prompts from standard input, one JSON string a line.
    prompt: str | None = None
    # A system message before each prompt.
    system: str | None = None


class ExportRequest(Document):
    stage: Literal["export"] = "export"
    adapter: str
    target: str
    merge: bool
    # As GGUF, with the base beside an adapter.
    gguf: bool = False
    # The adapter in MLX's layout.
    mlx: bool = False
    # Of the model's weights in the GGUF file; without it f16.
    quantize: GgufQuantization | None = None


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


class TestSet(Document):
    """Rows that are scored by themselves, with the scorer, decoding and number of rows of the recipe's test
    rows.
    """

    sources: tuple[Source, ...]
    # Source name -> absolute file; Hub datasets have none.
    files: dict[str, str]


class Plan(Document):
    """The document that the CLI hands to the worker."""

    # Version of this document; see the worker's refusal of any other.
    contract: U32
    # SHA-256 of the RFC 8785 canonical JSON of what training depends on in `recipe`, in hex.
    recipe_digest: str
    recipe: Recipe
    machine: Machine
    # The task of this invocation of the worker.
    request: Request
    # What the expert is for, as the manifest says it; it decides nothing.
    description: str | None = None
    # SHA-256 of the recipe's settings of an evaluation, likewise: scores under other ones are not compared.
    evaluation_digest: str | None = None
    # Digests of what the run is made of; null in plans that train nothing.
    inputs: Inputs | None = None
    # The expert's licence, for its model card and `expert.json`.
    license: str | None = None
    # Further test sets by name. No part of the recipe: they do not change what is trained.
    test_sets: dict[str, TestSet] = Field(default_factory=dict)
    # Settings of the command line that trains, with which the run is continued. They are in `recipe` and
    # `machine` already.
    typed: tuple[str, ...] = ()
