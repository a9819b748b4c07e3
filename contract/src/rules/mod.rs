//! Rules across several keys: one file per rule, each a function that reports its findings.

mod adapter_conflict;
mod base_names;
mod best_checkpoint;
mod checkpointing;
mod credentials;
mod data_format;
mod device;
mod digests;
mod distributed;
mod duration;
mod early_stopping;
mod evaluation_data;
mod field_mapping;
mod generation;
mod grammar;
mod initial_adapter;
mod int4_adapters;
mod length_bounds;
mod loader;
mod modules;
mod muon_vectors;
mod name;
mod packing;
mod precision;
mod problems;
mod quantization;
mod rank;
mod rope;
mod scheduler;
mod scorer;
mod servable;
mod soft_prompts;
mod switched_off;
mod tasks;
mod template;
mod template_kwargs;
mod test_cases;
mod test_sets;
mod text_field;
mod validation_split;
mod warmup;

pub use device::MachineFacts;
pub use field_mapping::{FIELDS, OPTIONAL_FIELDS};
pub use grammar::read as read_grammar;
pub use name::{TAKEN as TAKEN_NAMES, unusable as unusable_name};
pub use scorer::plain_label;
pub use test_cases::{are_missing as test_cases_are_missing, read as read_test_cases};

use problems::Problems;

use crate::manifest::{Effective, Manifest};

/// Rules about the manifest as a whole.
const MANIFEST_RULES: &[fn(&Manifest, &mut Problems)] = &[
    name::check,
    generation::check,
    base_names::check,
    adapter_conflict::at_root,
    digests::check,
    data_format::check,
    tasks::check,
    validation_split::check,
    text_field::check,
    field_mapping::check,
    length_bounds::check,
    template::check,
    template_kwargs::check,
    rope::check,
    soft_prompts::check,
    scorer::check,
    grammar::check,
    test_cases::check,
    test_sets::check,
];

/// Rules about what trains one base.
const BASE_RULES: &[fn(&Effective<'_>, &mut Problems)] = &[
    precision::check,
    warmup::check,
    duration::check,
    best_checkpoint::check,
    early_stopping::check,
    evaluation_data::check,
    adapter_conflict::check,
    rank::check,
    modules::check,
    muon_vectors::check,
    int4_adapters::check,
    servable::check,
    soft_prompts::check_base,
    initial_adapter::check,
    packing::check,
    loader::check,
    distributed::check,
    checkpointing::check,
    scheduler::check,
    quantization::check,
    switched_off::check,
    credentials::check,
];

/// Rules of the manifest that do not need the machine.
pub fn check(manifest: &Manifest, problems: &mut Problems) {
    for rule in MANIFEST_RULES {
        rule(manifest, problems);
    }
}

/// Rules of one base that do not need the machine.
pub fn check_base(effective: &Effective<'_>, problems: &mut Problems) {
    for rule in BASE_RULES {
        rule(effective, problems);
    }
}

/// Rules that depend on the machine that one base is trained on.
pub fn check_machine(effective: &Effective<'_>, facts: MachineFacts) -> Problems {
    let mut problems = Vec::new();
    device::check(effective, facts, &mut problems);
    problems
}
