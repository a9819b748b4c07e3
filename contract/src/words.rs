//! Vocabularies: enums whose variants are words that documents spell out.

/// Implemented by everything that `word!` declares.
pub trait Word: Copy + PartialEq + std::fmt::Debug + 'static {
    /// Every spelling that a document may use, in the order of declaration.
    const WORDS: &'static [&'static str];

    fn word(self) -> &'static str;

    fn from_word(text: &str) -> Option<Self>;
}
