//! The built-in templates, as Jinja texts beside this file.

/// Name and text of every built-in template.
pub const BUILTIN: [(&str, &str); 9] = [
    ("alpaca", include_str!("texts/alpaca.jinja")),
    ("chatml", include_str!("texts/chatml.jinja")),
    ("deepseek", include_str!("texts/deepseek.jinja")),
    ("gemma", include_str!("texts/gemma.jinja")),
    ("llama", include_str!("texts/llama.jinja")),
    ("mistral", include_str!("texts/mistral.jinja")),
    ("phi", include_str!("texts/phi.jinja")),
    ("qwen3", include_str!("texts/qwen3.jinja")),
    ("vicuna", include_str!("texts/vicuna.jinja")),
];

pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
