//! What is kept of a row to compare it with others: a few hundred bytes, whatever its length.

use crate::rows::{Shaped, TrainOn, Turn, Value, last_learned};

/// Hashes of a question that are kept: all of a short one's, the lowest of a longer one's.
pub const MOST_FEATURES: usize = 128;
/// A pair of this similarity or more has at least one band in common with a probability of 0.997 for 0.6 and of
/// 1 - 1e-8 for 0.8.
pub const BANDS: usize = 24;
const HASHES_PER_BAND: usize = 3;
const HASHES: usize = BANDS * HASHES_PER_BAND;

/// Questions with the same answer are near copies from here on: one word in seven may differ.
const LEAST: f32 = 0.6;
/// The same for an answer that says little, such as a label, and for a text without question and answer.
const LEAST_WITHOUT_ANSWER: f32 = 0.8;
/// Answers of so many words may be labels.
const LABEL_WORDS: usize = 2;

/// Sketches of rows, in their order.
#[derive(Debug, Default)]
pub struct Sketches {
    /// Of each row, sorted.
    features: Vec<u32>,
    ends: Vec<u64>,
    bands: Vec<[u32; BANDS]>,
    /// Of the answer and the instructions before it; 0 where there is neither.
    answers: Vec<u64>,
    strict: Vec<bool>,
    /// Of the normalised question and answer.
    contents: Vec<u64>,
    /// Of the row as it is.
    fingerprints: Vec<u128>,
}

impl Sketches {
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }

    pub fn append(&mut self, mut other: Self) {
        let before = self.features.len() as u64;
        self.features.append(&mut other.features);
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.bands.append(&mut other.bands);
        self.answers.append(&mut other.answers);
        self.strict.append(&mut other.strict);
        self.contents.append(&mut other.contents);
        self.fingerprints.append(&mut other.fingerprints);
    }

    pub fn content(&self, row: u32) -> u64 {
        self.contents[row as usize]
    }

    pub fn fingerprint(&self, row: u32) -> u128 {
        self.fingerprints[row as usize]
    }

    pub fn band(&self, row: u32, band: usize) -> u32 {
        self.bands[row as usize][band]
    }

    /// Whether both have the same answer, under the same instructions, to questions that resemble each other.
    pub fn resemble(&self, one: u32, other: u32) -> bool {
        self.answers[one as usize] == self.answers[other as usize]
            && jaccard(self.features(one), self.features(other)) >= self.least(one)
    }

    fn least(&self, row: u32) -> f32 {
        if self.strict[row as usize] { LEAST_WITHOUT_ANSWER } else { LEAST }
    }

    fn features(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.features[start as usize..self.ends[row] as usize]
    }
}

/// Common features by all features: exact for short texts, estimated by the lowest hashes of the union for long ones.
fn jaccard(one: &[u32], other: &[u32]) -> f32 {
    let cut = one.len() == MOST_FEATURES || other.len() == MOST_FEATURES;
    let most = if cut { MOST_FEATURES } else { usize::MAX };
    let (mut left, mut right, mut common, mut all) = (0, 0, 0_u32, 0_usize);
    while all < most && (left < one.len() || right < other.len()) {
        let (a, b) = (one.get(left), other.get(right));
        let from_one = b.is_none_or(|b| a.is_some_and(|a| a <= b));
        let from_other = a.is_none_or(|a| b.is_some_and(|b| b <= a));
        left += usize::from(from_one);
        right += usize::from(from_other);
        common += u32::from(from_one && from_other);
        all += 1;
    }
    if all == 0 { 1.0 } else { common as f32 / all as f32 }
}

/// Makes sketches, one row after the other.
pub struct Sketcher {
    pub sketches: Sketches,
    train_on: TrainOn,
    multipliers: [u32; HASHES],
    offsets: [u32; HASHES],
    words: Vec<u64>,
    features: Vec<u32>,
    /// A hash of what the row's system and developer messages say; 0 without any.
    instructions: u64,
    text: String,
}

impl Sketcher {
    pub fn new(train_on: TrainOn) -> Self {
        let number = |place: usize| mixed(place as u64 + 1) as u32;
        Self {
            sketches: Sketches::default(),
            train_on,
            multipliers: std::array::from_fn(|place| number(place) | 1),
            offsets: std::array::from_fn(|place| number(HASHES + place)),
            words: Vec::new(),
            features: Vec::new(),
            instructions: 0,
            text: String::new(),
        }
    }

    pub fn add(&mut self, shaped: &Shaped<'_>, fingerprint: u128) {
        self.words.clear();
        self.instructions = 0;
        let answer = match shaped {
            Shaped::Text(text) => {
                self.ask(text);
                None
            }
            Shaped::Turns(turns) => {
                let last = turns.iter().rposition(Turn::is_answer);
                let (answer, before, behind) = self.split(turns, last);
                for Turn { role, content, .. } in before.iter().chain(behind) {
                    self.read(role, content);
                }
                answer.map(|turn| self.answer(&turn.content))
            }
            Shaped::Rich { messages, unlearned, .. } => {
                let (answer, before, behind) = self.split(messages, last_learned(messages, unlearned));
                for message in before.iter().chain(behind) {
                    self.read(role(message), &content(message));
                }
                answer.map(|message| self.answer(&serde_json::to_string(message).unwrap_or_default()))
            }
        };
        self.finish(answer, fingerprint);
    }

