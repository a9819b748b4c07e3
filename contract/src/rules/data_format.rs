//! A file's format comes from `format`, or from its extension.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{DatasetType, Manifest};
use crate::paths::{data_path, format_of_ending, hub_id, is_pattern, unknown_ending};
use crate::plan::DataFormat;
use crate::source::Span;

pub fn check(manifest: &Manifest, problems: &mut Problems) {
    let dataset = &manifest.root.training.dataset;
    let on_hub = dataset.resolved_kind() == DatasetType::Huggingface;
    if !on_hub {
        judge(manifest, dataset.path.as_deref(), dataset.path.span, *dataset.format, problems);
    }
    let beside = [&dataset.validation_path, &dataset.test_path].map(|it| (it.as_deref(), it.span));
    let sets = manifest.root.evaluation.test_sets.0.iter().map(|set| (Some(set.path.as_str()), set.span));
    for (path, span) in beside.into_iter().chain(sets) {
        // `format` is that of the dataset then, and not of files beside it.
        if on_hub && path.is_none_or(|path| unknown_ending(path, None).is_none()) {
            continue;
        }
        judge(manifest, path, span, dataset.format.filter(|_| !on_hub), problems);
    }
    if on_hub {
        return;
    }
    for task in &dataset.tasks.0 {
        let format = task.format.value.or(*dataset.format);
        judge(manifest, Some(&task.path), task.path.span, format, problems);
        judge(manifest, task.validation_path.as_deref(), task.validation_path.span, format, problems);
        judge(manifest, task.test_path.as_deref(), task.test_path.span, format, problems);
    }
}

fn judge(
    manifest: &Manifest,
    path: Option<&str>,
    span: Span,
    format: Option<DataFormat>,
    problems: &mut Problems,
) {
    let Some(path) = path.filter(|path| !path.trim().is_empty() && !path.contains("::")) else { return };
    let place = data_path(path, &manifest.folder);
    if place.is_dir() || is_pattern(path) {
        return;
    }
    let problem = match (format, format_of_ending(path)) {
        // The path check says that it is missing, and how a dataset of the Hub is named.
        (None, None) if hub_id(path).is_some() && !place.exists() => return,
        (format, None) => {
            let untold = || {
                let hint = "add \"format\": \"jsonl\" (or json, csv, parquet, arrow)".to_owned();
                ("the format is not clear from the file's extension".to_owned(), hint)
            };
            let found = unknown_ending(path, format).or_else(|| format.is_none().then(untold));
            let Some((message, hint)) = found else { return };
            Problem::new(Code::DataFormat, span, message).hint(hint)
        }
        // JSON lines in a .json file are common, and the reader detects them.
        (Some(DataFormat::Json | DataFormat::Jsonl), Some(DataFormat::Json | DataFormat::Jsonl)) => return,
        (Some(format), Some(ending)) if format != ending => Problem::new(
            Code::DataFormat,
            span,
            format!("`format` is `{format}`, but the ending of the file's name says {ending}"),
        )
        .hint("make them agree, or leave `format` out"),
        _ => return,
    };
    problems.push(problem);
}
