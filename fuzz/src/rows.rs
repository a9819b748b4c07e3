//! JSONL rows through the whole way to ids: every row is accounted for, the compiled templates give what the interpreter
//! gives, and the ids spell the text with its learned parts.
//!
//! An input's first line chooses the settings, as `template train_on overlong length`; what it does not name comes from
//! its bytes. The other lines are the file.

use std::path::Path;
use std::sync::OnceLock;

use expert_native::encoder::{Memory, SUPERVISED, Tokenizer, compile};
use expert_native::pipeline::{Coder, Ingested, Ledger, Overlong, Recipe, Source, ingest, preview};
use expert_native::rows::{Layout, Line, Lines, Shaper, TrainOn, Value};
use expert_native::template::{BUILTIN, Engine, builtin};

use crate::scratch;

/// Templates of models in use, and how their publishers mark what is learned.
const OTHERS: [(&str, &str); 5] = [
    ("gemma-training", include_str!("../../tests/worker/pretokenize/templates/gemma-training.jinja")),
    ("llama3-published", include_str!("../../tests/worker/pretokenize/templates/llama3.jinja")),
    ("llama3-training", include_str!("../../tests/worker/pretokenize/templates/llama3-training.jinja")),
    ("qwen3-training", include_str!("../../tests/worker/pretokenize/templates/qwen3-training.jinja")),
    ("smollm3-generation", include_str!("../../tests/worker/pretokenize/templates/smollm3-generation.jinja")),
];

/// A byte-level tokenizer of every byte, some merges and the tokens that end a turn.
fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| {
        let json = include_bytes!("../../tests/corpus/tokenizer/bytes.json");
        Tokenizer::open(Memory::hold(&compile(json).expect("a byte-level tokenizer"))).expect("a tokenizer")
    })
}

#[derive(Clone, Copy)]
struct Settings<'a> {
    template: &'a str,
    train_on: TrainOn,
    overlong: Overlong,
    length: usize,
}

impl Settings<'_> {
    fn of(line: &str) -> Self {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let any = |word: &str, count: usize| word.bytes().map(usize::from).sum::<usize>() % count;
        let name = word();
        let templates: Vec<&'static str> = BUILTIN.iter().chain(&OTHERS).map(|(_, text)| *text).collect();
        let template = builtin(name)
            .or_else(|| OTHERS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text))
            .unwrap_or_else(|| templates[any(name, templates.len())]);
        let name = word();
        let train_on = match name {
            "completions" => TrainOn::Completions,
            "assistant" => TrainOn::Assistant,
            "all" => TrainOn::All,
            other => [TrainOn::Completions, TrainOn::Assistant, TrainOn::All][any(other, 3)],
        };
        let name = word();
        let overlong = match name {
            "truncate" => Overlong::Truncate,
            "keep_end" => Overlong::KeepEnd,
            "split" => Overlong::Split,
            "drop" => Overlong::Drop,
            "error" => Overlong::Error,
            other => {
                let all =
                    [Overlong::Truncate, Overlong::KeepEnd, Overlong::Split, Overlong::Drop, Overlong::Error];
                all[any(other, all.len())]
            }
        };
        let length = word().parse().ok().filter(|length| (1..=1 << 16).contains(length)).unwrap_or(4096);
        Self { template, train_on, overlong, length }
    }

    fn recipe(self, interpret: bool) -> Recipe {
        let specials = [("bos_token", "<s>"), ("eos_token", "</s>")];
        let specials = specials.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        Recipe {
            shaper: Shaper { parse_dialogue: true, train_on: self.train_on, ..Shaper::default() },
            engine: Engine::new(self.template, &specials).expect("a template of the list"),
            eos: tokenizer().added_id("<|im_end|>").into_iter().collect(),
            stops: vec!["<|im_end|>".to_owned()],
            frame: (Vec::new(), Vec::new()),
            max_seq_length: self.length,
            overlong: self.overlong,
            deduplicate: self.length % 2 == 1,
            min_length: None,
            max_length: None,
            interpret,
        }
    }
}

pub fn check(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let settings = Settings::of(&String::from_utf8_lossy(&input[..end]));
    let rows = input.get(end + 1..).unwrap_or_default();
    let folder = scratch::folder();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, rows).expect("a file");
    let fast = settings.recipe(false);
    let slow = settings.recipe(true);
    let one = run(&fast, &path, folder.path());
    let two = run(&slow, &path, folder.path());
    match (&one, &two) {
        (Some(one), Some(two)) => {
            check_account(one, &path, rows);
            check_same(one, two);
        }
        // A template may refuse the work as a whole, but then both do.
        _ => assert_eq!(one.is_some(), two.is_some(), "only one of the two came to an end"),
    }
    if let Ok(lines) = Lines::open(&path, "rows.jsonl") {
        for part in 0..lines.parts() {
            lines.each(part, |line| check_row(&line, &fast));
        }
    }
}

