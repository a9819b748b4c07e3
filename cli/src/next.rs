//! The command that a person most likely wants next, as it can be typed.

use crate::args::PlanOptions;
use crate::sys::paths::portable;

/// `expert-cli VERB EXPERT`, with the base and output that the last command was given.
pub fn command(verb: &str, options: &PlanOptions, more: &str) -> String {
    let mut words = vec!["expert-cli".to_owned(), verb.to_owned()];
    let named = options.manifest.as_ref().or(options.expert.as_ref());
    words.extend(named.map(|path| quoted(&portable(path))));
    words.extend(options.model.iter().flat_map(|model| ["--model".to_owned(), quoted(model)]));
    words.extend(options.output.iter().flat_map(|path| ["-o".to_owned(), quoted(&portable(path))]));
    words.extend((!more.is_empty()).then(|| more.to_owned()));
    words.join(" ")
}

/// As a shell takes one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(
            ["experts/sql", "my expert", "a'b", ""].map(quoted),
            ["experts/sql", "'my expert'", "'a'\\''b'", "''"]
        );
    }
}
