"""What stages report at their end, and the records that the worker writes.

Generated from the Rust types by `UPDATE=1 cargo test -p expert-contract --test generated`.
"""

from typing import Annotated

from pydantic import Field, JsonValue

from expert_worker.document import U32, U64, OutputDocument
from expert_worker.plan.models import Device, Inputs, OtherRows, Recipe, RopeScaling


class FileDigest(OutputDocument):
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    bytes: U64


class BestChoice(OutputDocument):
    """Which checkpoint became `final/`, and why."""

    step: U64
    reason: str
    metric: str | None
    value: float | None
    # Each evaluation's value by its step.
    evaluations: dict[str, float | None]


class RunMachine(OutputDocument):
    """The machine that a run was computed on."""

    device: Device | None
    dtype: str | None
    cpu_capability: str | None
    threads: U32 | None
    cuda: str | None
    os: str | None
    architecture: str | None
    python: str | None


class DataWarning(OutputDocument):
    """What a run that uses the cache says of its rows."""

    message: str
    hint: str


class DuplicateRows(OutputDocument):
    """Rows of a part that copy rows of another part, or earlier rows of the same one."""

    part: str
    # The part that has the originals.
    of: str
    # All rows of `part`.
    rows: U64
    # Copies that are equal to their originals.
    exact: U64
    # Copies with the same answer to a similar question.
    near: U64
    # The first ones: a copy and its original, each as file:line.
    examples: tuple[tuple[str, str], ...]
    # Where there are enough to make scores worthless.
    leak: DataWarning | None = None


class Share(OutputDocument):
    """The mean of scores from 0 to 1, with a 95% interval. Of right and wrong answers it is the share of
    right ones.
    """

    # Answers with the full score.
    correct: U64
    total: U64
    accuracy: Annotated[float, Field(ge=0.0, le=1.0)]
    low: Annotated[float, Field(ge=0.0, le=1.0)]
    high: Annotated[float, Field(ge=0.0, le=1.0)]


class PromptChoice(OutputDocument):
    """The number of examples in the base's prompt, chosen by what scored best on validation rows."""

    shots: U64
    # By the number of examples; empty where there were no rows to choose by.
    tried: dict[str, Share]


class Unparsed(OutputDocument):
    """Wrong answers that the scorer's parser refuses."""

    answers: U64
    # How many of them end at `max_new_tokens`: a longer limit may win these, not a grammar.
    cut: U64


class Score(OutputDocument):
    """The score of the base or of the adapter on all rows."""

    # Answers with the full score.
    correct: U64
    total: U64
    accuracy: Annotated[float, Field(ge=0.0, le=1.0)]
    low: Annotated[float, Field(ge=0.0, le=1.0)]
    high: Annotated[float, Field(ge=0.0, le=1.0)]
    loss: float | None
    # The adapter's folder.
    path: str | None = None
    # The base's prompt.
    prompt: PromptChoice | None = None
    # Wrong answers that do not parse: only these can be won by a grammar. Null where the scorer has no
    # parser.
    unparsed: Unparsed | None = None
    # Answers that count as 0 because the scorer failed on them or gave no verdict.
    unscored: U64 = 0


class PairedComparison(OutputDocument):
    """The adapter's scores less those of the base, or of what it is compared with, row by row."""

    # The mean, with a 95% interval.
    difference: Annotated[float, Field(ge=-1.0, le=1.0)]
    low: Annotated[float, Field(ge=-1.0, le=1.0)]
    high: Annotated[float, Field(ge=-1.0, le=1.0)]
    # Rows that the adapter answers better than the other, and worse.
    better: U64
    worse: U64


class AgainstScores(OutputDocument):
    """Another model, or another adapter of the same base, on the same rows."""

    name: str
    # With the prompt that was chosen for a model, or the path of an adapter.
    score: Score | None
    # The adapter's scores less these, row by row; null where the base alone was scored.
    comparison: PairedComparison | None


class ScoreLine(OutputDocument):
    """A line of a table: base beside adapter, and what they are compared with."""

    name: str
    base: Share | None
    adapter: Share | None
    # Of what `--against` names; absent without it.
    against: Share | None = None


class LabelScore(OutputDocument):
    label: str
    # Rows with this label as reference.
    rows: U64
    precision: Annotated[float, Field(ge=0.0, le=1.0)]
    recall: Annotated[float, Field(ge=0.0, le=1.0)]
    f1: Annotated[float, Field(ge=0.0, le=1.0)]