    /// The last answer, what is before it, and what is learned of the messages behind it; without an answer all of it is asked.
    fn split<'m, M>(&self, messages: &'m [M], last: Option<usize>) -> (Option<&'m M>, &'m [M], &'m [M]) {
        let Some(last) = last else { return (None, messages, &[]) };
        let behind = if self.train_on == TrainOn::All { &messages[last + 1..] } else { &[] };
        (Some(&messages[last]), &messages[..last], behind)
    }

    /// Instructions may hold what the row is about, such as a document. Those that all rows have say nothing about one: they
    /// are not among the words that two rows have in common.
    fn read(&mut self, role: &str, content: &str) {
        if is_instruction(role) {
            let (_, instruction) = self.answer(content);
            self.instructions = mixed(self.instructions.rotate_left(5) ^ instruction);
        } else {
            self.ask(content);
        }
    }

    /// Words in lower case, without punctuation. A sign of a script without spaces is a word.
    fn ask(&mut self, text: &str) {
        let mut word = SEED;
        for sign in text.chars().flat_map(char::to_lowercase) {
            let alone = ('\u{2e80}'..='\u{d7ff}').contains(&sign) || sign >= '\u{20000}';
            if word != SEED && (alone || !(sign.is_alphanumeric() || sign == '_')) {
                self.words.push(mixed(word));
                word = SEED;
            }
            if alone {
                self.words.push(mixed(step(SEED, sign)));
            } else if sign.is_alphanumeric() || sign == '_' {
                word = step(word, sign);
            }
        }
        if word != SEED {
            self.words.push(mixed(word));
        }
    }

    /// Whether it may be a label, and its hash: without white space and case, and without punctuation at its end.
    fn answer(&mut self, text: &str) -> (bool, u64) {
        self.text.clear();
        self.text.extend(text.chars().filter(|sign| !sign.is_whitespace()).flat_map(char::to_lowercase));
        let plain = self.text.trim_end_matches(['.', ',', ';', ':', '!', '?']);
        let hash = mixed(plain.chars().fold(SEED, step)) | 1;
        (text.split_whitespace().nth(LABEL_WORDS).is_none(), hash)
    }

    fn finish(&mut self, answer: Option<(bool, u64)>, fingerprint: u128) {
        let (strict, answer) = answer.unwrap_or((true, 0));
        let answer = answer ^ self.instructions;
        let mut content = self.words.iter().fold(answer, |hash, word| mixed(hash.rotate_left(5) ^ word));
        self.features.clear();
        self.features.extend(self.words.iter().map(|word| *word as u32));
        let pairs = self.words.windows(2).map(|pair| mixed(pair[0].rotate_left(17) ^ pair[1]) as u32);
        self.features.extend(pairs);
        if self.features.is_empty() {
            // Nothing but punctuation: only the very same row is a copy.
            content = mixed(fingerprint as u64);
            self.features.push(content as u32);
        }
        self.features.sort_unstable();
        self.features.dedup();
        let bands = self.bands(answer);
        self.features.truncate(MOST_FEATURES);
        let rows = &mut self.sketches;
        rows.features.extend_from_slice(&self.features);
        rows.ends.push(rows.features.len() as u64);
        rows.bands.push(bands);
        rows.answers.push(answer);
        rows.strict.push(strict);
        rows.contents.push(content);
        rows.fingerprints.push(fingerprint);
    }

    /// MinHash in bands: rows whose features and answers are equal in one have the same number there.
    fn bands(&self, answer: u64) -> [u32; BANDS] {
        let mut least = [u32::MAX; HASHES];
        for feature in &self.features {
            for ((least, multiplier), offset) in least.iter_mut().zip(&self.multipliers).zip(&self.offsets) {
                *least = (*least).min((feature ^ offset).wrapping_mul(*multiplier));
            }
        }
        std::array::from_fn(|band| {
            let hashes = &least[band * HASHES_PER_BAND..][..HASHES_PER_BAND];
            hashes.iter().fold(answer, |hash, one| mixed(hash.rotate_left(7) ^ u64::from(*one))) as u32
        })
    }
}

fn is_instruction(role: &str) -> bool {
    matches!(role, "system" | "developer")
}

fn role<'m>(message: &'m Value<'_>) -> &'m str {
    match message {
        Value::Object(object) => match object.get("role") {
            Some(Value::Text(role)) => role,
            _ => "",
        },
        _ => "",
    }
}

fn content(message: &Value<'_>) -> String {
    match message {
        Value::Object(object) => {
            object.present("content").map(|it| it.as_words().into_owned()).unwrap_or_default()
        }
        other => other.as_words().into_owned(),
    }
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a over characters.
fn step(hash: u64, sign: char) -> u64 {
    (hash ^ u64::from(u32::from(sign))).wrapping_mul(0x0100_0000_01b3)
}

/// The output function of `SplitMix64`.
fn mixed(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
