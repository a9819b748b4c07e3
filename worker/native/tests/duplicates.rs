//! Copies among rows: planted ones are found, and rows of one template are not called copies.

use std::collections::BTreeSet;

use expert_native::duplicates::{Found, Sketcher, find};
use expert_native::rows::{Shaped, TrainOn, Turn};

type Row = (String, String);

fn turn(role: &'static str, content: &str) -> Turn<'static> {
    Turn::new(role.to_owned(), content.to_owned())
}

fn compared(parts: &[&[Row]]) -> Found {
    let mut sketcher = Sketcher::new(TrainOn::Completions);
    let mut ends = Vec::new();
    for part in parts {
        for (question, answer) in *part {
            let fingerprint = print(&format!("{question}\0{answer}"));
            let turns = [("system", "Answer briefly."), ("user", question), ("assistant", answer)];
            let turns = turns.into_iter().map(|(role, content)| turn(role, content)).collect();
            sketcher.add(&Shaped::Turns(turns), fingerprint);
        }
        ends.push(sketcher.sketches.len() as u32);
    }
    find(&sketcher.sketches, &ends)
}

fn texts(parts: &[&[&str]]) -> Found {
    let mut sketcher = Sketcher::new(TrainOn::Completions);
    let mut ends = Vec::new();
    for part in parts {
        for text in *part {
            sketcher.add(&Shaped::Text((*text).into()), print(text));
        }
        ends.push(sketcher.sketches.len() as u32);
    }
    find(&sketcher.sketches, &ends)
}

fn print(text: &str) -> u128 {
    text.bytes().fold(7, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0001_0000_0001_b300_0000_01b3))
}

const TABLES: [&str; 12] = [
    "tracks", "films", "books", "orders", "players", "museums", "bridges", "rivers", "invoices", "flights",
    "recipes", "stars",
];
const COLUMNS: [&str; 12] = [
    "length", "price", "weight", "rating", "height", "age", "distance", "capacity", "salary", "depth",
    "width", "score",
];

/// Rows of three templates, each of which asks for something else.
fn generated(first: usize, count: usize) -> Vec<Row> {
    (first..first + count)
        .map(|at| {
            let (table, column) = (TABLES[at % 12], COLUMNS[at / 12 % 12]);
            let (other, number) = (COLUMNS[(at / 12 + 1 + at % 5) % 12], 10 + at * 7);
            match at % 3 {
                0 => (
                    format!("Show the name and the {other} of all {table} with a {column} above {number}."),
                    format!("SELECT name, {other} FROM {table} WHERE {column} > {number}"),
                ),
                1 => (
                    format!("Show the name and the {other} of all {table} with a {column} below {number}."),
                    format!("SELECT name, {other} FROM {table} WHERE {column} < {number}"),
                ),
                _ => (
                    format!(
                        "How many {table} with a {column} of exactly {number} are there for each {other}?"
                    ),
                    format!(
                        "SELECT {other}, COUNT(*) FROM {table} WHERE {column} = {number} GROUP BY {other}"
                    ),
                ),
            }
        })
        .collect()
}

fn replaced(question: &str, place: usize) -> String {
    let mut words: Vec<&str> = question.split(' ').collect();
    let place = place % words.len();
    words[place] = "whatever";
    words.join(" ")
}

#[test]
fn planted_copies_are_found_and_rows_of_one_template_are_not() {
    let train = generated(0, 3000);
    let mut test = generated(3000, 600);
    let own = test.len();
    let ways: [fn(&Row, usize) -> Row; 5] = [
        |(question, answer), _| (question.clone(), answer.clone()),
        |(question, answer), _| (question.to_uppercase(), answer.clone()),
        |(question, answer), _| (question.replace(['.', '?'], " !"), answer.clone()),
        |(question, answer), _| (format!("  {question}"), answer.replace(' ', "\n")),
        |(question, answer), at| (replaced(question, at), answer.clone()),
    ];
    let mut planted = BTreeSet::new();
    for (at, row) in train.iter().step_by(6).enumerate() {
        planted.insert(test.len() as u32 + 3000);
        test.push(ways[at % 5](row, at));
    }
    let found = compared(&[&train, &test]);
    let [overlap] = &found.overlaps[..] else { panic!("{:?}", found.overlaps) };
    assert_eq!((overlap.part, overlap.of, overlap.exact), (1, 0, 100));
    let (all, right) = (f64::from(planted.len() as u32), (overlap.exact + overlap.near) as f64);
    // Precision: no row that the generator made for the test part is a copy.
    assert!(right <= all, "{right} of {all}");
    assert!(compared(&[&train, &test[..own]]).overlaps.is_empty());
    // Recall: all except some with another word.
    assert!(right / all >= 0.97, "{right} of {all}");
    assert_eq!(overlap.examples.len(), 3);
    assert!(overlap.examples.iter().all(|(copy, of)| planted.contains(copy) && (*of as usize) < train.len()));
}