class ClassScores(OutputDocument):
    # The mean F1 of the labels that occur in references or answers.
    macro_f1: Annotated[float, Field(ge=0.0, le=1.0)]
    # In the order of `labels`.
    by_label: tuple[LabelScore, ...]
    # For each label the number of its rows by the label of the answer; last, answers that name none or
    # several.
    confusion: tuple[tuple[U64, ...], ...]


class Classes(OutputDocument):
    """The scores of a classification by label."""

    labels: tuple[str, ...]
    base: ClassScores | None
    adapter: ClassScores | None


class Confinement(OutputDocument):
    """What the system closed to the process that scored; null where nothing was in force."""

    files: str | None
    network: str | None
    # Why something was not in force.
    missing: tuple[str, ...]


class Answer(OutputDocument):
    text: str
    # Whether it has the full score.
    correct: bool
    reason: str
    # It ends at `max_new_tokens`, not by itself.
    cut: bool = False
    # From 0 to 1; null in records of older versions.
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # It is wrong because the scorer's parser refuses it.
    unparsed: bool = False
    # It counts as 0 because the scorer failed on it or gave no verdict.
    unscored: bool = False


class Example(OutputDocument):
    prompt: str
    expected: str
    tags: tuple[str, ...]
    base: Answer | None
    adapter: Answer | None


class PassAt(OutputDocument):
    """The mean probability that one of `k` samples of a row has the full score: 1 - C(n-c, k) / C(n, k) for
    `c` of `n`.
    """

    k: U64
    # Answers with the full score.
    correct: U64
    total: U64
    accuracy: Annotated[float, Field(ge=0.0, le=1.0)]
    low: Annotated[float, Field(ge=0.0, le=1.0)]
    high: Annotated[float, Field(ge=0.0, le=1.0)]


class SampledLine(OutputDocument):
    """Of the rows with one level or tag."""

    name: str
    pass_at: tuple[PassAt, ...]
    vote: Share | None


class SampledScores(OutputDocument):
    """The scores of several sampled answers to each row: of the adapter, or of the base where it was scored
    alone.
    """

    per_row: U64
    temperature: float
    # For 1, 2, 4 and so on up to `per_row`.
    pass_at: tuple[PassAt, ...]
    # The score of the answer that most samples of a row agree on, by what it returns when it is executed.
    vote: Share | None
    by_level: tuple[SampledLine, ...]
    by_tag: tuple[SampledLine, ...]


class TestFile(OutputDocument):
    """A source of the rows that were scored."""

    name: str | None
    # SHA-256 of every byte that its rows are read from.
    sha256: str | None
    # The commit of a Hub dataset.
    revision: str | None = None


class TestScores(OutputDocument):
    """The scores on the rows of one test set."""

    rows: U64 | None
    base: Score | None
    # Null where the base alone was scored.
    adapter: Score | None
    by_level: tuple[ScoreLine, ...]
    by_tag: tuple[ScoreLine, ...]
    # Absent without `--against`.
    against: AgainstScores | None = None
    # Of a classification.
    classes: Classes | None = None
    # The adapter against the base on the same rows; null where one of them was scored alone.
    comparison: PairedComparison | None = None
    # Only in `evaluation.json`.
    failures: tuple[Example, ...] = ()
    # Questions that the adapter answers and the base does not; only in `evaluation.json`.
    gains: tuple[Example, ...] = ()
    # What the field `accuracy` holds: `accuracy`, the share of right answers; `mean score`, or a metric's
    # name.
    measure: str | None = None
    # Absent where no answers were sampled.
    samples: SampledScores | None = None
    # The files of the rows; empty where the manifest's own test cases were scored.
    test_set: tuple[TestFile, ...] = ()


