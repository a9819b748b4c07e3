//! tokenizer.json, reduced to what encoding needs, and the compact file that it is kept in.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::added::AddedToken;
use super::bpe::{ABSENT, Bpe, MOST_IDS, MOST_MERGES, Merge, whole_words};
use super::memory::Memory;
use super::scan::Split;
use super::store::{Compiled, Stored};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const GPT2_GROUPED: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const MARKS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    added_tokens: Vec<AddedDocument>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    model: Model,
}

#[derive(Deserialize)]
struct AddedDocument {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    #[serde(default)]
    vocab: Value,
    #[serde(default)]
    merges: Vec<Pair>,
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Pair {
    Split(String, String),
    Joined(String),
}

/// Compiles tokenizer.json; the error says what keeps this tokenizer from the fast path.
pub fn compile(json: &[u8]) -> Result<Vec<u8>, String> {
    // A parser of bytes lets pass what is not UTF-8 in the parts that it skips.
    let json = std::str::from_utf8(json).map_err(|error| format!("tokenizer.json: {error}"))?;
    let document: Document =
        serde_json::from_str(json).map_err(|error| format!("tokenizer.json: {error}"))?;
    check_model(&document.model)?;
    let vocabulary = vocabulary(&document.model.vocab)?;
    let (text, ends) = token_bytes(&vocabulary)?;
    let (prefix, suffix) = frame(document.post_processor.as_ref())?;
    let compiled = Compiled {
        split: split(document.pre_tokenizer.as_ref())?,
        nfc: normalizer(document.normalizer.as_ref())?,
        bytes: byte_ids(&vocabulary)?,
        merges: merges(&document.model.merges, &vocabulary)?,
        text,
        ends,
        added: added(document.added_tokens, &vocabulary)?,
        prefix,
        suffix,
    };
    // By merges alone, which then show which words become one token.
    let Stored { bpe, .. } = Stored::read(Memory::hold(&compiled.to_bytes(&[])))
        .ok_or("it could not be read back once compiled")?;
    let single = if document.model.ignore_merges {
        named(&vocabulary, compiled.ends.len())
    } else {
        compiled.singles(&bpe)
    };
    Ok(compiled.to_bytes(&whole_words(&bpe, &single)))
}

impl Compiled {
    /// Most tokens result from encoding their bytes, but some never do: merges of lower rank interfere.
    fn singles(&self, bpe: &Bpe) -> Vec<bool> {
        let mut ids = Vec::new();
        let mut comes_out = |id: u32| {
            ids.clear();
            let word = bpe.bytes_of(id).unwrap_or_default();
            if word.is_empty() || word.iter().any(|byte| self.bytes[*byte as usize] == ABSENT) {
                return false;
            }
            bpe.merge(word, &mut ids);
            ids == [id]
        };
        (0..self.ends.len() as u32).map(&mut comes_out).collect()
    }
}

/// Where words that are tokens are never merged, every token is its own word.
fn named(vocabulary: &HashMap<&str, u32>, count: usize) -> Vec<bool> {
    let mut single = vec![false; count];
    for id in vocabulary.values() {
        single[*id as usize] = true;
    }
    single
}

fn check_model(model: &Model) -> Result<(), String> {
    if model.unk_token.is_some() && byte_ids(&vocabulary(&model.vocab)?)?.contains(&ABSENT) {
        return Err("it has no token for some bytes, and an unknown token in their place".into());
    }
    let set = |part: &Option<String>| part.as_ref().is_some_and(|text| !text.is_empty());
    if model.kind.as_deref().is_some_and(|kind| kind != "BPE") {
        return Err(format!(
            "its model is {}, not byte-level BPE",
            model.kind.as_deref().unwrap_or("unknown")
        ));
    }
    if model.byte_fallback || set(&model.continuing_subword_prefix) || set(&model.end_of_word_suffix) {
        return Err("its BPE is not byte-level".into());
    }
    if model.dropout.is_some_and(|dropout| dropout > 0.0) {
        return Err("it drops merges at random".into());
    }
    Ok(())
}

fn vocabulary(value: &Value) -> Result<HashMap<&str, u32>, String> {
    let map = value.as_object().ok_or("its vocabulary is not an object")?;
    let tokens: HashMap<_, _> = map
        .iter()
        .map(|(token, id)| Some((token.as_str(), u32::try_from(id.as_u64()?).ok()?)))
        .collect::<Option<_>>()
        .ok_or("its vocabulary holds an id that is not a number of 32 bits")?;
    // Here an id has one text; `tokenizers` decodes to the token that it read last.
    if tokens.values().collect::<HashSet<_>>().len() < tokens.len() {
        return Err("two tokens of its vocabulary have the same id".into());
    }
    Ok(tokens)
}

/// GPT-2's printable stand-ins for bytes, from character to byte.
fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x143 => hidden_bytes().nth((code - 0x100) as usize),
        _ => None,
    }
}

