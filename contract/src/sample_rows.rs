//! The sample rows that `init` writes: a sentence about an appointment, and the JSON object that it means.

use serde_json::json;

const PEOPLE: [&str; 16] = [
    "Ada", "Bruno", "Chen", "Dilara", "Emeka", "Freya", "Goran", "Hana", "Ines", "Jamal", "Kaito", "Lena",
    "Mateo", "Noor", "Oskar", "Priya",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MINUTES: [&str; 4] = ["00", "15", "30", "45"];
const HOURS: std::ops::Range<usize> = 8..18;
/// The action, and its phrasings.
const PHRASES: [(&str, &str); 8] = [
    ("meet", "Meet {who} on {day} at {time}."),
    ("meet", "I need to see {who} {day}, {time}."),
    ("call", "Call {who} on {day} at {time}."),
    ("call", "{day} {time}: ring {who}."),
    ("lunch", "Lunch with {who} on {day}, {time} please."),
    ("lunch", "Book a table for {who} and me, {day} at {time}."),
    ("cancel", "Cancel {who} on {day} at {time}."),
    ("cancel", "{who} cannot come on {day} at {time}, drop it."),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Validation,
    Test,
}

impl Split {
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    pub fn file(self) -> &'static str {
        match self {
            Self::Train => "train.jsonl",
            Self::Validation => "validation.jsonl",
            Self::Test => "test.jsonl",
        }
    }

    fn range(self) -> std::ops::Range<usize> {
        match self {
            Self::Train => 0..320,
            Self::Validation => 320..360,
            Self::Test => 360..400,
        }
    }
}

/// The split's rows as JSON lines. No row is in two splits.
pub fn rows(split: Split) -> String {
    split.range().map(|index| row(index) + "\n").collect()
}

fn row(index: usize) -> String {
    // A stride that shares no factor with the number of combinations visits each once, in no visible order.
    const STRIDE: usize = 7_919;
    let combinations = PEOPLE.len() * DAYS.len() * MINUTES.len() * HOURS.len() * PHRASES.len();
    let mut rest = index * STRIDE % combinations;
    let mut pick = |count: usize| {
        let choice = rest % count;
        rest /= count;
        choice
    };
    let (action, phrase) = PHRASES[pick(PHRASES.len())];
    let who = PEOPLE[pick(PEOPLE.len())];
    let day = DAYS[pick(DAYS.len())];
    let time = format!("{:02}:{}", HOURS.start + pick(HOURS.len()), MINUTES[pick(MINUTES.len())]);
    let prompt = phrase.replace("{who}", who).replace("{day}", day).replace("{time}", &time);
    let completion = json!({"action": action, "who": who, "day": day, "time": time}).to_string();
    json!({"prompt": prompt, "completion": completion}).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_is_its_own() {
        let all: Vec<String> = Split::ALL
            .into_iter()
            .flat_map(|s| rows(s).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert_eq!(all.len(), 400);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 400);
    }
}