class EvaluationResult(OutputDocument):
    """`evaluate`, and `evaluation.json`."""

    expert: str | None
    scorer: str | None
    rows: U64 | None
    base: Score | None
    # Null where the base alone was scored.
    adapter: Score | None
    by_level: tuple[ScoreLine, ...]
    by_tag: tuple[ScoreLine, ...]
    # What held the process that scored; null where nothing was scored.
    confinement: Confinement | None
    seconds: float | None
    # Absent without `--against`.
    against: AgainstScores | None = None
    # Of a classification.
    classes: Classes | None = None
    # The adapter against the base on the same rows; null where one of them was scored alone.
    comparison: PairedComparison | None = None
    # The plan's `evaluation_digest`.
    evaluation_digest: str | None = None
    # Only in `evaluation.json`.
    failures: tuple[Example, ...] = ()
    # Questions that the adapter answers and the base does not; only in `evaluation.json`.
    gains: tuple[Example, ...] = ()
    # SHA-256 of the grammar that constrained the answers; scores with different ones are not compared.
    grammar_sha256: str | None = None
    # What the field `accuracy` holds: `accuracy`, the share of right answers; `mean score`, or a metric's
    # name.
    measure: str | None = None
    # The name of an adapter that is not the run's `final/`, with the same consequence. Absent for `final/`.
    other_adapter: str | None = None
    # What replaced the manifest's test rows: such scores are shown and never ranked. Absent where nothing
    # did.
    other_rows: OtherRows | None = None
    # Absent where no answers were sampled.
    samples: SampledScores | None = None
    # SHA-256 of the file of the expert's own scorer; scores of different ones are not compared.
    scorer_sha256: str | None = None
    # The files of the rows; empty where the manifest's own test cases were scored.
    test_set: tuple[TestFile, ...] = ()
    # Of each of `evaluation.test_sets`, by name.
    test_sets: dict[str, TestScores] = Field(default_factory=dict)


class SlowEncoder(OutputDocument):
    """Why Hugging Face tokenizers encoded the rows, and what that cost as measured on the first of them."""

    reason: str
    # How many rows were measured.
    rows: U64
    # MB of text per second of processor time.
    megabytes_per_second: float | None
    # How many times as long as the fast encoder takes; null where that one cannot encode the rows at all.
    times_slower: float | None
    # The cost as a text.
    words: str


class TrainResult(OutputDocument):
    """`train`."""

    ok: bool
    steps: U64 | None
    tokens: U64 | None
    train_loss: float | None
    # The validation loss of the adapter in `final/`.
    eval_loss: float | None
    # The folder of the best checkpoint; null where none was asked for.
    best_checkpoint: str | None
    # The folder of the adapter.
    adapter: str | None
    seconds: float | None
    # Real tokens, from the end of the first step to the end of the last, without evaluation and saving.
    tokens_per_second: float | None
    # The worker's peak resident size on a CPU, the peak reserved memory on a GPU.
    peak_memory_bytes: U64 | None
    resumed_from: U64 | None
    # Why the native encoder did not make the rows, and what that cost; null where it did.
    slow_encoder: SlowEncoder | None
    # Copies between training, validation and test rows, and within the training rows.
    duplicates: tuple[DuplicateRows, ...] = ()
    # Absent where nothing was scored.
    evaluation: EvaluationResult | None = None


class RunRecord(OutputDocument):
    """`run.json`: what made an adapter, and why this step was chosen."""

    contract: U32 | None
    recipe_digest: str | None
    # As it was when the run ended; compared, never run.
    recipe: Recipe | None
    cache_key: str | None
    best: BestChoice | None
    # The result of `train`.
    result: TrainResult | None
    # Settings as read back.
    applied: dict[str, JsonValue]
    packages: dict[str, str | None]
    machine: RunMachine | None
    git_commit: str | None
    inputs: Inputs | None
    # The files of `final/`, by which it is verified.
    final: dict[str, FileDigest]
    # A file that has gone meanwhile is null.
    data: dict[str, FileDigest | None]
    base: dict[str, FileDigest | None]


class Duplicates(OutputDocument):
    """Copies between training, validation and test rows, and within the training rows."""

    # Rows that were compared, by part: `train`, `validation`, `test`, or a test set's name.
    rows: dict[str, U64]
    # Test file -> SHA-256. The files of the other parts are inputs of the cache.
    test_files: dict[str, str]
    # Empty where there is no copy.
    found: tuple[DuplicateRows, ...]
    # `recipe.data` of the plan by which they were read.
    data: JsonValue = None
    # Of test sets that could not be read in whole.
    unread: tuple[DataWarning, ...] = ()


class PreviewSpan(OutputDocument):
    text: str
    learned: bool


