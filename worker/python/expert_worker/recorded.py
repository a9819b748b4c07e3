"""The files of a run and of its token cache as they are found, whatever version wrote them.

Generated from the Rust types by `UPDATE=1 cargo test -p expert-contract --test generated`.
"""

from typing import Annotated

from pydantic import Field, JsonValue

from expert_worker.record_reader import Count, Number, RecordedDocument, Text, Whole


class FileDigest(RecordedDocument):
    bytes: Count | None = None
    sha256: Text | None = None


class BestChoice(RecordedDocument):
    """Which checkpoint became `final/`, and why."""

    # Each evaluation's value by its step.
    evaluations: dict[str, Number | None] = Field(default_factory=dict)
    metric: Text | None = None
    reason: Text | None = None
    step: Count | None = None
    value: Number | None = None


class Code(RecordedDocument):
    """The code that decides an adapter."""

    # Of the native module: SHA-256 of the sources that it was built from.
    native: Text | None = None
    # expert-cli's version.
    version: Text | None = None
    # SHA-256 over the worker's Python sources; null where the package is not installed.
    worker: Text | None = None


class Inputs(RecordedDocument):
    """A digest that is not known is null. Null never equals anything."""

    # `sha256:` of the weights and their configuration, or `revision:` of the Hub's snapshot. Null where the
    # base is not on this machine yet: the worker fills it in when it has located the base.
    base: Text | None = None
    code: Code = Code()
    # Of training and validation data: source name -> SHA-256 of every byte that its rows are read from, or
    # `revision:` of the Hub dataset's commit. One that is not in the Hub's cache yet is not listed. Test data
    # is named by its scores. The adapter that training starts from is listed too.
    data: dict[str, Text] = Field(default_factory=dict)
    # The recipe's digest: comments, formatting and settings of the machine do not count.
    recipe: Text | None = None
    # SHA-256 of the expert's own scorer, where the best checkpoint is chosen by its scores.
    scorer: Text | None = None
    template: Text | None = None
    tokenizer: Text | None = None


class Device(RecordedDocument):
    index: Count | None = None
    kind: Text | None = None
    memory_bytes: Count | None = None
    name: Text | None = None


class RunMachine(RecordedDocument):
    """The machine that a run was computed on."""

    architecture: Text | None = None
    cpu_capability: Text | None = None
    cuda: Text | None = None
    device: Device | None = None
    dtype: Text | None = None
    os: Text | None = None
    python: Text | None = None
    threads: Count | None = None


class SoftPrompt(RecordedDocument):
    init: Text | None = None
    init_text: Text | None = None
    name: Text | None = None
    tokens: Count | None = None


class Adapter(RecordedDocument):
    alpha: Number | None = None
    dropout: Number | None = None
    # For ia3: the subset whose input is scaled. Sorted.
    feedforward_modules: tuple[Text, ...] = ()
    # The folder of the adapter that training starts from, as the manifest names it; its place is in
    # `machine.paths.initial_adapter`. Left out for a new one, so that older recipes keep their digests.
    initial: Text | None = None
    kind: Text | None = None
    # Null for ia3 and prompt.
    rank: Count | None = None
    # Trained virtual tokens; only where `kind` is prompt.
    soft_prompts: tuple[SoftPrompt, ...] = ()
    # Names of layers, sorted and without duplicates, or `all-linear` alone: the linear layers of the base's
    # blocks. Empty for prompt, and for ia3 where the base's family decides. `machine.modules` has the names
    # on this base.
    target_modules: tuple[Text, ...] = ()


class RopeScaling(RecordedDocument):
    """`rope_scaling` as transformers takes it."""

    # Set to 1.0 for `ntk-by-parts`, which is YaRN without its attention temperature.
    attention_factor: Number | None = None
    beta_fast: Number | None = None
    beta_slow: Number | None = None
    factor: Number | None = None
    high_freq_factor: Number | None = None
    kind: Text | None = None
    long_factor: tuple[Number, ...] | None = None
    low_freq_factor: Number | None = None
    max_position_embeddings: Count | None = None
    original_max_position_embeddings: Count | None = None
    short_factor: tuple[Number, ...] | None = None


class Base(RecordedDocument):
    # Logical name: a Hub id, the embedded base's name, or a folder's last component. Never a path.
    name: Text | None = None
    quantization: Text | None = None
    rope_scaling: RopeScaling | None = None
    # The digest that the manifest demands of the weights, if it demands one.
    sha256: Text | None = None


