//! `base_models[]`, `base_model` of version 1.0, and the objects inside them.

use super::config::{CONFIG, Config};
use super::section::section;
use super::setting::Setting;
use super::template_kwargs::TemplateKwargs;
use super::vocabulary::{Modules, RopeWord};
use crate::ledger::{COUNT, Class, FRACTION, Kind, NOT_NEGATIVE, POSITIVE, Range, TEXTS, Unknown};
use crate::plan::{AdapterKind, GrammarKind, Quantization, SoftPromptInit, TemplateKind};

const TEXT_OR_NULL: Kind = Kind::OneOf(&[Kind::Text, Kind::Null]);
const POSITIVE_OR_NULL: Kind = Kind::OneOf(&[POSITIVE, Kind::Null]);
const COUNT_OR_NULL: Kind = Kind::OneOf(&[COUNT, Kind::Null]);
/// A variable of a chat template.
const VARIABLE: Kind =
    Kind::OneOf(&[Kind::Bool, Kind::Integer { min: -1_000_000, max: 1_000_000 }, Kind::Text]);
const FACTOR: Kind = Kind::Number(Range { min: 1.0, max: 1024.0, min_included: true, max_included: true });
const FACTORS: Kind = Kind::OneOf(&[Kind::List(&POSITIVE), Kind::Null]);

section! {
    /// A base model that the expert is trained for; a plain text is its name.
    BaseModel = BASE_MODEL at "base_models[]" {
        required: &["name"],
        text_key: Some("name"),
    }
    honoured {
        name ["name"]: String = String::new(), Kind::Text,
            "A Hub id, a folder, or the embedded base's name (`SmolLM2-135M-Instruct`).";
        sha256 ["sha256"]: Option<String> = None, TEXT_OR_NULL,
            "Digest that the base's weights must have; empty or null accepts any.";
        quantization ["quantization"]: Quantization = Quantization::None, Kind::OneOf(&[Kind::Word(Quantization::WORDS), Kind::Null]),
            "Form in which the frozen base is held in memory. A base that bitsandbytes stored in 4 or 8 bits needs that one; bases in fp8, mxfp4, gptq or awq are refused. With `fp16` or `bf16` the run computes in it, too, whatever `fp16`, `bf16` or `--mixed-precision` say.";
        rope_scaling ["rope_scaling"]: Option<RopeScaling> = None, Kind::OneOf(&[Kind::Object(&ROPE_SCALING), Kind::Null]),
            "How positions beyond the base's own length are mapped; a plain text is its type.";
        prompt_template ["prompt_template"]: TemplateKind = TemplateKind::Tokenizer, Kind::OneOf(&[Kind::Word(TemplateKind::WORDS), Kind::Null]),
            "How messages become text, in training and in evaluation alike; `tokenizer` is the base's own template.";
        template_source ["template_source"]: Option<String> = None, TEXT_OR_NULL, "The Jinja text of a `custom` prompt template.";
        template_path ["template_path"]: Option<String> = None, TEXT_OR_NULL,
            "A file in the expert's folder with the Jinja text of a `custom` prompt template.";
        chat_template_kwargs ["chat_template_kwargs"]: TemplateKwargs = TemplateKwargs::default(), Kind::OneOf(&[Kind::Map(&VARIABLE), Kind::Null]),
            "Variables that the template reads, such as `{\"enable_thinking\": true}`, in training, in `evaluate` and in everything that is exported.";
        adapters ["adapters"]: Vec<AdapterEntry> = Vec::new(), Kind::List(&Kind::Object(&ADAPTER)),
            "A description of the adapter; used for keys that `training.config` leaves out.";
        overrides ["overrides"]: Config = Config::default(), Kind::Object(&CONFIG),
            "Keys of `training.config` that hold for this base only.";
    }
    kept {}
}