class PreviewRow(OutputDocument):
    """A row as it is learned, or why it cannot be used."""

    spans: tuple[PreviewSpan, ...]
    error: str | None = None
    supervised_tokens: U64 | None = None
    tokens: U64 | None = None


class SourceCounts(OutputDocument):
    """The row counts of one source."""

    name: str
    split: str
    read: U64
    used: U64
    bad: U64
    truncated: U64
    split_rows: U64
    dropped_overlong: U64
    dropped_unsupervised: U64
    dropped_duplicate: U64
    dropped_short: U64
    dropped_long: U64
    dropped_mixture: U64
    parsed_dialogues: U64
    eos_added: U64
    tokens: U64
    supervised_tokens: U64
    bytes: U64
    # Near copies of training rows, where `deduplicate` is `near`.
    dropped_near: U64 = 0
    # Pieces of split rows from which nothing is learned.
    dropped_pieces: U64 = 0
    # Their tokens.
    dropped_tokens: U64 = 0
    # Rendered by the template's interpreter instead of its compiled form.
    interpreted: U64 = 0
    # Further times that rows of a mixture are used.
    repeated: U64 = 0
    # Used rows whose answers hold thoughts that the chat template leaves out.
    thoughts_left_out: U64 = 0
    # Used rows whose trailing messages, which have no answer, are left out.
    unanswered: U64 = 0
    # Fields that nothing was read from, and in how many rows.
    unused_fields: dict[str, U64] = Field(default_factory=dict)


class SplitStatistics(OutputDocument):
    rows: U64
    documents: U64
    # Shared ones counted once.
    tokens: U64
    supervised_tokens: U64
    # Documents by length: how many are at most this many tokens long, and longer than the bound before. The
    # first bound counts nothing.
    length_histogram: tuple[tuple[U64, U64], ...]
    # Shortest, quarter, median, three quarters, 90 %, 99 %, longest.
    length_quantiles: tuple[U64, ...]
    bytes: U64
    # Of the Arrow file.
    sha256: str
    # Share of the rows' capacity that holds tokens; null without packing.
    fill: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # Further tokens that documents share with others, so that they are not computed again.
    shared_tokens: U64 = 0


class RowCounts(OutputDocument):
    """The number of rows by what became of them."""

    read: U64
    used: U64
    bad: U64
    truncated: U64
    split_rows: U64
    dropped_overlong: U64
    dropped_unsupervised: U64
    dropped_duplicate: U64
    dropped_short: U64
    dropped_long: U64
    dropped_mixture: U64
    parsed_dialogues: U64
    eos_added: U64
    tokens: U64
    supervised_tokens: U64
    bytes: U64
    # Near copies of training rows, where `deduplicate` is `near`.
    dropped_near: U64 = 0
    # Pieces of split rows from which nothing is learned.
    dropped_pieces: U64 = 0
    # Their tokens.
    dropped_tokens: U64 = 0
    # Rendered by the template's interpreter instead of its compiled form.
    interpreted: U64 = 0
    # Further times that rows of a mixture are used.
    repeated: U64 = 0
    # Used rows whose answers hold thoughts that the chat template leaves out.
    thoughts_left_out: U64 = 0
    # Used rows whose trailing messages, which have no answer, are left out.
    unanswered: U64 = 0


class PretokenizeResult(OutputDocument):
    """`pretokenize`."""

    ok: bool
    # The cache's folder.
    cache: str | None
    # Whether the cache was there before.
    existed: bool
    seconds: float | None
    # Of the training rows; those of validation are in `sources` and `splits`.
    totals: RowCounts
    preview: tuple[PreviewRow, ...]
    key: str | None
    # `native`, `tokenizers` or `another tool`.
    encoder: str | None
    # Why the native encoder was not used, and what that cost; null where it was.
    slow_encoder: SlowEncoder | None
    sources: tuple[SourceCounts, ...]
    splits: dict[str, SplitStatistics]
    # Copies between training, validation and test rows, and within the training rows; null where nothing was
    # compared.
    duplicates: Duplicates | None = None


class ReadFile(OutputDocument):
    """A data file as the file system describes it; times are nanoseconds since 1970."""

    # `train`, `validation`, `test`, or a test set's name.
    part: str
    name: str
    bytes: U64
    modified: U64
    changed: U64
    inode: U64


