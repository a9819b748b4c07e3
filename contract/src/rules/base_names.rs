//! Each base has a name, and its own folder for runs.

use std::collections::HashMap;

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Manifest, model_slug};

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let mut slugs = HashMap::new();
    for base in &manifest.bases {
        if !base.name.is_given() {
            continue;
        }
        if base.name.trim().is_empty() {
            let problem = Problem::new(Code::EmptyValue, base.name.span, "the base model's name is empty");
            problems.push(
                problem.hint("name a folder, a Hub id such as Qwen/Qwen3-0.6B, or SmolLM2-135M-Instruct"),
            );
        } else if let Some(other) = slugs.insert(model_slug(&base.name), &base.name) {
            let message =
                format!("`{}` and `{}` would share the folder `{}`", **other, *base.name, model_slug(other));
            let problem = Problem::new(Code::Conflict, base.name.span, message);
            problems.push(problem.hint(if other.eq_ignore_ascii_case(&base.name) {
                "name each base model once"
            } else {
                "rename the folder of one, or keep them in two experts"
            }));
        }
    }
}
