//! How paths are written for other programs and other machines.

use std::path::Path;

use serde::Serializer;

/// The working directory of a worker may be another.
pub fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

/// Forward slashes on every system and no leading `./`, as documents that travel have them.
pub fn portable(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.into_owned() };
    match text.strip_prefix("./") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => text,
    }
}

/// As a field of a document, which is UTF-8: a name that is not is written as near to it as that can be.
pub fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// As a person reads and types it here: relative where it is in the working directory, else as it is.
pub fn near(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let inside = here.iter().flat_map(|here| [Some(here.clone()), here.canonicalize().ok()]).flatten();
    let short = inside.into_iter().find_map(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    portable(short.as_deref().filter(|it| !it.as_os_str().is_empty()).unwrap_or(path))
}

/// Whether the path, of which the last parts need not exist, is the folder or below it. Links are followed.
pub fn is_inside(folder: &Path, path: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    path.ancestors().find_map(|it| it.canonicalize().ok()).is_some_and(|real| real.starts_with(folder))
}

/// The last part of a path; empty where there is none.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
