//! Soft prompts are for prompt learning only.

use super::problems::{Problems, place};
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Effective, Manifest};
use crate::plan::SoftPromptInit;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    for prompt in manifest.root.soft_prompts.iter() {
        let text = prompt.init_text.as_deref().unwrap_or_default();
        if *prompt.init_method == SoftPromptInit::Text && text.trim().is_empty() {
            let message = "`init_method` is `text`, and `init_text` names none";
            let problem = Problem::new(Code::SoftPromptText, prompt.init_method.span, message);
            problems.push(problem.hint("add `init_text`, or start from `random` or `vocab_sample`"));
        }
        if *prompt.init_method != SoftPromptInit::Text && prompt.init_text.is_some() {
            let message = format!("`init_text` has no effect: `init_method` is `{}`", *prompt.init_method);
            let problem = Problem::new(Code::NoEffect, prompt.init_text.key, message);
            problems.push(problem.hint("set `init_method` to `text`"));
        }
    }
}

pub fn check_base(effective: &Effective<'_>, problems: &mut Problems) {
    let prompts = &effective.manifest.root.soft_prompts;
    let kind = *effective.config.adapter_type;
    if kind.is_soft_prompt() && prompts.is_empty() && !prompts.is_broken() {
        let span = place(&effective.config.adapter_type, effective);
        let problem = Problem::new(
            Code::PromptWithoutTokens,
            span,
            "`prompt` learns `soft_prompts`, and there are none",
        );
        problems.push(problem.hint("add \"soft_prompts\": [{\"name\": \"style\", \"tokens\": 32}]"));
    }
    if !kind.is_soft_prompt() && !prompts.is_empty() {
        let message = format!(
            "`soft_prompts` have no effect: the adapter type is `{kind}`, which has no virtual tokens"
        );
        let problem = Problem::new(Code::SoftPromptsUnused, prompts.key, message);
        problems.push(problem.hint("they are trained with `adapter_type: prompt`"));
    }
}
