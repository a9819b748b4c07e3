//! Words as a shell takes them.

/// As a shell takes one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    // zsh takes a word that begins with = for the path of a command.
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(plain) {
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
            ["experts/sql", "my expert", "a'b", "", "seed=7", "=ls"].map(quoted),
            ["experts/sql", "'my expert'", "'a'\\''b'", "''", "seed=7", "'=ls'"]
        );
    }
}
