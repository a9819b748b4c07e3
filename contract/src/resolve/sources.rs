//! Which data a manifest names, in the recipe's words and at its places on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::manifest::{Dataset, DatasetType};
use crate::paths::{data_path, format_of_ending};
use crate::plan::{DataFormat, Source};

use super::site::Site;

#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub train: Vec<Source>,
    pub validation: Vec<Source>,
    pub test: Vec<Source>,
    /// Source name -> absolute file; Hub datasets have none.
    pub paths: BTreeMap<String, PathBuf>,
}

pub fn collect(dataset: &Dataset, site: &Site) -> Sources {
    let mut sources = Sources::default();
    let mut add = |name: &str, format: Option<DataFormat>, weight: f64, task: Option<String>| {
        let source = named(name, format, weight, task);
        if source.format != DataFormat::Huggingface {
            sources.paths.insert(source.name.clone(), data_path(name, site.expert_dir()));
        }
        source
    };
    let on_hub = dataset.resolved_kind() == DatasetType::Huggingface;
    let format = if on_hub { Some(DataFormat::Huggingface) } else { *dataset.format };
    let (mut train, mut validation, mut test) = (Vec::new(), Vec::new(), Vec::new());
    let tasks =
        if dataset.resolved_kind() == DatasetType::MultiTask { dataset.weighted_tasks() } else { Vec::new() };
    for (task, weight, parts) in tasks {
        let format = parts.format.value.or(format);
        train.push(add(&parts.path, format, weight, Some(task.clone())));
        validation.extend(
            parts.validation_path.as_deref().map(|path| add(path, format, weight, Some(task.clone()))),
        );
        test.extend(parts.test_path.as_deref().map(|path| add(path, format, weight, Some(task.clone()))));
    }
    if train.is_empty() {
        train.extend(dataset.path.as_deref().map(|path| add(path, format, 1.0, None)));
    }
    validation
        .extend(dataset.validation_path.as_deref().map(|path| add(path, local(path, format), 1.0, None)));
    test.extend(dataset.test_path.as_deref().map(|path| add(path, local(path, format), 1.0, None)));
    if let Some(file) = &site.data {
        train = vec![sources.given(file)];
    }
    if let Some(file) = &site.test {
        test = vec![sources.given(file)];
    }
    Sources { train, validation, test, ..sources }
}

impl Sources {
    /// A file from the command line: by its name, or by its path where another source has that name.
    fn given(&mut self, file: &Path) -> Source {
        let name = file_name(file);
        let taken = self.paths.get(&name).is_some_and(|other| other != file);
        let name = if taken { file.to_string_lossy().into_owned() } else { name };
        let source = named(&name, None, 1.0, None);
        self.paths.insert(source.name.clone(), file.to_owned());
        source
    }
}

/// `huggingface` speaks of the dataset, not of files that stand beside it.
fn local(path: &str, format: Option<DataFormat>) -> Option<DataFormat> {
    format.filter(|it| *it != DataFormat::Huggingface || path.contains("::"))
}

fn named(name: &str, format: Option<DataFormat>, weight: f64, task: Option<String>) -> Source {
    Source { name: name.replace('\\', "/"), format: format.unwrap_or_else(|| format_of(name)), weight, task }
}

/// By the file's ending; a name with `::` is a Hub dataset, and JSON lines are what everything else is taken for.
fn format_of(name: &str) -> DataFormat {
    if name.contains("::") {
        return DataFormat::Huggingface;
    }
    format_of_ending(name).unwrap_or(DataFormat::Jsonl)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.to_string_lossy().into_owned(), |it| it.to_string_lossy().into_owned())
}