/// The bytes without a printable character, in order.
fn hidden_bytes() -> impl Iterator<Item = u8> {
    (0..=255u8).filter(|byte| !matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff))
}

fn byte_ids(vocabulary: &HashMap<&str, u32>) -> Result<[u32; 256], String> {
    let mut ids = [ABSENT; 256];
    let characters = (0x21..0x144u32).filter_map(char::from_u32);
    for (character, byte) in characters.filter_map(|character| Some((character, byte_of(character)?))) {
        if let Some(id) = vocabulary.get(character.encode_utf8(&mut [0; 4]) as &str) {
            ids[byte as usize] = *id;
        }
    }
    if ids[usize::from(b'a')] == ABSENT {
        return Err("its vocabulary is not made of bytes".into());
    }
    Ok(ids)
}

/// Every token's bytes end to end; ids that no token has are empty.
fn token_bytes(vocabulary: &HashMap<&str, u32>) -> Result<(Vec<u8>, Vec<u32>), String> {
    let highest = vocabulary.values().copied().max().ok_or("its vocabulary is empty")?;
    if highest as usize >= MOST_IDS {
        return Err("it has too many tokens".into());
    }
    let mut tokens = vec![""; highest as usize + 1];
    for (token, id) in vocabulary {
        tokens[*id as usize] = token;
    }
    let mut text = Vec::with_capacity(vocabulary.len() * 8);
    let mut ends = Vec::with_capacity(tokens.len());
    let table = byte_table();
    for token in tokens {
        let bytes = |character: char| table.get(u32::from(character) as usize).copied().flatten();
        match token.chars().map(bytes).collect::<Option<Vec<u8>>>() {
            Some(decoded) => text.extend(decoded),
            // An added token that also stands in the vocabulary is written as it is.
            None => text.extend(token.bytes()),
        }
        ends.push(text.len() as u32);
    }
    Ok((text, ends))
}

fn byte_table() -> Vec<Option<u8>> {
    (0..0x144u32).map(|code| char::from_u32(code).and_then(byte_of)).collect()
}

fn merges(pairs: &[Pair], vocabulary: &HashMap<&str, u32>) -> Result<Vec<Merge>, String> {
    if pairs.len() >= MOST_MERGES {
        return Err("it has too many merges".into());
    }
    let id = |token: &str| {
        vocabulary.get(token).copied().ok_or_else(|| format!("a merge uses {token:?}, which is not a token"))
    };
    let mut joined = String::new();
    pairs
        .iter()
        .map(|pair| {
            let (left, right) = match pair {
                Pair::Split(left, right) => (left.as_str(), right.as_str()),
                Pair::Joined(text) => {
                    text.split_once(' ').ok_or_else(|| format!("{text:?} is not a merge"))?
                }
            };
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            Ok(Merge { left: id(left)?, right: id(right)?, into: id(&joined)? })
        })
        .collect()
}

fn added(tokens: Vec<AddedDocument>, vocabulary: &HashMap<&str, u32>) -> Result<Vec<AddedToken>, String> {
    let mut ids: HashMap<String, u32> = HashMap::new();
    let mut highest = None;
    let mut out = Vec::new();
    // `tokenizers` leaves out a token without text. To look for it would find it everywhere, without end.
    for token in tokens.into_iter().filter(|token| !token.content.is_empty()) {
        let AddedDocument { id, content, single_word, lstrip, rstrip, normalized } = token;
        if single_word {
            return Err(format!("its added token {content:?} matches whole words only"));
        }
        // `tokenizers` counts added tokens itself, after the vocabulary, whatever ids the file gives them.
        let known = ids.get(&content).or_else(|| vocabulary.get(content.as_str())).copied();
        let next = vocabulary.len() as u32;
        let counted = known.unwrap_or_else(|| highest.map_or(next, |highest: u32| next.max(highest + 1)));
        if id != counted {
            return Err(format!("its added token {content:?} has the id {id} where {counted} is expected"));
        }
        highest = highest.max(Some(id));
        ids.insert(content.clone(), id);
        out.push(AddedToken { id, text: content, lstrip, rstrip, normalized });
    }
    Ok(out)
}