section! {
    /// An adapter as it is shipped; the first one describes the adapter that is trained.
    AdapterEntry = ADAPTER at "base_models[].adapters[]" {}
    honoured {
        kind ["type"]: Option<AdapterKind> = None, Kind::OneOf(&[Kind::Word(AdapterKind::WORDS), Kind::Null]), "As `training.config.adapter_type`.";
        target_modules ["target_modules"]: Modules = Modules::default(),
            Kind::OneOf(&[TEXTS, Kind::Word(&[Modules::ALL_LINEAR])]), "As `training.config.target_modules`.";
        feedforward_modules ["feedforward_modules"]: Vec<String> = Vec::new(), TEXTS, "As `training.config.feedforward_modules`.";
        rank ["r", "rank"]: Option<u32> = None, Kind::OneOf(&[Kind::Integer { min: 1, max: 4_096 }, Kind::Null]), "As `training.config.rank`.";
        alpha ["alpha", "lora_alpha"]: Option<f64> = None, POSITIVE_OR_NULL, "As `training.config.alpha`.";
        dropout ["dropout"]: f64 = 0.0, FRACTION, "As `training.config.dropout`.";
        use_dora ["use_dora"]: bool = false, Kind::Bool, "With type `lora`: the same as type `dora`.";
    }
    kept {
        ["path"]: Kind::Any, Class::Metadata, "Where the adapter is shipped.";
        ["scaling"]: Kind::Any, Class::Metadata, "How a runtime names the adapter's scaling.";
        ["size_bytes"]: Kind::Any, Class::Metadata, "Size of the shipped adapter.";
        ["sha256"]: Kind::Any, Class::Metadata, "Digest of the shipped adapter.";
        ["checkpoint_step"]: Kind::Any, Class::Metadata, "The checkpoint that was shipped.";
    }
}

section! {
    /// How positions beyond the base's own length are mapped.
    RopeScaling = ROPE_SCALING at "base_models[].rope_scaling" {
        required: &["type"],
        text_key: Some("type"),
    }
    honoured {
        kind ["type", "rope_type"]: RopeWord = RopeWord::Default, Kind::Word(RopeWord::WORDS),
            "The kind; `ntk-by-parts` is YaRN with `attention_factor` 1, `none` and `default` keep the base's own.";
        factor ["factor"]: Option<f64> = None, Kind::OneOf(&[FACTOR, Kind::Null]), "The factor by which the length grows.";
        max_position_embeddings ["max_position_embeddings"]: Option<u64> = None, COUNT_OR_NULL, "The length that results.";
        original_max_position_embeddings ["original_max_position_embeddings"]: Option<u64> = None, COUNT_OR_NULL, "The length that `factor` counts from: by default the base's own, before a scaling that it has itself.";
        attention_factor ["attention_factor"]: Option<f64> = None, POSITIVE_OR_NULL, "Scale of the attention scores (yarn, longrope).";
        beta_fast ["beta_fast"]: Option<f64> = None, POSITIVE_OR_NULL, "Rotations above which a dimension is left alone (yarn).";
        beta_slow ["beta_slow"]: Option<f64> = None, POSITIVE_OR_NULL, "Rotations below which a dimension is interpolated (yarn).";
        low_freq_factor ["low_freq_factor"]: Option<f64> = None, POSITIVE_OR_NULL, "Lower bound of the blended band (llama3).";
        high_freq_factor ["high_freq_factor"]: Option<f64> = None, POSITIVE_OR_NULL, "Upper bound of the blended band (llama3).";
        short_factor ["short_factor"]: Option<Vec<f64>> = None, FACTORS, "Factors by dimension for short texts (longrope).";
        long_factor ["long_factor"]: Option<Vec<f64>> = None, FACTORS, "Factors by dimension for long texts (longrope).";
    }
    kept {
        ["fine_grained"]: Kind::Any, Class::Metadata, "A runtime's note on its own implementation.";
    }
}

section! {
    /// Virtual tokens that are trained in front of every prompt, for `adapter_type: prompt`.
    SoftPrompt = SOFT_PROMPT at "soft_prompts[]" {
        unknown: Unknown::Keep,
        required: &["tokens"],
    }
    honoured {
        name ["name"]: Option<String> = None, TEXT_OR_NULL, "The soft prompt's name.";
        tokens ["tokens", "length"]: u32 = 0, Kind::Integer { min: 1, max: 4_096 }, "How many virtual tokens it has.";
        init_method ["init_method"]: SoftPromptInit = SoftPromptInit::Random, Kind::Word(SoftPromptInit::WORDS), "What they start from.";
        init_text ["init_text"]: Option<String> = None, TEXT_OR_NULL, "The text that they are initialised from, for `init_method: text`.";
    }
    kept {
        ["path"]: Kind::Any, Class::Metadata, "Where the soft prompt is shipped.";
        ["purpose"]: Kind::Any, Class::Metadata, "What it is for.";
        ["description"]: Kind::Any, Class::Metadata, "What it is for.";
        ["size_bytes"]: Kind::Any, Class::Metadata, "Size of the shipped soft prompt.";
        ["sha256"]: Kind::Any, Class::Metadata, "Digest of the shipped soft prompt.";
    }
}

