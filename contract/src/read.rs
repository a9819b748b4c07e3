//! Reads a manifest: text to tree, `--set`, every check, and the typed form. Stands above the rules and the paths.

use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic, Problem, Severity, Style};
use crate::foreign;
use crate::manifest::{
    BaseModel, Bases, Config, Document, MAX_BASES, Manifest, Options, OtherBase, ROOT, Root, bytes, check,
    effective, json, sets,
};
use crate::resolve::{
    check_modules, check_positions, check_rope, check_stored, find_base, idle_dropout, shared_head,
};
use crate::source::Source;
use crate::{paths, rules};

/// What reading a file gave.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// None where a diagnostic is an error.
    pub manifest: Option<Manifest>,
    pub document: Document,
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    pub fn ok(&self) -> bool {
        self.manifest.is_some()
    }

    /// Every diagnostic as text.
    pub fn rendered(&self, style: Style) -> String {
        self.document.rendered(&self.diagnostics, style)
    }
}

/// Reads, changes by `--set`, checks and types a manifest file. All problems are found in this one pass.
pub fn load(path: &Path, options: &Options) -> Loaded {
    match bytes::read(path) {
        Ok(bytes) => from_bytes(bytes, path, options),
        Err(problem) => unread(path, String::new(), problem),
    }
}

/// The same for bytes that are already here; `path` need not exist, paths inside resolve beside it.
pub fn from_bytes(bytes: Vec<u8>, path: &Path, options: &Options) -> Loaded {
    let (text, problem) = bytes::decode(bytes, &bytes::MANIFEST);
    match problem {
        Some(problem) if problem.severity == Severity::Error => unread(path, text, problem),
        problem => from_text(text, problem, path, options),
    }
}

fn unread(path: &Path, text: String, problem: Problem) -> Loaded {
    let document = Document::new(Source::new(display_path(path), text));
    let diagnostics = vec![document.at(problem, String::new())];
    Loaded { manifest: None, document, diagnostics }
}

fn from_text(text: String, before: Option<Problem>, path: &Path, options: &Options) -> Loaded {
    let (mut document, mut diagnostics) = Document::parse(Source::new(display_path(path), text), before);
    let syntax_holds = !diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    let mut problems = sets::apply(&mut document, &options.sets);
    let changed = problems.len();
    let mut manifest = with_types(&document, path, &mut problems);
    if let (Bases::Named(name), Some(other)) = (&options.bases, &options.other_base)
        && let Some(found) = manifest.as_ref().filter(|manifest| manifest.find_base(name).is_none())
        && let Some(root) = document.root.as_mut()
    {
        let copied = found.copied_base(name);
        let relation =
            copied.map_or(OtherBase::New, |index| OtherBase::CopyOf(found.bases[index].name.value.clone()));
        other_base(root, other, copied);
        problems.truncate(changed);
        manifest = with_types(&document, path, &mut problems)
            .map(|manifest| Manifest { other_base: Some(relation), ..manifest });
    }
    if let Some(manifest) = &manifest {
        rules::check(manifest, &mut problems);
        paths::check(manifest, options, &mut problems);
        check_bases(manifest, &options.bases, &mut problems);
    }
    if options.trains_nothing {
        for problem in problems.iter_mut().filter(|it| it.code == Code::InitialAdapter) {
            problem.severity = Severity::Warning;
        }
    }
    let mut found = document.locate(problems);
    if let Some(used) = manifest.as_ref().and_then(|manifest| used_base(manifest, &options.bases)) {
        let of_another = |diagnostic: &&mut Diagnostic| diagnostic.base().is_some_and(|base| base != used);
        for diagnostic in found.iter_mut().filter(of_another) {
            diagnostic.severity = diagnostic.severity.min(Severity::Warning);
        }
    }
    let errors = found.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    diagnostics.extend(found);
    diagnostics.sort_by_key(Diagnostic::order);
    let manifest = manifest.filter(|_| syntax_holds && !errors);
    Loaded { manifest, document, diagnostics }
}

/// A setting of all bases, or a `--set`, may not suit a base that is not used: that is a warning. What else there is to say of
/// such a base has no part in the run. The used base is checked first, so an error of both bases remains an error.
fn check_bases(manifest: &Manifest, bases: &Bases, problems: &mut Vec<Problem>) {
    let used = used_base(manifest, bases);
    let is_used = |place: usize| used.is_none_or(|used| used == place);
    let mut all: Vec<_> = manifest.all_effective().enumerate().collect();
    all.sort_by_key(|(place, _)| !is_used(*place));
    for (place, effective) in all {
        let mut found = Vec::new();
        rules::check_base(&effective, &mut found);
        let base = find_base(&effective.base.name, &manifest.folder, None);
        found.extend(check_modules(&effective, &base));
        found.extend(check_stored(&effective, &base));
        found.extend(check_rope(&effective, &base));
        found.extend(check_positions(&effective, &base));
        found.extend(shared_head(&effective, &base));
        found.extend(idle_dropout(&effective, &base));
        if !is_used(place) {
            found.retain(|problem| problem.severity == Severity::Error && !problems.contains(problem));
            for problem in &mut found {
                problem.severity = Severity::Warning;
                problem.message =
                    format!("{}, which is not used here: {}", *effective.base.name, problem.message);
            }
        }
        problems.append(&mut found);
    }
}