class EncoderCost(OutputDocument):
    """Why Hugging Face tokenizers encoded the rows, and what that cost as measured on the first of them."""

    reason: str
    # How many rows were measured.
    rows: U64
    # MB of text per second of processor time.
    megabytes_per_second: float | None
    # How many times as long as the fast encoder takes; null where that one cannot encode the rows at all.
    times_slower: float | None


class CacheRecord(OutputDocument):
    """`cache.json`, without its digest: what a token cache was made of, what became of the rows, and what the
    rows are like.
    """

    format: U64
    key: str
    # Everything that the key is made of.
    inputs: dict[str, JsonValue]
    # `native`, `tokenizers` or `another tool`.
    encoder: str
    sources: tuple[SourceCounts, ...]
    splits: dict[str, SplitStatistics]
    # Null where nothing was compared.
    duplicates: Duplicates | None = None
    # The data files when their rows were read: while they are so, `duplicates` holds. Empty where a source is
    # not one plain file.
    read_files: tuple[ReadFile, ...] = ()
    # `recipe.template` of the plan by which the rows were rendered.
    rendered_by: JsonValue = None
    # Why the native encoder was not used, and what that cost.
    slow_encoder: EncoderCost | None = None
    # The Jinja text that the rows were rendered with.
    template: str | None = None
    # The base's files that decide tokens and template, when they were read: while they are so, a plan with
    # the same `template` and `inputs` has these rows. Part `base`.
    tokenizer_files: tuple[ReadFile, ...] = ()


class LayersRecord(OutputDocument):
    """How the layers of a run were computed, as the worker found it possible."""

    # `fast` or `plain`.
    path: str
    # As transformers names it.
    attention: str
    # Backend and mode of torch.compile; null where nothing is compiled.
    compiled: str | None
    # Tokens of a chunk on a CPU, which a resumed run keeps; null where batches are processed as a whole.
    piece_tokens: U64 | None


class CheckpointFacts(OutputDocument):
    """The trainer's state at a step, needed to resume or to refuse it."""

    recipe_digest: str
    # As it was written, whatever the version.
    recipe: dict[str, JsonValue]
    cache_key: str
    total_steps: U64
    # The micro-batch that fits this machine, as found after out-of-memory splits.
    micro_batch: U64
    # Running sums, of which the summary at the end is made.
    totals: dict[str, JsonValue]
    # Of the evaluation at exactly this step; empty where there was none.
    metrics: dict[str, float]
    # True where it was saved before its evaluation was made: a resumed run makes that first.
    evaluation_owed: bool | None = None
    # Whether a 16-bit run on a CPU computes in fp32, which a resumed run keeps for the same reason; null
    # where there is no choice.
    fp32_products: bool | None = None
    # Whether steps of the run were computed in passes with other experts, which rounds differently; the queue
    # of `train --all` continues it as it was begun.
    fused: bool | None = None
    # Digests of the inputs that the run started with.
    inputs: Inputs | None = None
    # How the layers were computed, which rounds differently, too.
    layers: LayersRecord | None = None
    # The most memory that the attempt has held so far: resident on a CPU, reserved on a GPU.
    peak_memory_bytes: U64 | None = None
    # What computed the run: another one rounds differently.
    processor: str | None = None
    # The number of compute threads affects rounding, so a resumed run keeps it.
    threads: U32 | None = None
    # Of the steps of this attempt so far, the first one left out; null before the second.
    tokens_per_second: float | None = None


class CheckpointRecord(OutputDocument):
    """`state.json` of a checkpoint without its seal, which the worker checks before using the checkpoint."""

    format: U64
    step: U64
    facts: CheckpointFacts
    files: dict[str, FileDigest]


class BaseResult(OutputDocument):
    """`base`: fetches or converts the base model."""

    ok: bool
    folder: str | None


class ProductSpeed(OutputDocument):
    """`products/<format>.json` in the folder of what can be made again: how a CPU forms products in a 16-bit
    format.
    """

    processor: str
    # The instructions that torch and oneDNN may use.
    instructions: str
    torch: str
    # The time of a product in the format, by that of one in fp32.
    times_fp32: float
    in_fp32: bool


class KernelChoice(OutputDocument):
    """The kernel that computes an operation, and the others that run on this machine."""

    chosen: str
    others: tuple[str, ...]


class BenchStep(OutputDocument):
    """Seconds of a measured step by what it spent them on."""

    seconds: float
    tokens: U64
    data_wait: float
    transfer: float
    host_launch: float
    device_compute: float
    update: float