#[test]
fn repeats_within_the_first_part_are_its_later_rows() {
    let mut train = generated(0, 300);
    train.push(train[5].clone());
    train.push((train[9].0.to_lowercase(), train[9].1.clone()));
    train.push((replaced(&train[12].0, 1), train[12].1.clone()));
    let found = compared(&[&train, &[]]);
    assert_eq!(found.repeats, [(300, 5), (301, 9), (302, 12)]);
    assert_eq!((found.overlaps[0].exact, found.overlaps[0].near), (1, 2));
    assert_eq!(found.overlaps[0].examples, [(300, 5), (301, 9), (302, 12)]);
}

#[test]
fn rows_that_copy_another_part_are_named_with_the_row_that_they_copy() {
    let train = generated(0, 300);
    let validation = vec![train[7].clone(), generated(900, 1)[0].clone()];
    let mut test = vec![(replaced(&train[12].0, 1), train[12].1.clone()), validation[1].clone()];
    // A copy within one part.
    test.push(generated(1200, 1)[0].clone());
    test.push(generated(1200, 1)[0].clone());
    let found = compared(&[&train, &validation, &test]);
    assert_eq!(found.across, [(300, 7), (302, 12), (303, 301)]);
    assert_eq!(found.repeats, []);
}

#[test]
fn the_same_question_with_another_answer_is_not_a_copy() {
    let row = |question: &str, answer: &str| vec![(question.to_owned(), answer.to_owned())];
    let one =
        row("Write one line of a poem about the sea at night.", "The tide rehearses silver under stars.");
    let other =
        row("Write one line of a poem about the sea at night.", "Dark water keeps the moon for itself.");
    assert!(compared(&[&one, &other]).overlaps.is_empty());
}

#[test]
fn the_same_question_and_answer_under_another_system_message_is_not_a_copy() {
    let told = |system: &str, question: &str| {
        let turns = [("system", system), ("user", question), ("assistant", "urgent")];
        Shaped::Turns(turns.into_iter().map(|(role, content)| turn(role, content)).collect())
    };
    let rows = [
        told("Document: The bridge is closed.", "How urgent is the document?"),
        told("Document: Lunch is at noon.", "How urgent is the document?"),
        told("Document: the bridge\nis CLOSED.", "How urgent is the document"),
    ];
    let mut sketcher = Sketcher::new(TrainOn::Completions);
    for (at, row) in rows.iter().enumerate() {
        sketcher.add(row, at as u128 + 1);
    }
    assert_eq!(find(&sketcher.sketches, &[3]).repeats, [(2, 0)]);
}

#[test]
fn dialogues_that_end_with_a_question_are_compared_by_their_last_answer() {
    let talk = |answer: &str, last: &str| {
        let turns = [("user", "Name a colour of the sea."), ("assistant", answer), ("user", last)];
        Shaped::Turns(turns.into_iter().map(|(role, content)| turn(role, content)).collect())
    };
    let repeats = |train_on: TrainOn| {
        let mut sketcher = Sketcher::new(train_on);
        let rows = [
            talk("blue", "Thank you very much!"),
            talk("green", "Thank you very much!"),
            talk("blue", "And what about the sky above it?"),
        ];
        for (at, row) in rows.iter().enumerate() {
            sketcher.add(row, at as u128 + 1);
        }
        find(&sketcher.sketches, &[3]).repeats
    };
    assert_eq!(repeats(TrainOn::Completions), [(2, 0)]);
    // Every message is learned.
    assert_eq!(repeats(TrainOn::All), []);
}

#[test]
fn a_label_says_little_about_a_row() {
    let row =
        |thing: &str| vec![(format!("The {thing} at this place was really great"), "positive".to_owned())];
    assert!(compared(&[&row("food"), &row("music")]).overlaps.is_empty());
    assert_eq!(compared(&[&row("food"), &row("FOOD")]).overlaps[0].near, 1);
}

#[test]
fn plain_texts_and_scripts_without_spaces_are_compared() {
    let text = "The committee met on the first Monday of the month and agreed to publish the minutes of every later meeting within a week.";
    let edited = text.replace("Monday", "Tuesday");
    let found = texts(&[
        &[text],
        &[&edited, "Nothing else in here has anything to do with the committee of that text."],
    ]);
    assert_eq!((found.overlaps.len(), found.overlaps[0].near), (1, 1));
    let chinese =
        "委员会于每月第一个星期一开会并同意在一周内公布以后每次会议的记录以便所有成员可以查阅这些文件";
    let found = texts(&[
        &[chinese],
        &[&chinese.replace("一周", "两周"), "今天的天气很好我们去公园散步然后回家吃饭看电影"],
    ]);
    assert_eq!((found.overlaps.len(), found.overlaps[0].near), (1, 1));
    // Without any word, only the same text is a copy.
    let found = texts(&[&["???", "!!!"], &["???", "..."]]);
    assert_eq!((found.overlaps.len(), found.overlaps[0].exact), (1, 1));
}

#[test]
fn long_texts_are_compared_by_a_sample_of_their_words() {
    let words: Vec<String> = (0..4000).map(|at| format!("w{}", at * at % 9973)).collect();
    let text = words.join(" ");
    let edited = text.replacen("w1 ", "x ", 1).replacen("w100 ", "y ", 1);
    let half = words[..2000].join(" ");
    let found = texts(&[&[&text], &[&edited, &half]]);
    assert_eq!((found.overlaps.len(), found.overlaps[0].near), (1, 1));
}
