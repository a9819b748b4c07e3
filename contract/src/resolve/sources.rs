//! Which data a manifest names, in the recipe's words and at its places on this machine.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::manifest::{DatasetType, Root};
use crate::paths::{data_files, data_path, format_of_ending, is_pattern};
use crate::plan::{DataFormat, Source, TestSet};

use super::site::Site;

#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub train: Vec<Source>,
    pub validation: Vec<Source>,
    pub test: Vec<Source>,
    /// Source name -> absolute file; Hub datasets have none.
    pub paths: BTreeMap<String, PathBuf>,
    /// Further test sets by name; none where the command line names the test rows.
    pub test_sets: BTreeMap<String, TestSet>,
}

pub fn collect(root: &Root, site: &Site) -> Sources {
    let dataset = &root.training.dataset;
    let mut sources = Sources::default();
    let mut add = |name: &str, format: Option<DataFormat>, weight: f64, task: Option<String>| {
        let source = named(name, format, weight, task);
        if source.format != DataFormat::Huggingface {
            return placed(source, name, &data_path(name, site.expert_dir()), format, &mut sources.paths);
        }
        vec![source]
    };
    let on_hub = dataset.resolved_kind() == DatasetType::Huggingface;
    let format = if on_hub { Some(DataFormat::Huggingface) } else { *dataset.format };
    let (mut train, mut validation, mut test) = (Vec::new(), Vec::new(), Vec::new());
    let is_mixture = dataset.resolved_kind() == DatasetType::MultiTask;
    for (task, weight, parts) in dataset.used_tasks().filter(|_| is_mixture) {
        let format = parts.format.value.or(format);
        train.extend(add(&parts.path, format, weight, Some(task.clone())));
        validation.extend(
            parts.validation_path.iter().flat_map(|path| add(path, format, weight, Some(task.clone()))),
        );
        test.extend(parts.test_path.iter().flat_map(|path| add(path, format, weight, Some(task.clone()))));
    }
    if train.is_empty() {
        train.extend(dataset.path.iter().flat_map(|path| add(path, format, 1.0, None)));
    }
    validation.extend(dataset.validation_path.iter().flat_map(|path| add(path, of_files(format), 1.0, None)));
    test.extend(dataset.test_path.iter().flat_map(|path| add(path, of_files(format), 1.0, None)));
    if let Some(file) = &site.data {
        train = sources.given(file);
    }
    if let Some(file) = &site.test {
        test = sources.given(file);
    }
    let further = root.evaluation.test_sets.0.iter().filter(|_| site.test.is_none());
    let test_sets =
        further.map(|set| (set.name.clone(), test_set(&set.path, of_files(format), site))).collect();
    // What the command line stands in for is not read.
    let is_read = |name: &str| train.iter().chain(&validation).chain(&test).any(|source| source.name == name);
    sources.paths.retain(|name, _| is_read(name));
    Sources { train, validation, test, test_sets, ..sources }
}

/// Its files have a separate table, because those of the machine's paths decide what is trained.
fn test_set(path: &str, format: Option<DataFormat>, site: &Site) -> TestSet {
    let source = named(path, format, 1.0, None);
    let mut files = BTreeMap::new();
    let sources = match source.format {
        DataFormat::Huggingface => vec![source],
        _ => placed(source, path, &data_path(path, site.expert_dir()), format, &mut files),
    };
    let files = files.into_iter().map(|(name, file)| (name, file.to_string_lossy().into_owned())).collect();
    TestSet { sources, files }
}

impl Sources {
    /// Data from the command line.
    fn given(&mut self, data: &Path) -> Vec<Source> {
        let name = free_name(&name_of(data), data, &self.paths);
        let source = named(&name, None, 1.0, None);
        match source.format {
            DataFormat::Huggingface => vec![source],
            _ => placed(source, &name, data, None, &mut self.paths),
        }
    }
}

/// `huggingface` speaks of the dataset, not of files that stand beside it.
fn of_files(format: Option<DataFormat>) -> Option<DataFormat> {
    format.filter(|it| *it != DataFormat::Huggingface)
}

fn named(name: &str, format: Option<DataFormat>, weight: f64, task: Option<String>) -> Source {
    Source { name: name.replace('\\', "/"), format: format_of(name, format), weight, task }
}

/// A name with `::` is a Hub dataset, whatever format its files have. Without a format the file's ending decides,
/// and JSON lines are what everything else is taken for.
fn format_of(name: &str, format: Option<DataFormat>) -> DataFormat {
    if name.contains("::") {
        return DataFormat::Huggingface;
    }
    format.or_else(|| format_of_ending(name)).unwrap_or(DataFormat::Jsonl)
}

/// A source per file of a folder or pattern, each at its place. What does not mean any file stays as it is named.
fn placed(
    source: Source,
    text: &str,
    path: &Path,
    format: Option<DataFormat>,
    paths: &mut BTreeMap<String, PathBuf>,
) -> Vec<Source> {
    let files = data_files(&text.replace('\\', "/"), path).unwrap_or_default();
    match &files[..] {
        [] => {
            paths.insert(source.name.clone(), path.to_owned());
            vec![source]
        }
        [(name, file)] if file == path || file.is_dir() => {
            // A folder of `save_to_disk`.
            let format = if file.is_dir() { format.unwrap_or(DataFormat::Arrow) } else { source.format };
            let name = if file.is_dir() { name.clone() } else { source.name.clone() };
            paths.insert(name.clone(), file.clone());
            vec![Source { name, format, ..source }]
        }
        files => {
            let each = |(name, file): &(String, PathBuf)| {
                let name = free_name(name, file, paths);
                paths.insert(name.clone(), file.clone());
                let format = format_of_ending(&name).or(format).unwrap_or(DataFormat::Jsonl);
                Source { name, format, ..source.clone() }
            };
            files.iter().map(each).collect()
        }
    }
}

/// The path itself where another file already has the name.
fn free_name(name: &str, file: &Path, paths: &BTreeMap<String, PathBuf>) -> String {
    match paths.get(name) {
        Some(other) if other != file => file.to_string_lossy().into_owned(),
        _ => name.to_owned(),
    }
}

/// Of a path on the command line: its last part; of a pattern from its first part with a wildcard on.
fn name_of(path: &Path) -> String {
    let whole = path.to_string_lossy();
    if whole.contains("::") || path.file_name().is_none() {
        return whole.into_owned();
    }
    let parts: Vec<_> = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let text = |part: &Component<'_>| part.as_os_str().to_string_lossy().into_owned();
    let last = parts.len().saturating_sub(1);
    let first = parts.iter().position(|part| is_pattern(&text(part))).filter(|_| !path.exists());
    parts[first.unwrap_or(last)..].iter().map(text).collect::<Vec<_>>().join("/")
}
