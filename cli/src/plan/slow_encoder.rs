//! Whether a base's tokenizer is encoded by the slow path, before a run finds out.

use std::path::Path;

use expert_contract::digest::hex;
use expert_contract::resolve::{Note, Resolved};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::sys::files::{read_file, read_json};

const CODE: &str = "slow-encoder";
const HINT: &str = "The rows are the same. It costs time once; the token cache is reused afterwards.";

/// The parts of `tokenizer.json` that the fast encoder refuses.
#[derive(Deserialize)]
struct Tokenizer {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
}

/// What a worker measured and left in its home.
#[derive(Deserialize)]
struct Measured {
    reason: String,
    words: String,
}

/// A note where the fast encoder does not take the base's tokenizer, with the loss of speed if it was measured.
pub fn note(resolved: &Resolved) -> Option<Note> {
    let content = read_file(&resolved.base.config_folder()?.join("tokenizer.json"))?;
    let home = Path::new(&resolved.machine.paths.home);
    let (reason, cost) = measured(&content, home).or_else(|| {
        Some((refused(&content)?, "how much slower is unknown until it is measured".to_owned()))
    })?;
    Some(Note {
        code: CODE,
        message: format!(
            "The fast encoder is not used: {reason}. Hugging Face tokenizers encodes instead: {cost}"
        ),
        hint: HINT.to_owned(),
    })
}

fn measured(content: &[u8], home: &Path) -> Option<(String, String)> {
    let name = format!("{}.slow.json", hex(&Sha256::digest(content)));
    let found: Measured = read_json(&home.join("tokenizers").join(name))?;
    Some((found.reason, found.words))
}

fn refused(content: &[u8]) -> Option<String> {
    let model = serde_json::from_slice::<Tokenizer>(content).ok()?.model;
    match model.kind.as_deref() {
        Some("BPE") | None => model.byte_fallback.then(|| "it does not take byte fallback".to_owned()),
        Some(kind) => Some(format!("it does not take this tokenizer (a {kind} model)")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_tokenizer_that_the_fast_encoder_does_not_take_is_named() {
        let text = |json: &str| refused(json.as_bytes());
        assert_eq!(text(r#"{"model": {"type": "BPE", "merges": []}}"#), None);
        assert_eq!(text(r#"{"model": {"merges": []}}"#), None);
        assert_eq!(text("not JSON"), None);
        let byte_fallback = text(r#"{"model": {"type": "BPE", "byte_fallback": true}}"#);
        assert_eq!(byte_fallback.as_deref(), Some("it does not take byte fallback"));
        let unigram = text(r#"{"added_tokens": [], "model": {"type": "Unigram", "vocab": [["a", -1.5]]}}"#);
        assert_eq!(unigram.as_deref(), Some("it does not take this tokenizer (a Unigram model)"));
    }

    #[test]
    fn a_worker_s_measurement_is_found_by_the_file_s_digest() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("tokenizers");
        fs::create_dir(&folder).unwrap();
        let name = format!("{}.slow.json", hex(&Sha256::digest(b"{}")));
        let record = r#"{"reason": "it differs", "words": "9.5 times slower", "rows": 4}"#;
        fs::write(folder.join(name), record).unwrap();
        let found = measured(b"{}", home.path());
        assert_eq!(found, Some(("it differs".to_owned(), "9.5 times slower".to_owned())));
        assert_eq!(measured(b"{ }", home.path()), None);
    }
}
