//! "Did you mean": the most similar valid word; and several words in a sentence.

/// The candidate that a person most likely meant, if any is near enough to say so.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = fold(word);
    if given.is_empty() || given.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (distance(&given, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= allowed(given.len().min(candidate.chars().count())))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// The hint for a word outside a short list: the nearest one, or the whole list.
pub fn one_of(word: &str, candidates: &[&str]) -> String {
    did_you_mean(word, candidates.iter().copied()).unwrap_or_else(|| {
        let listed: Vec<_> = candidates.iter().map(|candidate| format!("`{candidate}`")).collect();
        format!("use one of {}", listed.join(", "))
    })
}

/// `a, b and c`.
pub fn listed(words: &[&str]) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

fn allowed(length: usize) -> usize {
    match length {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    }
}

/// Case and separators are the most common mistakes.
fn fold(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).flat_map(char::to_lowercase).collect()
}

/// Damerau-Levenshtein with adjacent swaps: insert, delete, replace and swap cost one each.
fn distance(left: &[char], right: &[char]) -> usize {
    let width = right.len() + 1;
    let mut before: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, l) in left.iter().enumerate() {
        let mut now = vec![row + 1; width];
        for (column, r) in right.iter().enumerate() {
            let change = last[column] + usize::from(l != r);
            now[column + 1] = change.min(last[column + 1] + 1).min(now[column] + 1);
            let swapped = row > 0 && column > 0 && *l == right[column - 1] && left[row - 1] == *r;
            if swapped {
                now[column + 1] = now[column + 1].min(before[column - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, now);
    }
    last[width - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 4] = ["batch_size", "learning_rate", "rank", "bf16"];

    #[test]
    fn slips_of_the_pen_are_found() {
        for (slip, meant) in [
            ("batchSize", "batch_size"),
            ("learning-rate", "learning_rate"),
            ("rnak", "rank"),
            ("lerning_rate", "learning_rate"),
        ] {
            assert_eq!(closest(slip, KEYS), Some(meant), "{slip}");
        }
    }

    #[test]
    fn other_words_are_left_alone() {
        for word in ["temperature", "", "r", "fp8", "rooms"] {
            assert_eq!(closest(word, KEYS), None, "{word}");
        }
    }

    #[test]
    fn the_whole_list_is_offered_where_nothing_is_near() {
        assert_eq!(one_of("xyz", &["no", "steps"]), "use one of `no`, `steps`");
        assert_eq!(one_of("step", &["no", "steps"]), "did you mean `steps`?");
    }

    #[test]
    fn words_in_a_sentence() {
        for (words, sentence) in
            [(&[][..], ""), (&["a"], "a"), (&["a", "b"], "a and b"), (&["a", "b", "c"], "a, b and c")]
        {
            assert_eq!(listed(words), sentence);
        }
    }
}