class Batch(RecordedDocument):
    # Whether an epoch's last, smaller step is dropped.
    drop_last: bool | None = None
    # Only without packing: rows of similar length share a micro-batch.
    group_by_length: bool | None = None
    max_seq_length: Count | None = None
    packing: bool | None = None
    # Rows per optimizer step, over all micro-batches and devices.
    rows_per_step: Count | None = None
    # Only with packing: documents that follow one another and begin alike share their beginning. Left out if
    # not.
    share_prefixes: bool | None = None


class Source(RecordedDocument):
    format: Text | None = None
    # Relative path with forward slashes, or `name::split::config` of a Hub dataset. For data named on the
    # command line: the file's name and its absolute place in `machine.paths.data`.
    name: Text | None = None
    # The mixture's name for this source.
    task: Text | None = None
    # Share of this source's task in a mixture; 1 where all rows are taken.
    weight: Number | None = None


class Data(RecordedDocument):
    deduplicate: bool | None = None
    # Whether near copies among the training rows are dropped too. Left out if not, so that older recipes keep
    # their digests.
    drop_near_copies: bool | None = None
    # Canonical field name -> dotted path in the row (`completion` -> `output.sql`). Empty: recognise the
    # shape.
    field_mapping: dict[str, Text] = Field(default_factory=dict)
    # Rows with more characters than this are dropped and counted.
    max_length: Count | None = None
    # Rows with fewer characters than this are dropped and counted.
    min_length: Count | None = None
    on_bad_row: Text | None = None
    overlong: Text | None = None
    # Which task of a mixture decides how many rows there are. Left out if it is the scarcest, so that older
    # recipes keep their digests.
    stopping_strategy: Text | None = None
    streaming: bool | None = None
    test: tuple[Source, ...] = ()
    text_dialogue: Text | None = None
    train: tuple[Source, ...] = ()
    train_on: Text | None = None
    validation: tuple[Source, ...] = ()
    # Share of the training rows held out for validation; null where a validation file is named or none is
    # wanted.
    validation_split: Number | None = None


class Grammar(RecordedDocument):
    kind: Text | None = None
    # The file in the expert's folder, with forward slashes; `json`, `sql` or `cypher` for a built-in one.
    name: Text | None = None
    # Of `sql` and `cypher` their name: the worker writes the grammar for the schema in each prompt.
    text: Text | None = None


class Decoding(RecordedDocument):
    """How text is generated when an expert is tried or scored. A temperature of 0 is greedy."""

    # What every answer conforms to. Left out where there is none, so that older recipes keep their digests.
    grammar: Grammar | None = None
    max_new_tokens: Count | None = None
    min_p: Number | None = None
    stop_sequences: tuple[Text, ...] = ()
    temperature: Number | None = None
    top_k: Count | None = None
    top_p: Number | None = None


class BestModel(RecordedDocument):
    greater_is_better: bool | None = None
    metric: Text | None = None
    # Evaluations without a better value after which training stops; null never stops early.
    patience: Count | None = None


class ScorerSettings(RecordedDocument):
    # Relative to the expert's folder, with forward slashes.
    file: Text | None = None
    function: Text | None = None
    instructions: Text | None = None
    kind: Text | None = None
    labels: tuple[Text, ...] = ()
    model: Text | None = None
    variant: Text | None = None


class TestCase(RecordedDocument):
    expected: Text | None = None
    prompt: Text | None = None


class Evaluation(RecordedDocument):
    # How the best checkpoint is chosen; null: the last one is final.
    best: BestModel | None = None
    # Maximum tokens of a scored answer, where it differs from that of other answers.
    max_new_tokens: Count | None = None
    # Rows of the validation data that an evaluation during training looks at; null for all.
    rows: Count | None = None
    # The name of a built-in scorer, or `package:name` of one that an installed package offers.
    scorer: Text | None = None
    # Of a scorer that has settings.
    scorer_settings: ScorerSettings | None = None
    steps: Count | None = None
    strategy: Text | None = None
    test_cases: tuple[TestCase, ...] = ()
    # Rows of the test set that are scored; null for all.
    test_set_size: Count | None = None
    # An adapter is scored alone: trials of a search are compared with each other. Left out if not.
    without_base: bool | None = None


class Neftune(RecordedDocument):
    noise_alpha: Number | None = None


