//! Text broken between words, in the columns that a terminal has.

/// `first` columns are taken before the text; further lines begin below the `indent`th. `columns`: none where lines keep
/// their length. A word that is longer than a line has a separate line. `width` counts the columns of a word.
pub fn wrapped(
    text: &str,
    first: usize,
    indent: usize,
    columns: Option<usize>,
    width: impl Fn(&str) -> usize,
) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let end = columns.max(indent + LEAST_ROOM);
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        let lead = line.len() - line.trim_start_matches(' ').len();
        let (lead, words) = line.split_at(lead);
        let (mut at, below) = if number == 0 { (first, indent) } else { (0, indent.max(lead.len())) };
        if number > 0 {
            out.push('\n');
        }
        out.push_str(lead);
        at += lead.len();
        for (place, word) in words.split(' ').enumerate() {
            let needed = width(word);
            if place > 0 && at + 1 + needed > end {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', below));
                at = below;
            } else if place > 0 {
                out.push(' ');
                at += 1;
            }
            out.push_str(word);
            at += needed;
        }
    }
    out
}

/// Below this, breaking lines makes them harder to read.
const LEAST_ROOM: usize = 16;

#[cfg(test)]
mod tests {
    use super::wrapped;

    fn plain(text: &str, first: usize, indent: usize, columns: usize) -> String {
        wrapped(text, first, indent, Some(columns), |word| word.chars().count())
    }

    #[test]
    fn lines_break_between_words_below_the_text() {
        assert_eq!(plain("one two three four", 4, 4, 20), "one two three\n    four");
        assert_eq!(plain("one two three four", 9, 4, 20), "one two\n    three four");
        assert_eq!(
            plain("a /a/path/longer/than/the/line b", 2, 2, 18),
            "a\n  /a/path/longer/than/the/line\n  b"
        );
        assert_eq!(wrapped("one  two", 90, 4, None, str::len), "one  two");
    }

    #[test]
    fn lines_of_a_list_keep_their_place() {
        assert_eq!(
            plain("two files:\n  one\n  two is long and longer", 0, 2, 18),
            "two files:\n  one\n  two is long and\n  longer"
        );
    }
}
