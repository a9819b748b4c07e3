//! Test files that plainly hold no rows: a queue scores after hours of training, which is late to find that out.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use expert_contract::paths::{format_of_ending, packed_ending};
use expert_contract::plan::DataFormat;
use expert_contract::resolve::Resolved;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

use crate::failure::Failure;

/// A first row that is longer is left to the worker.
const READ: u64 = 1 << 20;
const EMPTY: &str = "it is empty";

/// The first of the test files that is broken. `otherwise`: what can be done but to correct it.
pub fn refuse_broken(resolved: &Resolved, otherwise: &str) -> Option<Failure> {
    let places = &resolved.machine.paths.data;
    let main = resolved.recipe.data.test.iter().filter_map(|source| places.get_key_value(&source.name));
    let sets = resolved.test_sets.values().map(|set| set.files.iter().collect());
    let mut sets = std::iter::once(main.collect()).chain(sets);
    sets.find_map(|files: Vec<_>| {
        files.iter().find_map(|(name, path)| {
            // Of several files some may be empty.
            let reason = broken(Path::new(path)).filter(|it| it != EMPTY || files.len() == 1)?;
            let message = format!("the test file {name} has no row to score: {reason}");
            Some(Failure::bad_input("bad-row", message).hint(format!("correct the file, or {otherwise}")))
        })
    })
}

/// Why the file's first row cannot be read; None also where that is left to the worker.
fn broken(path: &Path) -> Option<String> {
    let name = path.to_string_lossy();
    let is_json = matches!(format_of_ending(&name), Some(DataFormat::Jsonl | DataFormat::Json));
    if !is_json || packed_ending(&name).is_some() {
        return None;
    }
    let mut head = Vec::new();
    File::open(path).ok()?.take(READ).read_to_end(&mut head).ok()?;
    let is_whole = (head.len() as u64) < READ;
    // Other encodings have bytes of 0 or are not UTF-8.
    let text = match str::from_utf8(&head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => str::from_utf8(&head[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.contains('\0') {
        return None;
    }
    if text.is_empty() {
        return is_whole.then(|| EMPTY.to_owned());
    }
    if !text.starts_with(['{', '[']) {
        return Some("it does not begin with an object".to_owned());
    }
    let error = Deserializer::from_str(text).into_iter::<IgnoredAny>().next()?.err()?;
    // The worker reads these.
    let is_lenient = ["NaN", "Infinity"].iter().any(|word| text.contains(word));
    let is_deep = error.to_string().contains("recursion limit");
    (!is_lenient && !is_deep && (is_whole || !error.is_eof())).then(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, content: &[u8]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        broken(&file)
    }

    #[test]
    fn only_what_is_plainly_no_row_is_broken() {
        for content in
            ["", " \n", "<<<<<<< ours\n{}\n", "question,answer\n", "{\"a\": 1\n{\"a\": 2}\n", "{'a': 1}\n"]
        {
            assert!(found("a.jsonl", content.as_bytes()).is_some(), "{content}");
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let long = format!("{{\"a\": \"{}\"}}", "é".repeat(1 << 20));
        for content in [
            "{\"a\": 1}\nbroken\n",
            "\u{feff}\n[\n{\"a\":\n1}]",
            "{\"a\": NaN}",
            "{\"a\": \"\\ud800\"}",
            &deep,
            &long,
        ] {
            assert_eq!(found("a.jsonl", content.as_bytes()), None, "{}", &content[..20.min(content.len())]);
        }
        assert_eq!(found("a.jsonl", b"\xff\xfe{\0}\0"), None, "another encoding");
        assert_eq!(found("a.csv", b"question,answer\n"), None);
        assert_eq!(found("a.jsonl.gz", b"\x1f\x8b"), None);
    }
}
