//! Every problem that a manifest, or an argument that changes one, can have. The codes are stable.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run would go better otherwise.
    Advice,
    /// A setting has no effect, or a file is missing on this machine.
    Warning,
    /// This cannot run.
    Error,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

macro_rules! codes {
    ($($variant:ident = $word:literal, $severity:ident, $doc:literal;)+) => {
        // These sentences are shown to people, who know DoRA as a name and not as code.
        #[allow(clippy::doc_markdown)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $doc] $variant),+ }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The default severity.
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity),+ }
            }

            /// One sentence for the reference.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc),+ }
            }
        }
    };
}

codes! {
    FileUnreadable = "file-unreadable", Error, "The manifest does not exist, is not a file, or cannot be read.";
    FileTooLarge = "file-too-large", Error, "The manifest is larger than 16 MiB, or holds more than 100,000 values: data that belongs in a dataset.";
    FileEmpty = "file-empty", Error, "The manifest holds nothing.";
    LfsPointer = "lfs-pointer", Error, "The file is a Git LFS pointer: its content was never fetched.";
    OtherFormat = "other-format", Error, "The file is YAML or TOML, or the configuration of another trainer; manifests are JSON with the keys of docs/manifest.md.";
    InvalidUtf8 = "invalid-utf8", Error, "The manifest is not UTF-8 text.";
    ByteOrderMark = "byte-order-mark", Warning, "The manifest begins with a byte order mark, which other JSON readers refuse; it is skipped.";
    Syntax = "syntax", Error, "The text is not valid JSON here.";
    Comment = "comment", Error, "JSON has no comments; a key that begins with `_` serves as one.";
    TrailingComma = "trailing-comma", Error, "JSON allows no comma before a closing bracket.";
    MissingComma = "missing-comma", Error, "Two values or two keys are not separated by a comma.";
    UnquotedText = "unquoted-text", Error, "A key or a text lacks its double quotes.";
    UnclosedBracket = "unclosed-bracket", Error, "An object or a list is never closed.";
    UnterminatedText = "unterminated-text", Error, "A text is never closed.";
    ControlCharacter = "control-character", Error, "A raw control character (NUL, line break, tab) is used where JSON needs an escape.";
    InvalidEscape = "invalid-escape", Error, "A backslash is followed by an unknown escape.";
    LoneSurrogate = "lone-surrogate", Error, "Half of a UTF-16 pair is not a character.";
    InvalidNumber = "invalid-number", Error, "A number is not in JSON's format.";
    NotFinite = "not-finite", Error, "NaN and Infinity are not numbers in JSON, and no setting means them.";
    NumberTooLarge = "number-too-large", Error, "A number is beyond what a 64-bit float holds.";
    TooDeep = "too-deep", Error, "Objects and lists are nested deeper than 64 levels.";
    TrailingContent = "trailing-content", Error, "Something follows the end of the manifest.";
    DuplicateKey = "duplicate-key", Error, "A key appears twice in one object; readers disagree on which one counts.";
    DuplicateComment = "duplicate-comment", Warning, "A comment key appears twice in one object; tools that rewrite the file keep only one.";

    NotAnObject = "not-an-object", Error, "The manifest as a whole must be a JSON object.";
    UnknownKey = "unknown-key", Error, "An unknown key is in a section where every key has an effect.";
    LikelyTypo = "likely-typo", Warning, "A metadata key is similar to a key that has an effect, or has an effect at another place.";
    MissingKey = "missing-key", Error, "A required key is missing.";
    WrongType = "wrong-type", Error, "A value is of another type than its key takes.";
    OutOfRange = "out-of-range", Error, "A number is outside the range that its key takes.";
    UnknownWord = "unknown-word", Error, "A word is not one of those that its key takes.";
    EmptyValue = "empty-value", Error, "A text or list that must hold something is empty.";
    InvalidName = "invalid-name", Error, "The expert's name cannot be the name of a folder on every system; a warning where `serve` and `route` give it another meaning (`base`, `auto`, `none`).";
    InvalidDigest = "invalid-digest", Error, "A SHA-256 is not 64 hexadecimal digits.";
    SchemaVersion = "schema-version", Error, "The manifest declares an unknown version of the format, or a version that differs from its keys.";
    Conflict = "conflict", Error, "Two keys that mean the same setting hold different values.";
    NoEffect = "no-effect", Warning, "A key is accepted and has no effect; the message names the value that is used.";
    SwitchedOff = "switched-off", Advice, "A setting belongs to a feature that another setting switches off.";
    InvalidSet = "invalid-set", Error, "An argument of `--set` is not `dotted.path=value`, or names no key of the manifest.";

    PathOutside = "path-outside", Error, "Data, the token cache or a mirror is outside the expert's folder, which a downloaded manifest must not use.";
    PathInvalid = "path-invalid", Error, "A path is not valid on this system.";
    DataMissing = "data-missing", Warning, "A data file is missing; an error under `--strict` and for a command that reads it, such as `plan` and `train` of training and validation data.";
    DataLeftOut = "data-left-out", Advice, "A folder or pattern of data includes files that look like data and are not read.";
    DataPointer = "data-pointer", Warning, "A data file is a Git LFS pointer; an error under `--strict` and for a command that reads it, such as `plan` and `train` of training and validation data.";
    DataSample = "data-sample", Warning, "Validation or test data is the sample that `init` wrote, and the training rows are others.";
    DataEmpty = "data-empty", Warning, "A data file is empty; an error under `--strict` and for a command that reads it, such as `plan` and `train` of training and validation data.";
    BaseMissing = "base-missing", Warning, "A base model's folder is missing; an error under `--strict`, for `plan` and for `train`.";
    DataFormat = "data-format", Error, "The data file's extension and `format` disagree, or neither names a format.";

    PrecisionConflict = "precision-conflict", Error, "`fp16` and `bf16` are both set.";
    Fp16OnCpu = "fp16-on-cpu", Advice, "fp16 is no faster than fp32 on a CPU.";
    SmallInt4 = "small-int4", Advice, "A base below about three billion parameters gains little from int4 and trains slower.";
    PagedWithoutCuda = "paged-without-cuda", Warning, "Paged optimizers page between GPU and host; without CUDA they run as their plain form.";
    WarmupConflict = "warmup-conflict", Error, "`warmup_steps` and `warmup_ratio` are both above 0.";
    WarmupOnly = "warmup-only", Error, "The only step is the first one of the warm-up, whose learning rate is 0: nothing would be learned.";
    WarmupTooLong = "warmup-too-long", Warning, "The warm-up takes all steps, so that the learning rate never reaches its peak.";
    WarmupUnused = "warmup-unused", Warning, "The schedule has no warm-up.";
    StepsOverEpochs = "steps-over-epochs", Warning, "`max_steps` and `epochs` are both set in one place; `max_steps` wins.";
    BestWithoutEvaluation = "best-without-evaluation", Error, "The best checkpoint cannot be chosen without evaluation.";
    UnknownMetric = "unknown-metric", Error, "The metric is not one that evaluation during training measures.";
    MetricDirection = "metric-direction", Warning, "`greater_is_better` is true for a loss, or false for accuracy.";
    EarlyStoppingUnused = "early-stopping-unused", Warning, "Early stopping needs `load_best_model_at_end`.";
    EvaluationWithoutData = "evaluation-without-data", Warning, "Evaluation is set and there is no validation data; nothing is evaluated.";
    ValidationTwice = "validation-twice", Advice, "`validation_split` and `validation_path` are both given; the file is used.";
    ValidationOfSomeTasks = "validation-of-some-tasks", Warning, "A task's `validation_path` turns `validation_split` off, and other tasks have no validation rows.";
    AdapterConflict = "adapter-conflict", Error, "`adapters[]` and `training.config` disagree about the adapter.";
    RankMissing = "rank-missing", Error, "An adapter of the LoRA family lacks its rank or its alpha.";
    RankUnused = "rank-unused", Error, "The adapter's kind has no rank and no alpha.";
    ModuleMissing = "module-missing", Error, "A name in `target_modules` or `feedforward_modules` matches no layer of the base.";
    BaseUnsupported = "base-unsupported", Error, "The base cannot be trained: its architecture has state-space or recurrent layers, or its file is made for inference.";
    StoredQuantization = "stored-quantization", Error, "The base is stored in 4 or 8 bits, and `quantization` names another form; or in one that is not read here (fp8, mxfp4, gptq, awq).";
    BeyondPositions = "beyond-positions", Error, "`max_seq_length` is more than the positions of a base that computes no longer rows.";
    AdapterModules = "adapter-modules", Error, "The module lists do not fit the adapter's kind.";
    MuonWithDora = "muon-with-dora", Error, "Muon works on matrices; DoRA's magnitudes are vectors.";
    LokrOnInt4 = "lokr-on-int4", Error, "LoKr cannot be trained on a base in int4.";
    NotServable = "not-servable", Advice, "Some of the programs in docs/serve.md do not load an adapter of this kind or rank, or on these modules.";
    PromptWithoutTokens = "prompt-without-tokens", Error, "Prompt learning has no `soft_prompts`.";
    SoftPromptsUnused = "soft-prompts-unused", Warning, "Soft prompts are given for a weight adapter and are not trained.";
    SoftPromptText = "soft-prompt-text", Error, "A soft prompt is initialised from a text that is missing.";
    PromptPacking = "prompt-packing", Warning, "Prompt learning cannot use packed rows; packing is off.";
    SharingWithoutPacking = "sharing-without-packing", Warning, "Only packed documents share a beginning; without packing each has a separate row.";
    PackingOverGrouping = "packing-over-grouping", Warning, "Packed rows have one length; there is nothing to group.";
    LoaderWithoutWorkers = "loader-without-workers", Warning, "Prefetching and persistent workers need workers.";
    LoaderUnused = "loader-unused", Advice, "Rows come from the mapped token cache, which needs no loader processes.";
    DistributedUnsupported = "distributed-unsupported", Error, "The processes cannot train this expert together in this way.";
    DistributedUncompiled = "distributed-uncompiled", Warning, "A base that is sharded over processes is not compiled.";
    IdleProcesses = "idle-processes", Error, "There are more processes than rows in a step.";
    TooFewDevices = "too-few-devices", Error, "There are more processes than devices on this machine.";
    LaunchedProcesses = "launched-processes", Error, "A launcher such as torchrun has started another number of processes than the manifest wants.";
    CheckpointingConflict = "checkpointing-conflict", Warning, "`gradient_checkpointing` and `activation_checkpointing` differ.";
    Credentials = "credentials", Error, "A password, key or token is in the manifest.";
    UnknownScorer = "unknown-scorer", Error, "The scorer is neither built in nor written as one that a package offers.";
    ScorerChoice = "scorer-choice", Error, "The scorer's settings name none or several, or not a function of a file.";
    ScorerInstalled = "scorer-installed", Advice, "The scorer comes from an installed package, which only the worker can look up.";
    GrammarFile = "grammar-file", Error, "The file of `grammar_file` is not here, too large, not UTF-8, or neither `.gbnf` nor `.json`.";
    GrammarBroken = "grammar-broken", Error, "The grammar has a mistake, or no answer conforms to it.";
    GrammarMissing = "grammar-missing", Advice, "`use_grammar` names no grammar, or `grammar_type` none that is built in.";
    TestCases = "test-cases", Error, "The scorer runs answers, and questions of `evaluation.test_cases` have no fields for what they are run on.";
    TestSet = "test-set", Error, "A test set of `evaluation.test_sets` has a name that cannot be used or a file that is named elsewhere, or there is no test set beside it.";
    SchedulerOption = "scheduler-option", Error, "The schedule does not have this option, or not with this value.";
    TemplateSource = "template-source", Error, "A `custom` prompt template needs its text, and only a custom one has one.";
    TemplateBroken = "template-broken", Error, "The text of a `custom` prompt template is not valid Jinja.";
    TemplateKwargs = "template-kwargs", Error, "A variable of `chat_template_kwargs` has no name or value that a template could read, or the template does not read it.";
    InitialAdapter = "initial-adapter", Error, "The adapter of `initial_adapter` cannot be trained on: it is of another base, kind, rank or alpha. A warning for commands that train nothing.";
    RopeScaling = "rope-scaling", Error, "The rope scaling lacks a number that its kind needs, or its numbers contradict each other or the base.";
    RopeUnchanged = "rope-unchanged", Warning, "The rope scaling names a kind and no factor; the base's own setting stays.";
    TaskWeights = "task-weights", Error, "The weights of a mixture do not match its tasks.";
    TaskData = "task-data", Error, "`type`, `path` and `tasks` of the dataset do not fit together.";
    FieldConflict = "field-conflict", Error, "`text_field` and `field_mapping` name different fields for the text.";
    UnknownField = "unknown-field", Error, "`field_mapping` names a field that no row is read by.";
    LengthBounds = "length-bounds", Error, "`min_length` is above `max_length`.";
}

impl std::fmt::Display for Code {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(self.as_str())
    }
}
