//! `manifest.json`: its text, its tree with positions, its typed form, and one base model's view of it.

mod base;
mod base_name;
pub(crate) mod bytes;
pub(crate) mod check;
mod config;
mod dataset;
mod document;
pub(crate) mod effective;
pub mod json;
mod model;
mod places;
mod rivals;
mod root;
mod routing;
mod scorer;
pub(crate) mod section;
pub(crate) mod sets;
pub(crate) mod setting;
mod template_kwargs;
mod test_sets;
mod vocabulary;

pub use base::{AdapterEntry, BaseModel, Decoding, GrammarChoice, RopeScaling, SoftPrompt};
pub use base_name::{EMBEDDED, is_embedded, is_hub_id, is_path, may_mean, model_slug};
pub use bytes::{FileKind, MAX_BYTES, is_lfs_pointer};
pub use config::{CheckpointMirror, CheckpointingOptions, Config, Distributed};
pub use dataset::{Dataset, RowChecks, Task, Tasks, Weights};
pub use document::Document;
pub use effective::Effective;
pub use model::{Bases, MAX_BASES, Manifest, Options, OtherBase};
pub use root::{Evaluation, ROOT, Root, TEST_CASE, TestCase, TestCases, Training};
pub use routing::{ROUTING, Routing};
pub use scorer::{CLASSIFICATION, Classification, Function, JUDGE, Judge, SCORER, Scorer, ScorerChoice};
pub use section::Shown;
pub use sets::{PRESET, Set};
pub use setting::{Decode, Origin, Setting};
pub use template_kwargs::{TemplateKwargs, TemplateVariable};
pub use test_sets::{NamedTestSet, TestSets};
pub use vocabulary::{
    Accumulation, ActivationCheckpointing, CompileMode, DatasetType, Deduplicate, GradientCheckpointing,
    Limit, Modules, RopeWord, Together, Trackers,
};