fn with_types(document: &Document, path: &Path, problems: &mut Vec<Problem>) -> Option<Manifest> {
    let (root, config, bases) = typed(document.root.as_ref()?, problems)?;
    Some(Manifest {
        path: path.to_owned(),
        folder: folder_of(path),
        document: document.clone(),
        root,
        config,
        bases,
        other_base: None,
    })
}

/// Keys of the first base that say how any base is held and adapted; the others are about that base alone.
pub const OF_ANY_BASE: [&str; 2] = ["quantization", "adapters"];

/// Puts this base in place of the manifest's. A copy of one of them is used as that one is.
fn other_base(root: &mut json::Node, name: &str, copied: Option<usize>) {
    let span = root.span;
    let json::Value::Object(object) = &mut root.value else { return };
    let listed = object.get("base_models").and_then(json::Node::as_list);
    let like = listed.and_then(|bases| bases.get(copied.unwrap_or(0)));
    let like = like.or_else(|| object.get("base_model")).and_then(json::Node::as_object);
    let is_kept = |key: &str| if copied.is_some() { key != "name" } else { OF_ANY_BASE.contains(&key) };
    let mut members: Vec<json::Member> = like
        .into_iter()
        .flat_map(|like| like.members.iter().filter(|member| is_kept(&member.key)).cloned())
        .collect();
    let member = |key: &str, value| json::Member {
        key: key.to_owned(),
        key_span: span,
        node: json::Node { span, value },
    };
    members.insert(0, member("name", json::Value::Text(name.to_owned())));
    let base = json::Node { span, value: json::Value::Object(json::Object { members }) };
    object.members.retain(|member| member.key != "base_models" && member.key != "base_model");
    object.members.push(member("base_models", json::Value::List(vec![base])));
}

/// The place in `base_models` of the one base that is used; None if all are used, or if positions are unknown.
fn used_base(manifest: &Manifest, bases: &Bases) -> Option<usize> {
    let listed = manifest.document.root.as_ref()?.as_object()?.get("base_models")?.as_list()?;
    if listed.len() != manifest.bases.len() {
        return None;
    }
    match bases {
        Bases::Every => None,
        Bases::First => Some(0),
        Bases::Named(name) => manifest.find_base(name),
    }
}

/// The typed tree, after checking it against the ledger. None if it is not an object.
fn typed(root: &json::Node, problems: &mut Vec<Problem>) -> Option<(Root, Config, Vec<BaseModel>)> {
    let object = root.as_object();
    let is_manifest = |object: &json::Object| {
        ["name", "training", "base_models"].iter().any(|key| object.get(key).is_some())
    };
    if let Some(object) = object.filter(|object| !is_manifest(object))
        && foreign::are_of_another_trainer(object.members.iter().map(|member| member.key.as_str()))
    {
        let message = "these are the keys of another trainer's configuration, not of a manifest";
        let span = object.members.first().map_or(root.span, |member| member.key_span);
        problems.push(Problem::new(Code::OtherFormat, span, message).hint(foreign::IMPORT));
        return None;
    }
    check::check(&ROOT, root, problems);
    let object = object?;
    if let Some(problem) = too_many_bases(object) {
        problems.push(problem);
        return None;
    }
    let typed = Root::from_object(object);
    let shorthand = object.get("training").and_then(json::Node::as_object).map(Config::from_object);
    let config = typed.training.config.value.clone().or(shorthand.unwrap_or_default());
    let bases = effective::bases(&typed);
    let listed = object.get("base_models").and_then(json::Node::as_list).is_some_and(|list| !list.is_empty());
    let reported = listed || typed.base_model.is_broken() || typed.base_models.is_broken();
    if bases.is_empty() && !reported {
        let span = if typed.base_models.is_given() { typed.base_models.span } else { root.span };
        let problem = Problem::new(Code::MissingKey, span, "the manifest names no base model");
        problems.push(problem.hint("add \"base_models\": [{\"name\": \"Qwen/Qwen3-0.6B\"}]"));
    }
    Some((typed, config, bases))
}

/// Every base is resolved and checked separately, so their number is limited first.
fn too_many_bases(object: &json::Object) -> Option<Problem> {
    let list = object.get("base_models")?;
    let found = list.as_list()?.len();
    let problem =
        || Problem::new(Code::OutOfRange, list.span, format!("`base_models` lists {found} base models"));
    (found > MAX_BASES).then(|| problem().hint(format!("list at most {MAX_BASES}")))
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Forward slashes on every system, so that messages and snapshots are the same.
fn display_path(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}
