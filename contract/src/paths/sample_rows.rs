//! Sample rows of `init` that were left beside other training rows: scores of them say nothing about the expert.

use std::fs;

use super::data::data_path;
use super::parse::packed_ending;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Manifest;
use crate::sample_rows::{Split, rows};

pub fn check(manifest: &Manifest, problems: &mut Vec<Problem>) {
    let dataset = &manifest.root.training.dataset;
    // Only of one file can be said that its rows are others: folders, patterns and packed files may hold the same rows. Of a
    // path that leads nowhere another message speaks.
    let are_others = |text: &String| {
        let file = data_path(text, &manifest.folder);
        let is_plain = file.is_file() && packed_ending(text).is_none() && fs::File::open(&file).is_ok();
        is_plain && !holds(text, Split::Train, manifest)
    };
    if dataset.path.as_ref().is_some_and(|text| !are_others(text)) {
        return;
    }
    let left = [
        (
            &dataset.validation_path,
            Split::Validation,
            "put rows of this expert's task there, or write `\"validation_split\": 0.1` in place of `validation_path`",
        ),
        (
            &dataset.test_path,
            Split::Test,
            "put rows of this expert's task there that training does not have, or remove `test_path`",
        ),
    ];
    for (path, split, hint) in left {
        if let Some(text) = path.as_ref().filter(|text| holds(text, split, manifest)) {
            let message = format!("`{text}` has the sample rows of `init`, and the training rows are others");
            problems.push(Problem::new(Code::DataSample, path.span, message).hint(hint));
        }
    }
}

/// Whether the file is as `init` wrote it. Its length is compared first: data may be large.
fn holds(text: &str, split: Split, manifest: &Manifest) -> bool {
    let (file, sample) = (data_path(text, &manifest.folder), rows(split));
    let same_length = fs::metadata(&file).is_ok_and(|it| it.is_file() && it.len() == sample.len() as u64);
    same_length && fs::read(&file).is_ok_and(|bytes| bytes == sample.as_bytes())
}