class Optimizer(RecordedDocument):
    beta1: Number | None = None
    beta2: Number | None = None
    epsilon: Number | None = None
    learning_rate: Number | None = None
    # Global norm that gradients are clipped to; null leaves them alone.
    max_grad_norm: Number | None = None
    name: Text | None = None
    neftune: Neftune | None = None
    weight_decay: Number | None = None


class Precision(RecordedDocument):
    compute: Text | None = None
    tf32: bool | None = None


class Saving(RecordedDocument):
    steps: Count | None = None
    strategy: Text | None = None


class Duration(RecordedDocument):
    unit: Text | None = None
    value: Number | Count | None = None


class Warmup(RecordedDocument):
    unit: Text | None = None
    value: Count | Number | None = None


class Schedule(RecordedDocument):
    duration: Duration = Duration()
    kind: Text | None = None
    # Numbers that the kind takes: `num_cycles`, `power`, `lr_end`, `min_lr_ratio`.
    options: dict[str, Number] = Field(default_factory=dict)
    warmup: Warmup = Warmup()


TemplateValue = bool | Whole | Text


class Template(RecordedDocument):
    kind: Text | None = None
    # Variables that the template reads. Left out if there are none, so that older recipes keep their digests.
    kwargs: dict[str, TemplateValue] = Field(default_factory=dict)
    # The Jinja text of a `custom` template; null for the others.
    source: Text | None = None


class Recipe(RecordedDocument):
    adapter: Adapter = Adapter()
    base: Base = Base()
    batch: Batch = Batch()
    data: Data = Data()
    decoding: Decoding = Decoding()
    evaluation: Evaluation = Evaluation()
    expert: Text | None = None
    # Left out if it is `sft`, so that recipes from before it was a choice keep their digests.
    objective: Text | None = None
    optimizer: Optimizer = Optimizer()
    precision: Precision = Precision()
    saving: Saving = Saving()
    schedule: Schedule = Schedule()
    # Every random draw is a function of this number and of its position.
    seed: Count | None = None
    template: Template = Template()


class DataWarning(RecordedDocument):
    """What a run that uses the cache says of its rows."""

    hint: Text | None = None
    message: Text | None = None


class DuplicateRows(RecordedDocument):
    """Rows of a part that copy rows of another part, or earlier rows of the same one."""

    # Copies that are equal to their originals.
    exact: Count | None = None
    # The first ones: a copy and its original, each as file:line.
    examples: tuple[tuple[Text, Text], ...] = ()
    # Where there are enough to make scores worthless.
    leak: DataWarning | None = None
    # Copies with the same answer to a similar question.
    near: Count | None = None
    # The part that has the originals.
    of: Text | None = None
    part: Text | None = None
    # All rows of `part`.
    rows: Count | None = None


class Share(RecordedDocument):
    """The mean of scores from 0 to 1, with a 95% interval. Of right and wrong answers it is the share of
    right ones.
    """

    accuracy: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # Answers with the full score.
    correct: Count | None = None
    high: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    low: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    total: Count | None = None


class PromptChoice(RecordedDocument):
    """The number of examples in the base's prompt, chosen by what scored best on validation rows."""

    shots: Count | None = None
    # By the number of examples; empty where there were no rows to choose by.
    tried: dict[str, Share] = Field(default_factory=dict)


class Unparsed(RecordedDocument):
    """Wrong answers that the scorer's parser refuses."""

    answers: Count | None = None
    # How many of them end at `max_new_tokens`: a longer limit may win these, not a grammar.
    cut: Count | None = None


class Score(RecordedDocument):
    """The score of the base or of the adapter on all rows."""

    accuracy: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # Answers with the full score.
    correct: Count | None = None
    high: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    loss: Number | None = None
    low: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # The adapter's folder.
    path: Text | None = None
    # The base's prompt.
    prompt: PromptChoice | None = None
    total: Count | None = None
    # Wrong answers that do not parse: only these can be won by a grammar. Null where the scorer has no
    # parser.
    unparsed: Unparsed | None = None
    # Answers that count as 0 because the scorer failed on them or gave no verdict.
    unscored: Count | None = None