section! {
    /// How answers are generated by `generate` and `evaluate`.
    Decoding = DECODING at "training.decoding" {
        unknown: Unknown::Keep,
    }
    honoured {
        temperature ["temperature"]: f64 = 0.0, NOT_NEGATIVE, "0 always takes the likeliest token; `evaluate --samples` then samples at 0.8, and a request to `serve` may set its own.";
        top_p ["top_p"]: f64 = 1.0, Kind::Number(Range { min: 0.0, max: 1.0, min_included: false, max_included: true }),
            "Sample among the likeliest tokens with this total probability. Not used at temperature 0.";
        top_k ["top_k"]: u32 = 0, Kind::Integer { min: 0, max: 1_000_000 }, "Sample among this many of the likeliest tokens; 0 among all. Not used at temperature 0.";
        min_p ["min_p"]: f64 = 0.0, crate::ledger::SHARE, "Exclude tokens below this share of the likeliest token's probability. Not used at temperature 0.";
        stop_sequences ["stop_sequences"]: Vec<String> = Vec::new(), TEXTS, "Texts that end an answer.";
        max_new_tokens ["max_new_tokens", "max_tokens"]: u32 = 512, Kind::Integer { min: 1, max: 1_048_576 },
            "Maximum tokens of an answer, in `generate`, `serve` and exports, and where answers are scored unless `evaluation.max_new_tokens` says otherwise.";
        grammar_file ["grammar_file"]: Option<String> = None, TEXT_OR_NULL,
            "A file of the expert's folder that constrains every answer of `generate`, `evaluate` and `serve`: a grammar in GBNF (`.gbnf`) or a JSON Schema (`.json`).";
        grammar_type ["grammar_type"]: Option<String> = None, TEXT_OR_NULL,
            "A built-in grammar instead of a file: `json` (any JSON value), `sql` or `cypher` (one query with the names of the schema in the prompt).";
        use_grammar ["use_grammar"]: Option<bool> = None, Kind::OneOf(&[Kind::Bool, Kind::Null]),
            "Whether answers are constrained; by default, where `grammar_file` or `grammar_type` is given.";
    }
    kept {
        ["validation_cmd"]: Kind::Any, Class::Advice {
            reason: "no manifest may name a program to run",
            instead: "choose one of the built-in scorers with `evaluation.scorer`",
        }, "A program that checks answers.";
        ["validation"]: Kind::Any, Class::Metadata, "How a runtime checks answers.";
    }
}

/// What the manifest says about the form of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrammarChoice<'a> {
    Free,
    /// Any JSON value.
    Json,
    /// One query, with the names of the schema in the prompt.
    Query(GrammarKind),
    File(&'a str),
    /// `use_grammar` without a grammar, or a `grammar_type` that is not built in.
    Missing,
}

impl Decoding {
    pub fn grammar(&self) -> GrammarChoice<'_> {
        match (*self.use_grammar, self.grammar_file.as_deref(), self.grammar_type.as_deref()) {
            (Some(false), ..) | (None, None, None) => GrammarChoice::Free,
            (_, Some(file), _) => GrammarChoice::File(file),
            (_, None, Some("json")) => GrammarChoice::Json,
            (_, None, Some("sql")) => GrammarChoice::Query(GrammarKind::Sql),
            (_, None, Some("cypher")) => GrammarChoice::Query(GrammarKind::Cypher),
            (_, None, _) => GrammarChoice::Missing,
        }
    }
}

impl AdapterEntry {
    /// The kind that the entry describes; `use_dora` turns LoRA into DoRA.
    pub fn described_kind(&self) -> Setting<Option<AdapterKind>> {
        let with_dora = self.kind.unwrap_or(AdapterKind::Lora).traits().with_dora;
        if *self.use_dora && with_dora.is_some() && with_dora != *self.kind {
            return self.use_dora.clone().map(|_| with_dora);
        }
        self.kind.clone()
    }
}

impl RopeScaling {
    /// Whether only a kind was written, as a plain string, without a factor.
    pub fn is_word(&self) -> bool {
        self.kind.is_given() && self.kind.span == self.kind.key
    }
}
