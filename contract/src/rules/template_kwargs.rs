//! Variables of a chat template have names and values that Jinja reads, and a built-in template reads them. Of others the
//! worker knows, which takes their code apart.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{BaseModel, Manifest, TemplateVariable};
use crate::plan::{TemplateKind, TemplateValue};

/// What every template is given with each row: only the row decides them.
const OF_ROWS: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];
const WORDS_OF_JINJA: [&str; 14] =
    ["true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else", "loop"];
/// Of the built-in templates, the one that reads a variable, and the variable.
const BUILT_IN: (TemplateKind, &str) = (TemplateKind::Qwen3, "enable_thinking");
const LONGEST: usize = 1000;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    for base in &manifest.bases {
        for variable in &base.chat_template_kwargs.0 {
            let found = bad_name(variable).or_else(|| bad_value(variable));
            if let Some(problem) = found.or_else(|| unread(variable, base)) {
                problems.push(problem);
            }
        }
    }
}

fn bad_name(variable: &TemplateVariable) -> Option<Problem> {
    let name = variable.name.as_str();
    let problem = |message: String, hint: &str| {
        Some(Problem::new(Code::TemplateKwargs, variable.key, message).hint(hint.to_owned()))
    };
    if OF_ROWS.contains(&name) {
        return problem(format!("`{name}` comes from each row"), "remove it");
    }
    if name.ends_with("_token") {
        return problem(format!("`{name}` comes from the base's tokenizer"), "remove it");
    }
    let mut characters = name.chars();
    let is_name = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !WORDS_OF_JINJA.contains(&name);
    if is_name {
        return None;
    }
    problem(
        format!("`{name}` is not a name that a variable can have in Jinja"),
        "a name has letters, digits and `_`, and does not begin with a digit, such as `enable_thinking`",
    )
}

/// The value becomes a part of the template's text, where brackets would be read as Jinja.
fn bad_value(variable: &TemplateVariable) -> Option<Problem> {
    let TemplateValue::Text(text) = &variable.value else { return None };
    let reason = if text.len() > LONGEST {
        format!("is longer than {LONGEST} bytes")
    } else if text.contains(['{', '}']) || text.chars().any(char::is_control) {
        "has curly brackets or control characters".to_owned()
    } else {
        return None;
    };
    let problem = Problem::new(
        Code::TemplateKwargs,
        variable.span,
        format!("the value of `{}` {reason}", variable.name),
    );
    Some(problem.hint("write such a text into the template itself (`prompt_template` `custom`)"))
}

fn unread(variable: &TemplateVariable, base: &BaseModel) -> Option<Problem> {
    let name = variable.name.as_str();
    let kind = *base.prompt_template;
    let is_read = match kind {
        TemplateKind::Tokenizer | TemplateKind::Custom => true,
        kind => (kind, name) == BUILT_IN,
    };
    if is_read {
        return None;
    }
    let message = format!("the template `{kind}` does not read `{name}`, so it would have no effect");
    Some(
        Problem::new(Code::TemplateKwargs, variable.key, message)
            .hint("remove it, or choose a template that reads it"),
    )
}