class PairedComparison(RecordedDocument):
    """The adapter's scores less those of the base, or of what it is compared with, row by row."""

    # Rows that the adapter answers better than the other, and worse.
    better: Count | None = None
    # The mean, with a 95% interval.
    difference: Annotated[float, Field(ge=-1.0, le=1.0)] | None = None
    high: Annotated[float, Field(ge=-1.0, le=1.0)] | None = None
    low: Annotated[float, Field(ge=-1.0, le=1.0)] | None = None
    worse: Count | None = None


class AgainstScores(RecordedDocument):
    """Another model, or another adapter of the same base, on the same rows."""

    # The adapter's scores less these, row by row; null where the base alone was scored.
    comparison: PairedComparison | None = None
    name: Text | None = None
    # With the prompt that was chosen for a model, or the path of an adapter.
    score: Score | None = None


class ScoreLine(RecordedDocument):
    """A line of a table: base beside adapter, and what they are compared with."""

    adapter: Share | None = None
    # Of what `--against` names; absent without it.
    against: Share | None = None
    base: Share | None = None
    name: Text | None = None


class LabelScore(RecordedDocument):
    f1: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    label: Text | None = None
    precision: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    recall: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # Rows with this label as reference.
    rows: Count | None = None


class ClassScores(RecordedDocument):
    # In the order of `labels`.
    by_label: tuple[LabelScore, ...] = ()
    # For each label the number of its rows by the label of the answer; last, answers that name none or
    # several.
    confusion: tuple[tuple[Count, ...], ...] = ()
    # The mean F1 of the labels that occur in references or answers.
    macro_f1: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


class Classes(RecordedDocument):
    """The scores of a classification by label."""

    adapter: ClassScores | None = None
    base: ClassScores | None = None
    labels: tuple[Text, ...] = ()


class Confinement(RecordedDocument):
    """What the system closed to the process that scored; null where nothing was in force."""

    files: Text | None = None
    # Why something was not in force.
    missing: tuple[Text, ...] = ()
    network: Text | None = None


class Answer(RecordedDocument):
    # Whether it has the full score.
    correct: bool | None = None
    # It ends at `max_new_tokens`, not by itself.
    cut: bool | None = None
    reason: Text | None = None
    # From 0 to 1; null in records of older versions.
    score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    text: Text | None = None
    # It is wrong because the scorer's parser refuses it.
    unparsed: bool | None = None
    # It counts as 0 because the scorer failed on it or gave no verdict.
    unscored: bool | None = None


class Example(RecordedDocument):
    adapter: Answer | None = None
    base: Answer | None = None
    expected: Text | None = None
    prompt: Text | None = None
    tags: tuple[Text, ...] = ()


class PassAt(RecordedDocument):
    """The mean probability that one of `k` samples of a row has the full score: 1 - C(n-c, k) / C(n, k) for
    `c` of `n`.
    """

    accuracy: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # Answers with the full score.
    correct: Count | None = None
    high: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    k: Count | None = None
    low: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    total: Count | None = None


class SampledLine(RecordedDocument):
    """Of the rows with one level or tag."""

    name: Text | None = None
    pass_at: tuple[PassAt, ...] = ()
    vote: Share | None = None


class SampledScores(RecordedDocument):
    """The scores of several sampled answers to each row: of the adapter, or of the base where it was scored
    alone.
    """

    by_level: tuple[SampledLine, ...] = ()
    by_tag: tuple[SampledLine, ...] = ()
    # For 1, 2, 4 and so on up to `per_row`.
    pass_at: tuple[PassAt, ...] = ()
    per_row: Count | None = None
    temperature: Number | None = None
    # The score of the answer that most samples of a row agree on, by what it returns when it is executed.
    vote: Share | None = None


class TestFile(RecordedDocument):
    """A source of the rows that were scored."""

    name: Text | None = None
    # The commit of a Hub dataset.
    revision: Text | None = None
    # SHA-256 of every byte that its rows are read from.
    sha256: Text | None = None


class TestScores(RecordedDocument):
    """The scores on the rows of one test set."""

    # Null where the base alone was scored.
    adapter: Score | None = None
    # Absent without `--against`.
    against: AgainstScores | None = None
    base: Score | None = None
    by_level: tuple[ScoreLine, ...] = ()
    by_tag: tuple[ScoreLine, ...] = ()
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
    measure: Text | None = None
    rows: Count | None = None
    # Absent where no answers were sampled.
    samples: SampledScores | None = None
    # The files of the rows; empty where the manifest's own test cases were scored.
    test_set: tuple[TestFile, ...] = ()


