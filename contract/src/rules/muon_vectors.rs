//! Muon orthogonalises matrices; some adapters have vectors too, such as the magnitudes of DoRA.

use super::problems::{Problems, place};
use crate::adapters::Trained;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::OptimizerName;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let has_vectors = config.adapter_type.traits().trained == Trained::Vectors;
    if *config.optim == OptimizerName::Muon && has_vectors {
        let message = format!(
            "muon trains matrices only, and an adapter of type `{}` has vectors",
            *config.adapter_type
        );
        let problem = Problem::new(Code::MuonWithDora, place(&config.optim, effective), message);
        problems.push(problem.hint("use `adamw_torch_fused`, or `lora` with muon"));
    }
}