fn normalizer(value: Option<&Value>) -> Result<bool, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(false) };
    match value["type"].as_str() {
        Some("NFC") => Ok(true),
        Some("Sequence") => {
            let parts = value["normalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().try_fold(false, |nfc, part| Ok(nfc | normalizer(Some(part))?))
        }
        other => Err(format!("its normalizer is {}", other.unwrap_or("unknown"))),
    }
}

fn split(value: Option<&Value>) -> Result<Split, String> {
    let unknown = || Err("its pre-tokenizer is none of those known here".to_owned());
    let Some(value) = value else { return unknown() };
    let single = [value.clone()];
    let parts = match value["type"].as_str() {
        Some("Sequence") => value["pretokenizers"].as_array().map(Vec::as_slice).unwrap_or_default(),
        _ => &single,
    };
    match parts {
        [bytes] if byte_level(bytes, true) => Ok(Split::Gpt2),
        [digits, bytes] if single_digits(digits) && byte_level(bytes, true) => Ok(Split::DigitsGpt2),
        [first, bytes] if byte_level(bytes, false) => by_pattern(first).map_or_else(unknown, Ok),
        _ => unknown(),
    }
}

fn byte_level(part: &Value, use_regex: bool) -> bool {
    part["type"] == "ByteLevel"
        && part["add_prefix_space"].as_bool() == Some(false)
        && part["use_regex"].as_bool().unwrap_or(true) == use_regex
}

fn single_digits(part: &Value) -> bool {
    part["type"] == "Digits" && part["individual_digits"] == true
}

fn by_pattern(part: &Value) -> Option<Split> {
    let isolated = part["behavior"] == "Isolated" && part["invert"] == false;
    let inverted = part["behavior"] == "Removed" && part["invert"] == true;
    if part["type"] != "Split" || !(isolated || inverted) {
        return None;
    }
    match part["pattern"]["Regex"].as_str()? {
        GPT2 | GPT2_GROUPED => Some(Split::Gpt2),
        QWEN2 => Some(Split::Cl100k { digits: 1 }),
        LLAMA3 => Some(Split::Cl100k { digits: 3 }),
        MARKS => Some(Split::Marks),
        _ => None,
    }
}

/// What surrounds a bare text, from a post-processor that only adds special tokens.
fn frame(value: Option<&Value>) -> Result<(Vec<u32>, Vec<u32>), String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Default::default()) };
    match value["type"].as_str() {
        Some("ByteLevel") => Ok(Default::default()),
        Some("TemplateProcessing") => template_frame(value),
        Some("Sequence") => {
            let parts = value["processors"].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().try_fold(
                Default::default(),
                |(mut before, mut after): (Vec<u32>, Vec<u32>), part| {
                    let (inner, outer) = frame(Some(part))?;
                    before.splice(0..0, inner);
                    after.extend(outer);
                    Ok((before, after))
                },
            )
        }
        other => Err(format!("its post-processor is {}", other.unwrap_or("unknown"))),
    }
}

fn template_frame(value: &Value) -> Result<(Vec<u32>, Vec<u32>), String> {
    let mut frame = (Vec::new(), Vec::new());
    let mut passed = false;
    for part in value["single"].as_array().into_iter().flatten() {
        if part.get("Sequence").is_some() {
            passed = true;
            continue;
        }
        let name = part["SpecialToken"]["id"].as_str().unwrap_or_default();
        let ids = value["special_tokens"][name]["ids"]
            .as_array()
            .ok_or("its post-processor names an unknown token")?;
        let side = if passed { &mut frame.1 } else { &mut frame.0 };
        side.extend(ids.iter().filter_map(Value::as_u64).map(|id| id as u32));
    }
    Ok(frame)
}