class EvaluationResult(RecordedDocument):
    """`evaluate`, and `evaluation.json`."""

    # Null where the base alone was scored.
    adapter: Score | None = None
    # Absent without `--against`.
    against: AgainstScores | None = None
    base: Score | None = None
    by_level: tuple[ScoreLine, ...] = ()
    by_tag: tuple[ScoreLine, ...] = ()
    # Of a classification.
    classes: Classes | None = None
    # The adapter against the base on the same rows; null where one of them was scored alone.
    comparison: PairedComparison | None = None
    # What held the process that scored; null where nothing was scored.
    confinement: Confinement | None = None
    # The plan's `evaluation_digest`.
    evaluation_digest: Text | None = None
    expert: Text | None = None
    # Only in `evaluation.json`.
    failures: tuple[Example, ...] = ()
    # Questions that the adapter answers and the base does not; only in `evaluation.json`.
    gains: tuple[Example, ...] = ()
    # SHA-256 of the grammar that constrained the answers; scores with different ones are not compared.
    grammar_sha256: Text | None = None
    # What the field `accuracy` holds: `accuracy`, the share of right answers; `mean score`, or a metric's
    # name.
    measure: Text | None = None
    # The name of an adapter that is not the run's `final/`, with the same consequence. Absent for `final/`.
    other_adapter: Text | None = None
    # What replaced the manifest's test rows: such scores are shown and never ranked. Absent where nothing
    # did.
    other_rows: Text | None = None
    rows: Count | None = None
    # Absent where no answers were sampled.
    samples: SampledScores | None = None
    scorer: Text | None = None
    # SHA-256 of the file of the expert's own scorer; scores of different ones are not compared.
    scorer_sha256: Text | None = None
    seconds: Number | None = None
    # The files of the rows; empty where the manifest's own test cases were scored.
    test_set: tuple[TestFile, ...] = ()
    # Of each of `evaluation.test_sets`, by name.
    test_sets: dict[str, TestScores] = Field(default_factory=dict)


class SlowEncoder(RecordedDocument):
    """Why Hugging Face tokenizers encoded the rows, and what that cost as measured on the first of them."""

    # MB of text per second of processor time.
    megabytes_per_second: Number | None = None
    reason: Text | None = None
    # How many rows were measured.
    rows: Count | None = None
    # How many times as long as the fast encoder takes; null where that one cannot encode the rows at all.
    times_slower: Number | None = None
    # The cost as a text.
    words: Text | None = None


class TrainResult(RecordedDocument):
    """`train`."""

    # The folder of the adapter.
    adapter: Text | None = None
    # The folder of the best checkpoint; null where none was asked for.
    best_checkpoint: Text | None = None
    # Copies between training, validation and test rows, and within the training rows.
    duplicates: tuple[DuplicateRows, ...] = ()
    # The validation loss of the adapter in `final/`.
    eval_loss: Number | None = None
    # Absent where nothing was scored.
    evaluation: EvaluationResult | None = None
    ok: bool | None = None
    # The worker's peak resident size on a CPU, the peak reserved memory on a GPU.
    peak_memory_bytes: Count | None = None
    resumed_from: Count | None = None
    seconds: Number | None = None
    # Why the native encoder did not make the rows, and what that cost; null where it did.
    slow_encoder: SlowEncoder | None = None
    steps: Count | None = None
    tokens: Count | None = None
    # Real tokens, from the end of the first step to the end of the last, without evaluation and saving.
    tokens_per_second: Number | None = None
    train_loss: Number | None = None


class RunRecord(RecordedDocument):
    """`run.json`: what made an adapter, and why this step was chosen."""

    # Settings as read back.
    applied: dict[str, JsonValue] = Field(default_factory=dict)
    base: dict[str, FileDigest | None] = Field(default_factory=dict)
    best: BestChoice | None = None
    cache_key: Text | None = None
    contract: Count | None = None
    # A file that has gone meanwhile is null.
    data: dict[str, FileDigest | None] = Field(default_factory=dict)
    # The files of `final/`, by which it is verified.
    final: dict[str, FileDigest] = Field(default_factory=dict)
    git_commit: Text | None = None
    inputs: Inputs | None = None
    machine: RunMachine | None = None
    packages: dict[str, Text | None] = Field(default_factory=dict)
    # As it was when the run ended; compared, never run.
    recipe: Recipe | None = None
    recipe_digest: Text | None = None
    # The result of `train`.
    result: TrainResult | None = None