fn run(recipe: &Recipe, path: &Path, folder: &Path) -> Option<Ingested> {
    let source = Source::Lines { path: path.to_owned(), name: "rows.jsonl".into() };
    let spill = folder.join(if recipe.interpret { "slow" } else { "fast" });
    ingest(recipe, Coder::Native(tokenizer()), vec![source], None, &spill, 1, |_, _, _| true).ok()
}

/// No row is lost without being counted, and each fault has a place.
fn check_account(ingested: &Ingested, path: &Path, rows: &[u8]) {
    let [ledger] = ingested.ledgers.as_slice() else {
        panic!("one source, {} ledgers", ingested.ledgers.len())
    };
    let (mut count, mut held) = (0, 0);
    let lines = Lines::open(path, "rows.jsonl").expect("the file was read");
    for part in 0..lines.parts() {
        count += lines.each(part, |_| held += 1);
    }
    if lines.layout == Layout::Lines {
        let lines = rows.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rows).split(|byte| *byte == b'\n');
        assert_eq!(held, lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64, "lines");
    }
    assert_eq!(ledger.read, held, "rows read");
    let Ledger { used, bad, dropped_overlong, dropped_unsupervised, dropped_duplicate, dropped_near, .. } =
        *ledger;
    let sum = used + bad + dropped_overlong + dropped_unsupervised + dropped_duplicate + dropped_near;
    assert_eq!(sum, ledger.read, "{ledger:?}");
    assert_eq!(ingested.bad.total, bad);
    for problem in &ingested.bad.problems {
        let inside = problem.places.iter().all(|(_, line)| (1..=count).contains(line));
        assert!(inside && !problem.places.is_empty() && !problem.message.is_empty(), "{problem:?}");
    }
}

fn check_same(one: &Ingested, two: &Ingested) {
    let counts = |ingested: &Ingested| {
        let [ledger] = ingested.ledgers.as_slice() else { panic!("one source") };
        Ledger { interpreted: 0, ..ledger.clone() }
    };
    assert_eq!(counts(one), counts(two), "the compiled template and the interpreter count differently");
    assert_eq!(one.bad.problems, two.bad.problems);
    assert_eq!(one.documents.len(), two.documents.len());
    for (left, right) in one.documents.iter().zip(&two.documents) {
        let flagged = |ingested: &Ingested, document| {
            let stored = ingested.spill.document(document);
            let mut ids = vec![0; document.length as usize];
            stored.ids(&mut ids);
            (ids, stored.runs().collect::<Vec<_>>())
        };
        assert_eq!(left.row, right.row);
        assert_eq!(flagged(one, *left), flagged(two, *right), "row {}", left.row);
    }
}

/// What the row holds survives being written out; its ids spell its text, learned where the text is.
fn check_row(line: &Line<'_>, recipe: &Recipe) {
    let Ok(value) = line.parse() else { return };
    let written = serde_json::to_string(&value).expect("JSON");
    let again: Value<'_> = Value::parse(&written).expect("what was written is JSON");
    assert_eq!(value, again, "{written}");
    let Ok(row) = preview(recipe, Coder::Native(tokenizer()), &value) else { return };
    let rest = row.ids.len() <= recipe.max_seq_length && recipe.overlong != Overlong::Split;
    if !rest || row.ids.len() == recipe.max_seq_length {
        return;
    }
    let mut at = 0;
    for (place, id) in row.ids.iter().enumerate() {
        let bytes = tokenizer().bytes_of(id & !SUPERVISED).expect("an id of the vocabulary");
        if at == row.text.len() && place + 1 == row.ids.len() {
            // The token that was put where nothing ended the answer.
            assert_eq!(bytes, b"<|im_end|>");
            return;
        }
        assert_eq!(row.text.as_bytes().get(at..at + bytes.len()), Some(bytes), "ids do not spell the text");
        let inside = row.spans.iter().any(|span| (span.start..span.end).contains(&at));
        assert_eq!(id & SUPERVISED != 0, inside, "the token at byte {at} of {:?}, {:?}", row.text, row.spans);
        at += bytes.len();
    }
    assert_eq!(at, row.text.len());
}
