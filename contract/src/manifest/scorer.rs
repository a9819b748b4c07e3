//! `evaluation.scorer`: the name of a scorer, or an object with one scorer and its settings.

use std::path::Path;

use super::json::{Node, Value};
use super::section::section;
use super::setting::Decode;
use crate::ledger::{Kind, TEXTS};
use crate::plan::RougeVariant;

section! {
    /// A scorer with its settings: one of these keys.
    ScorerChoice = SCORER at "evaluation.scorer" {}
    honoured {
        python ["python"]: Option<String> = None, Kind::OneOf(&[Kind::Text, Kind::Null]),
            "A function in a Python file of the expert's folder, as `score.py:score`. It gets the answer, the reference answer and the row, and returns true or false, a number from 0 to 1, or either with a note.";
        classification ["classification"]: Option<Classification> = None, Kind::OneOf(&[Kind::Object(&CLASSIFICATION), Kind::Null]),
            "The answer is one of a few labels: accuracy, macro F1, a table of the classes and a confusion matrix.";
        judge ["judge"]: Option<Judge> = None, Kind::OneOf(&[Kind::Object(&JUDGE), Kind::Null]),
            "Another model scores each answer from 0 to 1, over an endpoint that speaks OpenAI's protocol.";
        rouge ["rouge"]: Option<RougeVariant> = None, Kind::OneOf(&[Kind::Word(RougeVariant::WORDS), Kind::Null]),
            "ROUGE's F1: shared words (`rouge1`), pairs of words (`rouge2`) or the longest common sequence (`rougeL`, which the name `rouge` stands for).";
    }
    kept {}
}

section! {
    /// The labels of a classification.
    Classification = CLASSIFICATION at "evaluation.scorer.classification" {}
    honoured {
        labels ["labels"]: Vec<String> = Vec::new(), TEXTS,
            "The labels; by default all reference answers of the test and validation rows.";
    }
    kept {}
}

section! {
    /// A model that scores answers. Questions, references and answers are sent to it; `evaluate` names the calls and tokens beforehand.
    Judge = JUDGE at "evaluation.scorer.judge" {
        required: &["url", "model"],
    }
    honoured {
        url ["url"]: String = String::new(), Kind::Text, "The endpoint, as `http://127.0.0.1:8000/v1`.";
        model ["model"]: String = String::new(), Kind::Text, "The model that the endpoint is asked for.";
        key_variable ["key_variable"]: Option<String> = None, Kind::OneOf(&[Kind::Text, Kind::Null]),
            "The environment variable that holds the endpoint's key; its name begins with `JUDGE_`. The key itself is never written anywhere, and sent over https or to this machine only.";
        instructions ["instructions"]: Option<String> = None, Kind::OneOf(&[Kind::Text, Kind::Null]),
            "What a good answer is; by default, one that says the same as the reference.";
        timeout_seconds ["timeout_seconds"]: u32 = 60, Kind::Integer { min: 1, max: 3600 },
            "How long a call may take; a failed call is tried four times.";
        concurrency ["concurrency"]: u32 = 4, Kind::Integer { min: 1, max: 64 }, "Calls at the same time.";
    }
    kept {}
}

#[derive(Debug, Clone, PartialEq)]
pub enum Scorer {
    Named(String),
    Chosen(Box<ScorerChoice>),
}

/// A function in a file of the expert's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function<'a> {
    pub file: &'a str,
    pub name: &'a str,
}

impl Scorer {
    pub fn named(&self) -> Option<&str> {
        if let Self::Named(name) = self { Some(name) } else { None }
    }

    pub fn choice(&self) -> Option<&ScorerChoice> {
        if let Self::Chosen(choice) = self { Some(choice) } else { None }
    }

    /// The scorers that an object names.
    pub fn chosen(&self) -> Vec<&'static str> {
        let Some(choice) = self.choice() else { return Vec::new() };
        let each = [
            ("python", choice.python.is_some()),
            ("classification", choice.classification.is_some()),
            ("judge", choice.judge.is_some()),
            ("rouge", choice.rouge.is_some()),
        ];
        each.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }

    /// The file and function of `python`, if they are written as such.
    pub fn function(&self) -> Option<Function<'_>> {
        self.choice()?.python.as_deref().and_then(Function::parse)
    }
}

impl<'a> Function<'a> {
    /// `folder/score.py:score`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (file, name) = text.rsplit_once(':')?;
        let starts = name.starts_with(|c: char| c == '_' || c.is_alphabetic());
        let is_name = starts && name.chars().all(|c| c == '_' || c.is_alphanumeric());
        let is_python = Path::new(file).extension().is_some_and(|ending| ending == "py");
        (is_name && is_python).then_some(Self { file, name })
    }
}

impl Decode for Scorer {
    fn decode(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Text(name) => Some(Self::Named(name.clone())),
            _ => ScorerChoice::decode(node).map(|choice| Self::Chosen(Box::new(choice))),
        }
    }

    fn show(&self) -> Option<serde_json::Value> {
        self.named().map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_with_its_file() {
        let parsed = Function::parse("scorers/score.py:half_right");
        assert_eq!(parsed, Some(Function { file: "scorers/score.py", name: "half_right" }));
        for text in
            ["score.py", "score.py:", "score:score", ".py:score", "a/.py:f", "score.py:a b", "score.py:1", ""]
        {
            assert_eq!(Function::parse(text), None, "{text}");
        }
    }
}