class Compile(RecordedDocument):
    # Whether the manifest asks for it; if not, it must have been found right on the device.
    asked: bool | None = None
    backend: Text | None = None
    mode: Text | None = None


class Graphs(RecordedDocument):
    """A micro-batch's forward and backward pass as one launch."""

    # Whether the manifest asks for them; if not, they must have been found right on the device.
    asked: bool | None = None


class Distributed(RecordedDocument):
    """Processes that train together, each on its own device: `device.index` and the following ones."""

    processes: Count | None = None
    strategy: Text | None = None


class MemoryEstimate(RecordedDocument):
    """Bytes by part for one micro-batch on the device."""

    activations: Count | None = None
    adapter: Count | None = None
    context: Count | None = None
    gradients: Count | None = None
    logits: Count | None = None
    optimizer: Count | None = None
    # Python and its libraries. GPUs hold none of it.
    process: Count | None = None
    total: Count | None = None
    weights: Count | None = None


class JudgeEndpoint(RecordedDocument):
    concurrency: Count | None = None
    # The environment variable that holds the key.
    key_variable: Text | None = None
    timeout_seconds: Count | None = None
    url: Text | None = None


class Loader(RecordedDocument):
    """Honoured where rows do not come from the mapped cache; the worker reports the values in use."""

    pin_memory: bool | None = None
    prefetch_factor: Count | None = None
    # False tokenizes on the fly instead of reading the token cache.
    use_cache: bool | None = None
    workers: Count | None = None


class Logging(RecordedDocument):
    steps: Count | None = None
    trackers: tuple[Text, ...] = ()


class Mirror(RecordedDocument):
    # False waits for the copy before training continues.
    background: bool | None = None
    compress: bool | None = None
    # Any fsspec URL.
    target: Text | None = None


class AdaptedModules(RecordedDocument):
    """The layers of this base that get an adapter. The worker refuses to train anything else."""

    feedforward: tuple[Text, ...] = ()
    # Parameters that are trained; null where they are counted in the loaded base only.
    parameters: Count | None = None
    target: tuple[Text, ...] = ()


class Paths(RecordedDocument):
    """Absolute paths on this machine."""

    # The base's folder; null for a Hub id that the worker finds in the Hub's cache, and for the embedded
    # base.
    base: Text | None = None
    # Root of this expert's token caches; a cache is `<cache>/<key>/`.
    cache: Text | None = None
    # Source name -> absolute file. Hub datasets are not listed.
    data: dict[str, Text] = Field(default_factory=dict)
    expert_dir: Text | None = None
    # Where downloaded and converted base models, compiled tokenizers and base scores are kept.
    home: Text | None = None
    # The folder of the adapter that training starts from.
    initial_adapter: Text | None = None
    manifest: Text | None = None
    output: Text | None = None
    # The Python file of the expert's own scorer.
    scorer: Text | None = None


class Threads(RecordedDocument):
    # torch's intra-op threads; null leaves torch's own choice.
    compute: Count | None = None
    # Threads that tokenize; null uses every core.
    pretokenize: Count | None = None


class Machine(RecordedDocument):
    # Micro-batches per optimizer step in each process: ceil(rows_per_step / micro_batch / processes).
    accumulation: Count | None = None
    checkpointing: Text | None = None
    compile: Compile | None = None
    # Null where each launch is the host's. The worker says why where it cannot capture what is wanted.
    cuda_graphs: Graphs | None = None
    device: Device = Device()
    # Null for a single process.
    distributed: Distributed | None = None
    dtype: Text | None = None
    estimate: MemoryEstimate = MemoryEstimate()
    # False takes the plain transformers + peft path: the adapter, eager attention or a sharded base needs it,
    # or it is compared. The worker takes it for unknown architectures too.
    fast_path: bool | None = None
    flash_attention: bool | None = None
    # True on a CPU whose products in the run's 16-bit format are slower than those in fp32: the base, read in
    # its format, is held and computed in fp32. The result is that of the 16-bit format within rounding.
    fp32_products: bool | None = None
    # Where the model is asked that scores answers.
    judge: JudgeEndpoint | None = None
    # The kernel of an operation of the fast path, by name, where a benchmark wants another than the first
    # that runs.
    kernels: dict[str, Text] = Field(default_factory=dict)
    loader: Loader = Loader()
    logging: Logging = Logging()
    # Steps between two releases of the allocator's cached memory; null never.
    memory_clear_every: Count | None = None
    # Rows per micro-batch; the worker halves it when memory runs out.
    micro_batch: Count | None = None
    mirror: Mirror | None = None
    # Null where the base's layers are not known before it is loaded.
    modules: AdaptedModules | None = None
    paths: Paths = Paths()
    # Tokens of a micro-batch that the fast path processes at once, in whole documents; null processes all of
    # them together. A chunk that fits a CPU's cache is faster, and the gradients have the same sum.
    piece_tokens: Count | None = None
    # Checkpoints to keep, including the best; the newest is never deleted, null keeps all.
    save_total_limit: Count | None = None
    sdpa: bool | None = None
    threads: Threads = Threads()


