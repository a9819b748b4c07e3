//! A custom template needs its text, which must be Jinja; the others have theirs.

use minijinja::Environment;

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{BaseModel, Manifest};
use crate::paths::{data_path, read_text};
use crate::plan::TemplateKind;
use crate::source::Span;

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
            (TemplateKind::Custom, [_]) => parses(base, manifest, problems),
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

fn parses(base: &BaseModel, manifest: &Manifest, problems: &mut Problems) {
    let Some((text, span)) = text_of(base, manifest) else { return };
    let Some(reason) = syntax_error(&text) else { return };
    let problem =
        Problem::new(Code::TemplateBroken, span, format!("the template is not valid Jinja: {reason}"));
    problems.push(problem.hint("correct it, or choose a built-in `prompt_template`"));
}

/// The text of a custom template, and where it is named. The path check says whether the file is there.
fn text_of(base: &BaseModel, manifest: &Manifest) -> Option<(String, Span)> {
    match (&*base.template_source, &*base.template_path) {
        (Some(text), _) => Some((text.clone(), base.template_source.span)),
        (None, Some(path)) => {
            let text = read_text(&data_path(path, &manifest.folder)).ok()?;
            Some((text, base.template_path.span))
        }
        (None, None) => None,
    }
}

/// As the worker reads it; `{% generation %}` is transformers' own block.
fn syntax_error(text: &str) -> Option<String> {
    let mut environment = Environment::new();
    let error = environment.add_template_owned("template", without_generation(text)).err()?;
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    Some(error.line().map_or_else(|| detail.clone(), |line| format!("line {line}: {detail}")))
}

fn without_generation(text: &str) -> String {
    let mut parts = text.split("{%");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (tag, rest) = part.split_once("%}").map_or((part, None), |(tag, rest)| (tag, Some(rest)));
        let word = tag.trim_matches(['-', '+']).trim();
        let tag = match word {
            "generation" => tag.replace(word, "with"),
            "endgeneration" => tag.replace(word, "endwith"),
            _ => tag.to_owned(),
        };
        plain.push_str("{%");
        plain.push_str(&tag);
        plain.extend(rest.map(|rest| format!("%}}{rest}")));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::syntax_error;

    #[test]
    fn templates_of_the_hub_parse_and_broken_ones_name_their_line() {
        for text in [
            "{%- for m in messages -%}{{ m['content'].strip() | trim }}{%- if loop.last %}{% break %}{% endif %}{% endfor %}",
            "{% for m in messages %}{%- generation -%}{{ m.content }}{% endgeneration %}{% endfor %}",
            "{{ raise_exception('no system') }}{{ strftime_now('%d') }}{{ tools | tojson(indent=4) }}",
            "{% macro f(x, y=none) %}{{ x }}{% endmacro %}{% set ns = namespace(a=1) %}{{ ns.a ~ f(1) }}",
        ] {
            assert_eq!(syntax_error(text), None, "{text}");
        }
        let found = syntax_error("{% for m in messages %}\n{{ m.content }").unwrap();
        assert!(found.starts_with("line 2: "), "{found}");
        assert!(syntax_error("{% for m in messages %}").is_some());
        assert!(syntax_error("{% generation %}").is_some());
    }
}
