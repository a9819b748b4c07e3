//! Data files, and an adapter to start from: inside the expert's folder, existing, and not empty.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use super::files::{NotData, find_data, hub_name, is_pattern};
use super::parse::is_windows_absolute;
use crate::adapters::{self, CONFIG};
use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::{DatasetType, Function, GrammarChoice, Manifest, Options, Scorer, is_lfs_pointer};
use crate::source::Span;

pub const STAY_INSIDE: &str = "keep it in the expert's folder, or allow the other folder with --allow-path";

/// A tilde is not read in data paths, whatever is allowed.
const NO_HOME: &str =
    "keep it in the expert's folder, or write the absolute path and allow its folder with --allow-path";

/// A data path on this system: backslashes separate folders wherever the manifest was written.
pub fn data_path(text: &str, folder: &Path) -> PathBuf {
    folder.join(text.replace('\\', "/"))
}

pub fn check(manifest: &Manifest, options: &Options, problems: &mut Vec<Problem>) {
    let checker = Checker { folder: &manifest.folder, options };
    for (path, span, many) in named(manifest) {
        if let Err(problem) = checker.check(&path, span, many) {
            problems.push(problem);
        }
    }
}

/// How many files a path may mean.
#[derive(Clone, Copy, PartialEq)]
enum Many {
    One,
    /// A file of code.
    Script,
    /// A prompt template's text.
    Template,
    Grammar,
    /// The folder of an adapter.
    Adapter,
    Any,
    /// None: a data set of the Hub.
    Hub,
}

/// Every file that the manifest names as data, the templates that belong to it, and adapters to start from.
fn named(manifest: &Manifest) -> Vec<(String, Span, Many)> {
    let dataset = &manifest.root.training.dataset;
    let mut found = Vec::new();
    let mut add = |path: Option<&String>, span: Span, many: Many| {
        found.extend(path.filter(|path| !path.trim().is_empty()).map(|path| {
            let many = if many == Many::Any && path.contains("::") { Many::Hub } else { many };
            (path.clone(), span, many)
        }));
    };
    let is_on_hub = dataset.resolved_kind() == DatasetType::Huggingface;
    add(dataset.path.as_ref(), dataset.path.span, if is_on_hub { Many::Hub } else { Many::Any });
    add(dataset.validation_path.as_ref(), dataset.validation_path.span, Many::Any);
    add(dataset.test_path.as_ref(), dataset.test_path.span, Many::Any);
    for task in &dataset.tasks.0 {
        add(Some(&task.path.value), task.path.span, Many::Any);
        add(task.validation_path.as_ref(), task.validation_path.span, Many::Any);
        add(task.test_path.as_ref(), task.test_path.span, Many::Any);
    }
    for set in &manifest.root.evaluation.test_sets.0 {
        add(Some(&set.path), set.span, Many::Any);
    }
    let cases = &manifest.root.evaluation.test_cases;
    add(cases.file(), cases.span, Many::One);
    if let Some(choice) = manifest.root.evaluation.scorer.as_ref().and_then(Scorer::choice) {
        let file =
            choice.python.as_deref().and_then(Function::parse).map(|function| function.file.to_owned());
        add(file.as_ref(), choice.python.span, Many::Script);
    }
    let decoding = &manifest.root.training.decoding;
    if let GrammarChoice::File(file) = decoding.grammar() {
        add(Some(&file.to_owned()), decoding.grammar_file.span, Many::Grammar);
    }
    for base in &manifest.bases {
        add(base.template_path.as_ref(), base.template_path.span, Many::Template);
    }
    for effective in manifest.all_effective() {
        let initial = &effective.config.initial_adapter;
        if !found.iter().any(|(_, span, many)| *many == Many::Adapter && *span == initial.span) {
            found.extend(initial.value.clone().map(|path| (path, initial.span, Many::Adapter)));
        }
    }
    found
}

/// Where they are or would be: data, folders and patterns of it, test cases, scorer, grammar, templates and the files of
/// adapters.
pub fn named_files(manifest: &Manifest) -> impl Iterator<Item = PathBuf> {
    named(manifest).into_iter().filter(|(_, _, many)| *many != Many::Hub).flat_map(|(text, _, many)| {
        let path = data_path(&text, &manifest.folder);
        if many == Many::Adapter { adapters::files(&path).to_vec() } else { vec![path] }
    })
}

