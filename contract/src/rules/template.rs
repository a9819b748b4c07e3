//! A custom template needs its text; the others have theirs.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{BaseModel, Manifest};
use crate::plan::TemplateKind;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    for base in &manifest.bases {
        let sources = [&base.template_source, &base.template_path];
        let given: Vec<_> = sources.into_iter().filter(|source| source.is_some()).collect();
        let broken = base.template_source.is_broken() || base.template_path.is_broken();
        match (*base.prompt_template, given.as_slice()) {
            (TemplateKind::Custom, []) if !broken => without_text(base, problems),
            (TemplateKind::Custom, [_, second]) => {
                let message = "`template_source` and `template_path` are both given";
                problems
                    .push(Problem::new(Code::TemplateSource, second.span, message).hint("keep one of them"));
            }
            (TemplateKind::Custom, _) | (_, []) => {}
            (kind, [first, ..]) => {
                let message = format!("`prompt_template` is `{kind}`, which has its own text");
                let problem = Problem::new(Code::TemplateSource, first.span, message);
                problems.push(problem.hint("set `prompt_template` to `custom`, or remove this"));
            }
        }
    }
}

fn without_text(base: &BaseModel, problems: &mut Problems) {
    let problem = Problem::new(
        Code::TemplateSource,
        base.prompt_template.span,
        "a `custom` prompt template needs its text",
    );
    problems.push(problem.hint("add `template_source` with the Jinja text, or `template_path` with a file"));
}
