//! Questions for an evaluation from a separate file, which the recipe holds.

use std::path::Path;

use super::problems::Problems;
use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::json::{Node, Value, parse};
use crate::manifest::{Decode, MAX_BYTES, Manifest, Scorer, Setting, TestCase, TestCases};
use crate::paths::{data_path, read_text};

/// Scorers that run answers, and the fields of a row with what they are run on, as the worker has them.
const RUN_ON: &[(&str, &str)] = &[("sql", "schema"), ("cypher", "graph")];

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    // The path check says whether the file is there.
    if are_missing(manifest) {
        return;
    }
    match read(manifest, &manifest.folder) {
        Ok(cases) => problems.extend(without_fields(manifest, &cases)),
        Err(problem) => problems.push(problem),
    }
}

/// A question has no other fields than its prompt and the expected answer.
fn without_fields(manifest: &Manifest, cases: &[TestCase]) -> Option<Problem> {
    let evaluation = &manifest.root.evaluation;
    let scorer = evaluation.scorer.as_ref().and_then(Scorer::named)?;
    let (_, field) = RUN_ON.iter().find(|(name, _)| *name == scorer)?;
    let first = cases.first()?;
    // Places in a file are none of the manifest.
    let is_listed = evaluation.test_cases.file().is_none();
    let span = if is_listed { first.prompt.span } else { evaluation.test_cases.span };
    let message = format!(
        "the scorer `{scorer}` needs the fields `seed` and `{field}`, which a question here cannot have"
    );
    let hint = format!(
        "write the questions into a file of rows with `instruction`, `output`, `seed` and `{field}`, and name it as `training.dataset.test_path` or in `evaluation.test_sets`"
    );
    Some(Problem::new(Code::TestCases, span, message).hint(hint))
}

/// Whether the questions are in a file that is not there.
pub fn are_missing(manifest: &Manifest) -> bool {
    let declared = &*manifest.root.evaluation.test_cases;
    matches!(declared, TestCases::File(file) if !data_path(file, &manifest.folder).is_file())
}

/// The manifest's questions; those of a file are read from it.
pub fn read(manifest: &Manifest, folder: &Path) -> Result<Vec<TestCase>, Problem> {
    let declared = &manifest.root.evaluation.test_cases;
    let file = match &declared.value {
        TestCases::Listed(cases) => return Ok(cases.clone()),
        TestCases::File(file) => file,
    };
    let path = data_path(file, folder);
    let length = std::fs::metadata(&path).map_or(0, |data| data.len());
    if length > MAX_BYTES {
        let problem =
            Problem::new(Code::FileTooLarge, declared.span, format!("`{file}` is larger than 16 MiB"));
        return Err(problem.hint("name it as `training.dataset.test_path`, where it may have any size"));
    }
    let text = read_text(&path).map_err(|error| {
        let message = format!("`{file}` cannot be read: {error}");
        Problem::new(Code::DataMissing, declared.span, message)
            .severity(Severity::Error)
            .hint("put the file there, saved as UTF-8, or correct `evaluation.test_cases`")
    })?;
    let cases = nodes(&text, file, declared)?.into_iter().enumerate().map(|(index, node)| {
        let case = TestCase::decode(&node).filter(|case| case.prompt.is_given() && case.expected.is_given());
        case.ok_or_else(|| {
            let message = format!("question {} of `{file}` lacks `prompt` or `expected`", index + 1);
            Problem::new(Code::MissingKey, declared.span, message).hint("give each question both, as texts")
        })
    });
    cases.collect()
}

/// The items of a JSON list, or else the value of each line.
fn nodes(text: &str, file: &str, declared: &Setting<TestCases>) -> Result<Vec<Node>, Problem> {
    let refused = |code, message| Problem::new(code, declared.span, message);
    let broken = |line: usize, found: Option<Problem>| {
        let said = found.map_or_else(|| "it holds no value".to_owned(), |problem| problem.message);
        refused(Code::WrongType, format!("line {line} of `{file}` is not valid JSON: {said}"))
            .hint("write one question per line as a JSON object, or one JSON list of them")
    };
    if text.trim_start().starts_with('[') {
        return match value(text) {
            Ok(Node { value: Value::List(nodes), .. }) => Ok(nodes),
            Err(Some(problem)) if problem.code == Code::FileTooLarge => {
                Err(refused(problem.code, format!("`{file}`: {}", problem.message))
                    .hint("write one question per line, or name it as `training.dataset.test_path`"))
            }
            found => {
                let found = found.err().flatten();
                let at = found.as_ref().map_or(0, |problem| problem.span.start as usize);
                Err(broken(1 + text[..at].matches('\n').count(), found))
            }
        };
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| value(line).map_err(|found| broken(index + 1, found))).collect()
}

/// The value that a text holds, or the first problem of its syntax.
fn value(text: &str) -> Result<Node, Option<Problem>> {
    let parsed = parse(text, 0);
    match (parsed.root, parsed.problems.into_iter().next()) {
        (Some(root), None) => Ok(root),
        (_, found) => Err(found.map(|(problem, _)| problem)),
    }
}
