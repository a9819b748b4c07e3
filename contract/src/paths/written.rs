//! Folders that a run writes to besides its own: the token cache and the mirror of checkpoints. A manifest may be a
//! download, so they must be in the expert's folder or where the command line allows it, like data.

use std::path::{Path, PathBuf};

use super::data::{STAY_INSIDE, is_under};
use super::parse::{DEFAULT_CACHE, anywhere, fill_placeholders, is_foreign};
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Effective, Manifest, Options};
use crate::source::Span;

/// Where a mirror's target leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// A folder of this machine.
    Folder(PathBuf),
    /// Anything else that fsspec opens, by its URL.
    Url(String),
    /// A path of another system.
    Foreign,
    /// A chain of file systems with a local one in it, whose folder is unknown here.
    Chained,
}

/// The path in a URL of this machine; none in other texts.
pub fn behind_local_scheme(text: &str) -> Option<&str> {
    let lower = text.to_ascii_lowercase();
    let scheme = ["file://", "local://", "file:", "local:"].into_iter().find(|it| lower.starts_with(it))?;
    Some(&text[scheme.len()..])
}

/// `file:` and `local:` are folders too, with and without slashes behind them.
pub fn mirror_target(text: &str, folder: &Path) -> Target {
    let local = |part: &str| match behind_local_scheme(part) {
        Some(path) => Some(path.to_owned()),
        None => (!part.contains("://")).then(|| part.to_owned()),
    };
    if let Some((first, rest)) = text.split_once("::") {
        // A bare word before `::` is a file system that wraps the next one.
        let paths = std::iter::once(first).chain(rest.split("::"));
        let mut paths = paths.filter(|part| part.contains(['/', '\\', ':']) || text.ends_with(*part));
        return if paths.any(|part| local(part).is_some()) {
            Target::Chained
        } else {
            Target::Url(text.to_owned())
        };
    }
    match local(text) {
        Some(path) => anywhere(&path, folder).map_or(Target::Foreign, Target::Folder),
        None => Target::Url(text.to_owned()),
    }
}

pub fn check(manifest: &Manifest, options: &Options, problems: &mut Vec<Problem>) {
    for effective in manifest.all_effective() {
        cache(manifest, &effective, options, problems);
        mirror(manifest, &effective, options, problems);
    }
}

fn cache(manifest: &Manifest, effective: &Effective<'_>, options: &Options, problems: &mut Vec<Problem>) {
    let cache = &effective.config.pretokenized_cache;
    let text = cache.as_deref().filter(|text| !is_foreign(text)).unwrap_or(DEFAULT_CACHE);
    let filled = fill_placeholders(text, &manifest.root.name, &effective.base.name);
    // A name that is not a valid folder name is reported as the name's problem.
    let named = !cache.is_given() && filled.contains("..");
    let path = anywhere(&filled, &manifest.folder).filter(|_| !named);
    if let Some(path) = path.filter(|path| !may_write(path, &manifest.folder, cache.span, options)) {
        problems.push(outside(text, &path, cache.span, "the token cache"));
    }
}

fn mirror(manifest: &Manifest, effective: &Effective<'_>, options: &Options, problems: &mut Vec<Problem>) {
    let Some(mirror) = effective.config.checkpoint_mirror.as_ref() else { return };
    let (text, span) = (&mirror.target.value, mirror.target.span);
    let filled = fill_placeholders(text, &manifest.root.name, &effective.base.name);
    match mirror_target(&filled, &manifest.folder) {
        Target::Url(_) => {}
        Target::Folder(path) if may_write(&path, &manifest.folder, span, options) => {}
        Target::Folder(path) => problems.push(outside(text, &path, span, "the mirror of checkpoints")),
        Target::Foreign => {
            let message =
                format!("`{text}` is a path of another system, and no checkpoint can be copied to it");
            let hint = "remove `checkpoint_mirror`, or name a folder of this system or a URL";
            problems.push(Problem::new(Code::PathInvalid, span, message).hint(hint));
        }
        Target::Chained => {
            let message =
                format!("`{text}` chains file systems with a local one, whose folder cannot be checked");
            problems.push(Problem::new(Code::PathInvalid, span, message).hint("name the folder itself"));
        }
    }
}

/// Paths on the command line are the user's choice.
fn may_write(path: &Path, folder: &Path, span: Span, options: &Options) -> bool {
    span.is_argument()
        || options.anywhere
        || is_under(path, folder)
        || options.allowed.iter().any(|root| is_under(path, root))
        // A manifest that is read from elsewhere, such as a git revision, has no folder here.
        || (!folder.exists() && path.strip_prefix(folder).is_ok_and(stays_below))
}

fn stays_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn outside(text: &str, path: &Path, span: Span, what: &str) -> Problem {
    let message = format!("`{text}` leads to {}, and {what} must be in the expert's folder", path.display());
    Problem::new(Code::PathOutside, span, message).hint(STAY_INSIDE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_targets_are_known_however_they_are_written() {
        let of = |text| mirror_target(text, Path::new("/expert"));
        for text in ["/etc/x", "file:///etc/x", "file:/etc/x", "local:///etc/x", "FILE:///etc/x"] {
            assert_eq!(of(text), Target::Folder("/etc/x".into()), "{text}");
        }
        if cfg!(not(windows)) {
            assert_eq!(of("F:/mirror"), Target::Foreign);
        }
        assert_eq!(of("mirror/a"), Target::Folder("/expert/mirror/a".into()));
        assert_eq!(of("file:mirror"), Target::Folder("/expert/mirror".into()));
        for text in ["s3://bucket/x", "gs://b", "hf://datasets/a/b", "simplecache::s3://b/x"] {
            assert_eq!(of(text), Target::Url(text.to_owned()), "{text}");
        }
        for text in [
            "simplecache::file:///etc",
            "simplecache::/etc",
            "file:///etc::s3://b",
            "zip::etc",
            "s3://b::etc",
        ] {
            assert_eq!(of(text), Target::Chained, "{text}");
        }
    }
}
