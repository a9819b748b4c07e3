//! Nothing is written through a symbolic link that leads out of the expert's folder: git keeps links, so a cloned expert
//! may have brought one that leads to the user's own files.

use std::path::{Path, PathBuf};

use expert_contract::plan::Paths;

use crate::failure::Failure;
use crate::lock;
use crate::run::is_own;
use crate::sys::files::children;

/// `named` says that the user gave the output folder himself: it may be a link, but nothing in it may lead out of it.
pub fn refuse_links_out(paths: &Paths, named: bool, allowed: &[PathBuf]) -> Result<(), Failure> {
    let (expert, output, cache) =
        (Path::new(&paths.expert_dir), Path::new(&paths.output), Path::new(&paths.cache));
    let mut roots = roots(expert, allowed);
    refuse_each(&[expert.join(lock::FILE)], &roots)?;
    refuse_each(&on_the_way(expert, cache), &roots)?;
    refuse_each(&children(cache), &roots)?;
    if named {
        roots.extend(output.canonicalize());
    } else {
        refuse_each(&on_the_way(expert, output), &roots)?;
    }
    let is_of_run = |path: &PathBuf| path.file_name().is_some_and(|name| is_own(&name.to_string_lossy()));
    let own: Vec<PathBuf> = children(output).into_iter().filter(is_of_run).collect();
    refuse_each(&own, &roots)?;
    refuse_special(&own)
}

/// Where links of the expert's folder may lead to.
fn roots(expert: &Path, allowed: &[PathBuf]) -> Vec<PathBuf> {
    let folders = allowed.iter().map(PathBuf::as_path).chain([expert]);
    folders.filter_map(|root| root.canonicalize().ok()).collect()
}

/// A pipe, socket or device with a name of a run: whoever opens it may wait for ever.
fn refuse_special(paths: &[PathBuf]) -> Result<(), Failure> {
    let is_special = |path: &&PathBuf| path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir());
    paths.iter().find(is_special).map_or(Ok(()), |path| {
        let message = format!("{} is neither a file nor a folder", path.display());
        Err(Failure::bad_input("not-a-run", message).hint("remove it, or choose another folder with -o"))
    })
}

/// Where a manifest that is to be written really is: a link in the expert's folder is followed.
pub fn real_manifest(file: &Path, allowed: &[PathBuf]) -> Result<PathBuf, Failure> {
    let expert = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let roots = roots(expert, allowed);
    refuse_each(&[file.to_owned()], &roots)?;
    file.canonicalize().map_err(|error| Failure::reading("read", file, &error))
}

/// Whether every folder between the expert's and this one is really below it.
pub fn leads_out(expert: &Path, folder: &Path) -> bool {
    let root: Vec<PathBuf> = expert.canonicalize().into_iter().collect();
    refuse_each(&on_the_way(expert, folder), &root).is_err()
}

/// The folders from below the expert's down to this one; none where it is elsewhere, as the manifest or the user says.
fn on_the_way(expert: &Path, folder: &Path) -> Vec<PathBuf> {
    let inside = folder.strip_prefix(expert).into_iter().flat_map(Path::components);
    inside
        .scan(expert.to_owned(), |path, part| {
            path.push(part);
            Some(path.clone())
        })
        .collect()
}

fn refuse_each(paths: &[PathBuf], roots: &[PathBuf]) -> Result<(), Failure> {
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|data| data.file_type().is_symlink());
    for path in paths.iter().filter(|path| is_link(path)) {
        // A link to nothing would become a file wherever it leads.
        let target = path.canonicalize().ok();
        if target.is_some_and(|target| roots.iter().any(|root| target.starts_with(root))) {
            continue;
        }
        let leads = std::fs::read_link(path).unwrap_or_default();
        let message = format!(
            "{} is a symbolic link to {}, outside the expert's folder",
            path.display(),
            leads.display()
        );
        return Err(Failure::bad_input("link-out", message).hint(
            "remove the link, or allow its target with --allow-path; an output folder elsewhere is named with -o",
        ));
    }
    Ok(())
}
