//! `tokenizer.json`: a compiled tokenizer opens again, and its ids spell the text that was encoded.
//!
//! An input is the file, and after a NUL byte the text to encode. That the ids are those of Hugging Face `tokenizers`
//! is checked on the same inputs by the target `encoder` in `tests/fuzz`.

use expert_native::encoder::{Encoder, Memory, SUPERVISED, Span, Tokenizer, compile};

/// What every tokenizer is tried with besides the input's own text.
const TEXTS: [&str; 6] = [
    "",
    "It's the 1st of 2,048 rows:\n\n  def f(x):\r\n\treturn \"x\" ",
    "naïve café e\u{301} 漢字 русский \u{1f600}\u{1f3fd} \u{fdd0}",
    "<|im_start|>user\nhello<|im_end|>  <tool> <think> ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "   \u{a0}\u{2003}\u{3000}\n \n",
];

pub fn check(input: &[u8]) {
    let (json, text) = split(input);
    let Ok(compiled) = compile(json) else { return };
    let tokenizer = Tokenizer::open(Memory::hold(&compiled)).expect("what was compiled can be opened");
    let facts = Facts::of(json);
    for text in TEXTS.into_iter().chain([text.as_ref()]) {
        check_text(&tokenizer, &facts, text);
    }
}

/// The file and the text.
fn split(input: &[u8]) -> (&[u8], std::borrow::Cow<'_, str>) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let text = input.get(end + 1..).unwrap_or_default();
    (&input[..end], String::from_utf8_lossy(text))
}

/// What tokenizer.json says, read without the code under test.
struct Facts {
    /// Whether ids spell the text byte for byte: nothing is normalised or stripped, and no byte is without an id.
    spells: bool,
    ids: std::collections::BTreeSet<u64>,
}

impl Facts {
    fn of(json: &[u8]) -> Self {
        let document: serde_json::Value = serde_json::from_slice(json).expect("it was compiled");
        let added = document["added_tokens"].as_array().cloned().unwrap_or_default();
        let vocabulary = document["model"]["vocab"].as_object().expect("it was compiled");
        let strips = added.iter().any(|token| token["lstrip"] == true || token["rstrip"] == true);
        let ids: Vec<_> = vocabulary
            .values()
            .chain(added.iter().map(|token| &token["id"]))
            .filter_map(serde_json::Value::as_u64)
            .collect();
        let count = ids.len();
        let ids: std::collections::BTreeSet<_> = ids.into_iter().collect();
        let bytes = vocabulary.keys().filter(|token| token.chars().count() == 1).count();
        // Of an id that two tokens share, nobody can say which one it stands for.
        let spells = document["normalizer"].is_null() && !strips && bytes >= 256 && ids.len() == count;
        Self { spells, ids }
    }
}

fn check_text(tokenizer: &Tokenizer, facts: &Facts, text: &str) {
    let encode = |encoder: &mut Encoder<'_>, spans: &[Span]| {
        let mut ids = Vec::new();
        encoder.encode(text, spans, &mut ids);
        ids
    };
    let mut encoder = Encoder::new(tokenizer);
    let ids = encode(&mut encoder, &[]);
    assert!(ids.len() <= text.len() * 4, "{} ids for {} bytes", ids.len(), text.len());
    assert_eq!(ids, encode(&mut encoder, &[]), "the cache of words changes the ids of {text:?}");
    for id in &ids {
        assert!(facts.ids.contains(&u64::from(*id)), "{text:?} gives the id {id}, which no token has");
    }
    if facts.spells {
        let spelled: Vec<u8> =
            ids.iter().flat_map(|id| tokenizer.bytes_of(*id).unwrap_or_default()).copied().collect();
        assert_eq!(String::from_utf8_lossy(&spelled), text, "ids do not spell the text");
    }
    let all = encode(&mut encoder, &[Span { start: 0, end: text.len() }]);
    let learned: Vec<u32> = ids.iter().map(|id| id | SUPERVISED).collect();
    assert_eq!(all, learned, "of a text that is learned as a whole, every id is learned");
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let half = encode(&mut encoder, &[Span { start: middle, end: text.len() }]);
    let mut parts = |text: &str| {
        let mut ids = Vec::new();
        encoder.encode(text, &[], &mut ids);
        ids
    };
    let (head, tail) = (parts(&text[..middle]), parts(&text[middle..]));
    let apart: Vec<u32> = head.into_iter().chain(tail.into_iter().map(|id| id | SUPERVISED)).collect();
    assert_eq!(half, apart, "what is learned is not encoded apart from what is before it");
}