struct Checker<'a> {
    folder: &'a Path,
    options: &'a Options,
}

impl Checker<'_> {
    fn check(&self, text: &str, span: Span, many: Many) -> Result<(), Problem> {
        if text.contains('\0') {
            let problem = Problem::new(Code::PathInvalid, span, "a path cannot hold a NUL character");
            return Err(problem.hint("remove it"));
        }
        // Paths on the command line are the user's choice.
        let free = span.is_argument();
        if many == Many::Hub {
            return if free || self.options.anywhere { Ok(()) } else { Self::on_hub(text, span) };
        }
        if !free && !self.is_allowed(text) {
            Self::lexically_inside(text, span)?;
        }
        let path = data_path(text, self.folder);
        if many == Many::Any && (path.is_dir() || is_pattern(text) && !path.exists()) {
            return self.several(text, &path, span, free);
        }
        if many == Many::Adapter {
            return self.adapter(text, &path, span, free);
        }
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if many == Many::Script && error.kind() == ErrorKind::NotFound => {
                let problem = Problem::new(Code::DataMissing, span, format!("`{text}` is not here"));
                return Err(problem.severity(self.severity()).hint(
                    "write the function into that file first; the path is relative to the manifest's folder",
                ));
            }
            Err(_) if many == Many::Template => {
                let message = format!("the template `{text}` is not here");
                let hint = "put the file in the expert's folder, to which the path is relative, or choose a built-in `prompt_template`";
                return Err(Problem::new(Code::TemplateSource, span, message).hint(hint));
            }
            Err(_) if many == Many::Grammar => {
                let message = format!("the grammar `{text}` is not here");
                let hint = "put the file in the expert's folder, to which the path is relative, or remove `grammar_file`";
                return Err(Problem::new(Code::GrammarFile, span, message).hint(hint));
            }
            Err(error) => return Err(self.absent(text, span, &error)),
        };
        if !free && !self.is_allowed(text) && !is_under(&path, self.folder) {
            let message = format!("`{text}` leaves the expert's folder through a symbolic link");
            return Err(Problem::new(Code::PathOutside, span, message).hint(STAY_INSIDE));
        }
        if metadata.is_dir() {
            // Only one file is meant.
            let problem = Problem::new(Code::PathInvalid, span, format!("`{text}` is a folder, not a file"));
            return Err(problem.hint("name a file in it"));
        }
        if !metadata.is_file() {
            let (message, hint) = NotData::Pipe.words(text, "path");
            return Err(Problem::new(Code::PathInvalid, span, message).hint(hint));
        }
        self.content(text, &path, metadata.len(), span)
    }

    /// A folder, or a pattern.
    fn several(&self, text: &str, path: &Path, span: Span, free: bool) -> Result<(), Problem> {
        let found = find_data(text, path).map_err(|reason| {
            let (message, hint) = reason.words(text, "path");
            let missing = matches!(reason, NotData::NoFiles | NotData::Missing);
            let is_absent = missing || matches!(reason, NotData::Unreadable(..));
            let code = if is_absent { Code::DataMissing } else { Code::PathInvalid };
            let severity = if missing { self.severity() } else { Severity::Error };
            Problem::new(code, span, message).severity(severity).hint(hint)
        })?;
        if !free && !self.is_allowed(text) && !found.files.iter().all(|(_, file)| is_under(file, self.folder))
        {
            let message = format!("`{text}` leaves the expert's folder through a symbolic link");
            return Err(Problem::new(Code::PathOutside, span, message).hint(STAY_INSIDE));
        }
        match found.left_out_words(text) {
            Some((message, hint)) => Err(Problem::new(Code::DataLeftOut, span, message).hint(hint)),
            None => Ok(()),
        }
    }

    /// A folder that holds both files of an adapter.
    fn adapter(&self, text: &str, path: &Path, span: Span, free: bool) -> Result<(), Problem> {
        // The rule about it says that no folder is named.
        if text.trim().is_empty() {
            return Ok(());
        }
        if let Some(missing) = adapters::missing_file(path) {
            let message = if path.is_dir() {
                format!("`{text}` is not an adapter: it has no {missing}")
            } else {
                format!("there is no adapter `{text}`")
            };
            let is_run = path.join("final").join(CONFIG).is_file();
            let hint = if is_run {
                format!("name the finished adapter in it, `{}/final`", text.trim_end_matches(['/', '\\']))
            } else {
                "name the `final/` folder of a run, or a folder that peft saved an adapter to; the path is relative to the manifest's folder".to_owned()
            };
            return Err(Problem::new(Code::DataMissing, span, message).severity(self.severity()).hint(hint));
        }
        if !free
            && !self.is_allowed(text)
            && !adapters::files(path).iter().all(|file| is_under(file, self.folder))
        {
            let message = format!("`{text}` leaves the expert's folder through a symbolic link");
            return Err(Problem::new(Code::PathOutside, span, message).hint(STAY_INSIDE));
        }
        Ok(())
    }

    /// The library that fetches data sets takes a folder of that name first.
    fn on_hub(text: &str, span: Span) -> Result<(), Problem> {
        let name = text.split("::").next().unwrap_or(text);
        if hub_name(name).is_some() {
            return Ok(());
        }
        let message = format!("`{name}` is not the name of a data set of the Hub");
        Err(Problem::new(Code::PathOutside, span, message)
            .hint("write `owner/name::split`, as the data set's page names it; a file or folder has no `::`"))
    }

    fn lexically_inside(text: &str, span: Span) -> Result<(), Problem> {
        let slashed = text.replace('\\', "/");
        let reason = if is_windows_absolute(text) || slashed.starts_with('/') {
            "is absolute"
        } else if slashed == "~" || slashed.starts_with("~/") {
            "is in the home folder"
        } else if Path::new(&slashed).components().any(|part| part == Component::ParentDir) {
            "holds `..`"
        } else {
            return Ok(());
        };
        let message = format!("`{text}` {reason}, and data must be in the expert's folder");
        let hint = if slashed.starts_with('~') { NO_HOME } else { STAY_INSIDE };
        Err(Problem::new(Code::PathOutside, span, message).hint(hint))
    }

    /// Whether the path is in a folder that the command line allows, with links resolved.
    fn is_allowed(&self, text: &str) -> bool {
        let path = data_path(text, self.folder);
        self.options.anywhere || self.options.allowed.iter().any(|root| is_under(&path, root))
    }

    fn severity(&self) -> Severity {
        if self.options.strict { Severity::Error } else { Severity::Warning }
    }

    fn absent(&self, text: &str, span: Span, error: &std::io::Error) -> Problem {
        let named = text.trim_end_matches(['/', '\\']);
        let (message, hint) = if named != text && data_path(named, self.folder).is_file() {
            (
                format!("`{named}` is a file, and a slash ends the name of a folder"),
                format!("write `{named}`"),
            )
        } else if error.kind() == ErrorKind::PermissionDenied {
            (
                format!("there is no permission to read `{text}`"),
                "check the permissions of the file and its folders".to_owned(),
            )
        } else {
            NotData::Missing.words(text, "path")
        };
        Problem::new(Code::DataMissing, span, message).severity(self.severity()).hint(hint)
    }

    fn content(&self, text: &str, path: &Path, length: u64, span: Span) -> Result<(), Problem> {
        if length == 0 {
            let problem = Problem::new(Code::DataEmpty, span, format!("`{text}` is empty"));
            return Err(problem.severity(self.severity()).hint("make or download the data first"));
        }
        let mut head = [0; 64];
        let read = File::open(path).and_then(|mut file| file.read(&mut head));
        match read {
            Ok(read) if is_lfs_pointer(&head[..read]) => {
                let problem = Problem::new(
                    Code::DataPointer,
                    span,
                    format!("`{text}` is a Git LFS pointer, not the data"),
                );
                Err(problem.severity(self.severity()).hint("run `git lfs pull`"))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.absent(text, span, &error)),
        }
    }
}

/// Links are resolved. For a path that does not exist, the nearest existing folder decides.
pub fn is_under(path: &Path, root: &Path) -> bool {
    let Ok(root) = fs::canonicalize(root) else { return false };
    let existing = path.ancestors().find_map(|part| {
        let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
        fs::canonicalize(part).ok().map(|found| (part, found))
    });
    existing.is_some_and(|(part, found)| {
        let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
        found.starts_with(&root) && !rest.components().any(|part| part == Component::ParentDir)
    })
}