class PlanRecord(RecordedDocument):
    """`plan.json` of a run, the keys that every version has."""

    contract: Count | None = None
    # What the expert is for.
    description: Text | None = None
    # As they were when the run was planned; compared, never run.
    inputs: Inputs | None = None
    machine: Machine | None = None
    recipe: Recipe | None = None
    recipe_digest: Text | None = None
    # Settings of the command line that trained it last.
    typed: tuple[Text, ...] | None = None


class Duplicates(RecordedDocument):
    """Copies between training, validation and test rows, and within the training rows."""

    # `recipe.data` of the plan by which they were read.
    data: JsonValue | None = None
    # Empty where there is no copy.
    found: tuple[DuplicateRows, ...] = ()
    # Rows that were compared, by part: `train`, `validation`, `test`, or a test set's name.
    rows: dict[str, Count] = Field(default_factory=dict)
    # Test file -> SHA-256. The files of the other parts are inputs of the cache.
    test_files: dict[str, Text] = Field(default_factory=dict)
    # Of test sets that could not be read in whole.
    unread: tuple[DataWarning, ...] = ()


class ReadFile(RecordedDocument):
    """A data file as the file system describes it; times are nanoseconds since 1970."""

    bytes: Count | None = None
    changed: Count | None = None
    inode: Count | None = None
    modified: Count | None = None
    name: Text | None = None
    # `train`, `validation`, `test`, or a test set's name.
    part: Text | None = None


class EncoderCost(RecordedDocument):
    """Why Hugging Face tokenizers encoded the rows, and what that cost as measured on the first of them."""

    # MB of text per second of processor time.
    megabytes_per_second: Number | None = None
    reason: Text | None = None
    # How many rows were measured.
    rows: Count | None = None
    # How many times as long as the fast encoder takes; null where that one cannot encode the rows at all.
    times_slower: Number | None = None


class SourceCounts(RecordedDocument):
    """The row counts of one source."""

    bad: Count | None = None
    bytes: Count | None = None
    dropped_duplicate: Count | None = None
    dropped_long: Count | None = None
    dropped_mixture: Count | None = None
    # Near copies of training rows, where `deduplicate` is `near`.
    dropped_near: Count | None = None
    dropped_overlong: Count | None = None
    # Pieces of split rows from which nothing is learned.
    dropped_pieces: Count | None = None
    dropped_short: Count | None = None
    # Their tokens.
    dropped_tokens: Count | None = None
    dropped_unsupervised: Count | None = None
    eos_added: Count | None = None
    # Rendered by the template's interpreter instead of its compiled form.
    interpreted: Count | None = None
    name: Text | None = None
    parsed_dialogues: Count | None = None
    read: Count | None = None
    # Further times that rows of a mixture are used.
    repeated: Count | None = None
    split: Text | None = None
    split_rows: Count | None = None
    supervised_tokens: Count | None = None
    # Used rows whose answers hold thoughts that the chat template leaves out.
    thoughts_left_out: Count | None = None
    tokens: Count | None = None
    truncated: Count | None = None
    # Used rows whose trailing messages, which have no answer, are left out.
    unanswered: Count | None = None
    # Fields that nothing was read from, and in how many rows.
    unused_fields: dict[str, Count] = Field(default_factory=dict)
    used: Count | None = None


