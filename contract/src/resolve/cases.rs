//! Questions for an evaluation from a separate file.

use crate::diagnostic::{Code, Problem};
use crate::manifest::json::{Node, Value, parse};
use crate::manifest::{Decode, Effective, MAX_BYTES, TestCase, TestCases};
use crate::paths::data_path;

use super::site::Site;

/// The manifest's questions; those of a file are read from it, so that the recipe holds what is asked.
pub fn read(expert: &Effective<'_>, site: &Site) -> Result<Vec<TestCase>, Problem> {
    let declared = &expert.manifest.root.evaluation.test_cases;
    let file = match &declared.value {
        TestCases::Listed(cases) => return Ok(cases.clone()),
        TestCases::File(file) => file,
    };
    let path = data_path(file, site.expert_dir());
    let length = std::fs::metadata(&path).map_or(0, |data| data.len());
    if length > MAX_BYTES {
        let problem =
            Problem::new(Code::FileTooLarge, declared.span, format!("`{file}` is larger than 16 MiB"));
        return Err(problem.hint("name it as `training.dataset.test_path`, where it may have any size"));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let message = format!("`{file}` cannot be read: {error}");
        Problem::new(Code::DataMissing, declared.span, message).hint("check `evaluation.test_cases`")
    })?;
    let nodes = nodes(&text).ok_or_else(|| {
        let message = format!("`{file}` is neither a JSON list nor one JSON object per line");
        Problem::new(Code::WrongType, declared.span, message)
            .hint("write one question per line as a JSON object")
    })?;
    let cases = nodes.iter().enumerate().map(|(index, node)| {
        let case = TestCase::decode(node).filter(|case| case.prompt.is_given() && case.expected.is_given());
        case.ok_or_else(|| {
            let message = format!("question {} of `{file}` lacks `prompt` or `expected`", index + 1);
            Problem::new(Code::MissingKey, declared.span, message).hint("give each question both, as texts")
        })
    });
    cases.collect()
}

fn nodes(text: &str) -> Option<Vec<Node>> {
    let whole = |text: &str| {
        let parsed = parse(text, 0);
        parsed.root.filter(|_| parsed.problems.is_empty())
    };
    match whole(text).map(|node| node.value) {
        Some(Value::List(nodes)) => Some(nodes),
        _ => text.lines().filter(|line| !line.trim().is_empty()).map(whole).collect(),
    }
}
