//! A chat template from a stranger: it ends, prints no more than it may, and the compiled one prints what the
//! interpreter prints.
//!
//! An input is the template, and after a NUL byte the row's JSON. A few other rows are tried with every template.

use expert_native::rows::{Shaped, Shaper, TrainOn, Turn, Value};
use expert_native::template::{Engine, Rendered, Renderer, SpecialTexts};

pub fn check(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let source = String::from_utf8_lossy(&input[..end]);
    let specials: SpecialTexts =
        [("bos_token", "<s>"), ("eos_token", "</s>")].map(|(name, text)| (name.into(), text.into())).into();
    let Ok(engine) = Engine::new(&source, &specials) else { return };
    let row = String::from_utf8_lossy(input.get(end + 1..).unwrap_or_default());
    let row: Option<Value<'_>> = Value::parse(&row).ok();
    let own = row.as_ref().and_then(|row| Shaper::default().shape(row).ok());
    let dialogues = [
        dialogue(&[("user", "2 + 2?"), ("assistant", "4")]),
        dialogue(&[
            ("system", "Be brief."),
            ("user", "Hi"),
            ("assistant", "Hello."),
            ("user", "Bye"),
            ("assistant", "Bye!"),
        ]),
        without_first_answer(),
        dialogue(&[
            ("user", "<think>x</think> {{ x }} {% y %}"),
            ("assistant", "a\n\n```json\n{\"a\": 1}\n```"),
        ]),
    ];
    // A template that fails as a whole costs all its fuel each time.
    let _ = [TrainOn::Completions, TrainOn::Assistant, TrainOn::All]
        .into_iter()
        .all(|train_on| compare(&engine, train_on, dialogues.iter().chain(&own)));
}

/// A dialogue of which one answer is not to be learned.
fn without_first_answer() -> Shaped<'static> {
    let mut turns = [("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "2")]
        .map(|(role, content)| Turn::new(role, content));
    turns[1].unlearned = true;
    Shaped::Turns(turns.into())
}

fn dialogue(turns: &[(&'static str, &'static str)]) -> Shaped<'static> {
    Shaped::Turns(turns.iter().map(|(role, content)| Turn::new(*role, *content)).collect())
}

/// Every row as the interpreter renders it and as the compiled template does; false where the template ends the work.
fn compare<'r, 'v: 'r>(
    engine: &Engine,
    train_on: TrainOn,
    rows: impl Iterator<Item = &'r Shaped<'v>>,
) -> bool {
    let stops = ["</s>".to_owned()];
    let mut slow = Renderer::new(engine, train_on, &stops, true);
    let mut fast = Renderer::new(engine, train_on, &stops, false);
    for row in rows {
        let (mut ours, mut theirs) = (Rendered::default(), Rendered::default());
        let Ok(expected) = slow.render(row, &mut theirs) else { return false };
        let Ok(found) = fast.render(row, &mut ours) else {
            // The first row is always compared, so that this is found before anything is written.
            return false;
        };
        assert_eq!(found, expected, "{row:?}");
        if expected.is_ok() {
            assert_eq!(ours, theirs, "{row:?}");
            check_spans(&ours);
        }
    }
    true
}

fn check_spans(rendered: &Rendered) {
    for span in &rendered.spans {
        assert!(
            span.start <= span.end && span.end <= rendered.text.len(),
            "{span:?} of {}",
            rendered.text.len()
        );
        assert!(
            rendered.text.is_char_boundary(span.start) && rendered.text.is_char_boundary(span.end),
            "{span:?}"
        );
    }
}