class BenchResult(OutputDocument):
    """`bench`: one measurement."""

    ok: bool
    # Whether the longest batch fitted without being split.
    fits: bool | None
    micro_batch: U64 | None
    ready_seconds: float | None
    loaded_bytes: U64 | None
    peak_bytes_of_longest: U64 | None
    peak_bytes: U64 | None
    gpu_utilization: float | None
    # Null where a loss was not finite.
    losses: tuple[float | None, ...] | None
    tokens: U64 | None
    seconds: float | None
    tokens_per_second: float | None
    first_step_seconds: float | None
    steps: tuple[BenchStep, ...]
    # Settings as read back.
    applied: dict[str, JsonValue]
    # By operation of the fast path; empty on the plain path.
    kernels: dict[str, KernelChoice]


class AnswerCheck(OutputDocument):
    """Greedy answers of llama.cpp against those of plain transformers and peft."""

    asked: U64
    equal: U64
    # Answers that part at two tokens of nearly the same likelihood, which rounding decides.
    near_ties: U64
    # Answers of the quantized file that are also those of the unquantized weights.
    equal_unquantized: U64 | None = None


class ExportResult(OutputDocument):
    """`export`."""

    # The new folder.
    target: str
    merged: bool
    bytes: U64
    # Only of GGUF.
    answers: AnswerCheck | None = None
    # Commands that serve what was exported.
    commands: tuple[str, ...] = ()
    # How far the logits are from those of the adapter on the base that it was trained on; null for GGUF.
    logits_difference: float | None = None


class GeneratedAnswer(OutputDocument):
    prompt: str
    base: str
    # Absent where the base alone was asked.
    adapter: str | None = None
    # `base` and `adapter`, whichever answer ends at `max_new_tokens` and not by itself.
    cut: tuple[str, ...] = ()


class GenerateResult(OutputDocument):
    """`generate`."""

    answers: tuple[GeneratedAnswer, ...]


class ExpertBase(OutputDocument):
    # The Hub id; of a base in a folder the folder's name.
    name: str
    # How its weights were held in training.
    quantization: str
    # Weights, configuration and tokenizer.
    files: dict[str, FileDigest | None]
    # What training set over the base's own; absent where it set nothing.
    rope_scaling: RopeScaling | None = None


class ExpertGrammar(OutputDocument):
    """The file beside `expert.json` that constrains answers."""

    # `grammar.gbnf`, or `grammar.json` for a JSON Schema; `sql` or `cypher` for a built-in one, which has no
    # file.
    name: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class SetScore(OutputDocument):
    """The score on one test set."""

    # What the field `accuracy` holds.
    measure: str | None
    rows: U64 | None
    base: Share | None
    adapter: Share | None


class ExpertScore(OutputDocument):
    """What `evaluate` measured on the expert's own test rows, with 95% intervals."""

    scorer: str | None
    # What the field `accuracy` holds.
    measure: str | None
    rows: U64 | None
    base: Share | None
    adapter: Share | None
    # In the base's prompt; absent where the adapter was scored alone, and in records of earlier versions.
    base_examples: U64 | None = None
    # Of further test sets, by name.
    test_sets: dict[str, SetScore] = Field(default_factory=dict)


class ExpertRecord(OutputDocument):
    """`expert.json` beside an adapter: what it is, what it was made of and how well it does. Nothing in it
    depends on the machine or the time.
    """

    # Of this document.
    format: U32
    name: str
    # The expert's own, from its manifest; the base has its own licence.
    license: str | None
    base: ExpertBase
    # The kind of adapter.
    adapter: str
    # The name of the template that rendered the training rows; its text is `chat_template.jinja`.
    template: str
    recipe_digest: str
    # By the names in the manifest; of rows that another tool tokenized, by their folder.
    data: dict[str, FileDigest | None]
    # The files beside this one; the model card is left out, because people edit it.
    files: dict[str, FileDigest]
    # Null until the adapter is evaluated.
    score: ExpertScore | None
    # Of an export: the adapter's weights that it was made of.
    exported_from: FileDigest | None = None
    # What constrains its answers, where anything does.
    grammar: ExpertGrammar | None = None
    # The one that the training rows begin with; absent where the first of them do not share one.
    system_message: str | None = None