class SplitStatistics(RecordedDocument):
    bytes: Count | None = None
    documents: Count | None = None
    # Share of the rows' capacity that holds tokens; null without packing.
    fill: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    # Documents by length: how many are at most this many tokens long, and longer than the bound before. The
    # first bound counts nothing.
    length_histogram: tuple[tuple[Count, Count], ...] = ()
    # Shortest, quarter, median, three quarters, 90 %, 99 %, longest.
    length_quantiles: tuple[Count, ...] = ()
    rows: Count | None = None
    # Of the Arrow file.
    sha256: Text | None = None
    # Further tokens that documents share with others, so that they are not computed again.
    shared_tokens: Count | None = None
    supervised_tokens: Count | None = None
    # Shared ones counted once.
    tokens: Count | None = None


class CacheRecord(RecordedDocument):
    """`cache.json`, without its digest: what a token cache was made of, what became of the rows, and what the
    rows are like.
    """

    # Null where nothing was compared.
    duplicates: Duplicates | None = None
    # `native`, `tokenizers` or `another tool`.
    encoder: Text | None = None
    format: Count | None = None
    # Everything that the key is made of.
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    key: Text | None = None
    # The data files when their rows were read: while they are so, `duplicates` holds. Empty where a source is
    # not one plain file.
    read_files: tuple[ReadFile, ...] = ()
    # `recipe.template` of the plan by which the rows were rendered.
    rendered_by: JsonValue | None = None
    # Why the native encoder was not used, and what that cost.
    slow_encoder: EncoderCost | None = None
    sources: tuple[SourceCounts, ...] = ()
    splits: dict[str, SplitStatistics] = Field(default_factory=dict)
    # The Jinja text that the rows were rendered with.
    template: Text | None = None
    # The base's files that decide tokens and template, when they were read: while they are so, a plan with
    # the same `template` and `inputs` has these rows. Part `base`.
    tokenizer_files: tuple[ReadFile, ...] = ()


class SearchScoring(RecordedDocument):
    """What decides a score beside the adapter and the rows."""

    # The plan's `evaluation_digest`.
    evaluation_digest: Text | None = None
    # SHA-256 of the grammar of answers.
    grammar_sha256: Text | None = None
    # SHA-256 of the expert's own scorer.
    scorer_sha256: Text | None = None


class SearchRange(RecordedDocument):
    """A searched setting and what it may be: `1e-4..0.005` or `8|16|32`."""

    name: Text | None = None
    values: Text | None = None


class SearchScore(RecordedDocument):
    """How a trial ended at one rung."""

    failure: Text | None = None
    rung: Count | None = None
    # Of training and scoring.
    seconds: Number | None = None
    # On validation rows; null where it failed.
    share: Share | None = None
    # Decides where the losses are equal too.
    steps: Count | None = None
    training_seconds: Number | None = None
    # Of the scored adapter; decides between equal shares of right answers.
    validation_loss: Number | None = None


class SearchSetting(RecordedDocument):
    """A value for a key of `training.config`."""

    key: Text | None = None
    name: Text | None = None
    value: JsonValue | None = None


class SearchTrial(RecordedDocument):
    scores: tuple[SearchScore, ...] = ()
    settings: tuple[SearchSetting, ...] = ()


class SearchWritten(RecordedDocument):
    """What the same command finds after `--write`: by this it knows that the search is over."""

    # What the manifest's own recipe is trained with.
    inputs: Inputs = Inputs()
    # Ranges that `--space` does not give are around those of the manifest.
    space: tuple[SearchRange, ...] = ()


class SearchRecord(RecordedDocument):
    """`search.json`."""

    base: Text | None = None
    # The winner less the manifest's own recipe, row by row; null where they are one.
    comparison: PairedComparison | None = None
    expert: Text | None = None
    # What the manifest's own recipe is trained with.
    inputs: Inputs | None = None
    # False while the first of them are trained, which say how many there can be.
    is_drawn: bool | None = None
    # Validation rows that are scored at most; null for all.
    rows: Count | None = None
    # How the answers of all trials are scored.
    scoring: SearchScoring | None = None
    # Spent until the last change of the record.
    seconds: Number | None = None
    # Random seed of the trials.
    seed: Count | None = None
    space: tuple[SearchRange, ...] = ()
    # Null where the budget is a time.
    trial_limit: Count | None = None
    # The first one is the manifest's own recipe.
    trials: tuple[SearchTrial, ...] = ()
    # The number of a trial, from 0.
    winner: Count | None = None
    # At which it won: 0 is a ninth of the steps, 2 all of them.
    winner_rung: Count | None = None
    # The manifest with the winner's settings in it; null until `--write` put them there.
    written: SearchWritten | None = None
