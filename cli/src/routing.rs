//! The experts of a folder as its router learns them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expert_contract::diagnostic::{Code, Diagnostic, Severity};
use expert_contract::manifest::Options;
use expert_contract::plan::Source;
use expert_contract::read;
use expert_contract::resolve::{DataFacts, Resolved, resolve};
use expert_contract::routing::{RoutedExpert, Shelf};

use crate::experts;
use crate::failure::Failure;
use crate::plan::on_cpu;
use crate::sys::digests::Digests;
use crate::sys::durable;
use crate::sys::host::home;
use crate::sys::paths::near;

/// The experts of a folder that a router can choose from, and why the others are left out.
pub struct Found {
    pub experts: Vec<RoutedExpert>,
    pub left_out: Vec<LeftOut>,
    /// Why no router can choose from these experts: two have one name.
    pub same_name: Option<Failure>,
}

pub struct LeftOut {
    pub expert: String,
    /// The expert's.
    pub folder: PathBuf,
    pub message: String,
    pub hint: &'static str,
}

/// The experts of `folder` whose training data is here. `allowed`: other folders that may hold it.
pub fn find(folder: &Path, allowed: &[PathBuf]) -> Result<Found, Failure> {
    let digests = Digests::open(&home());
    let (mut experts, mut left_out, mut same_name) = (Vec::new(), Vec::new(), None);
    let mut folders: BTreeMap<String, PathBuf> = BTreeMap::new();
    for manifest in experts::below(folder)? {
        match expert(&manifest, allowed) {
            Ok(resolved) => {
                let folder = manifest.parent().unwrap_or(Path::new("."));
                let name = resolved.recipe.expert.clone();
                if let Some(other) = folders.insert(name.clone(), folder.to_owned()) {
                    same_name.get_or_insert_with(|| named_alike(&name, &other, folder));
                }
                experts.push(routed(resolved, &digests));
            }
            Err(reason) => left_out.push(reason),
        }
    }
    Ok(Found { experts, left_out, same_name })
}

fn named_alike(name: &str, one: &Path, other: &Path) -> Failure {
    let message = format!("two experts are named {name}: {} and {}", near(one), near(other));
    Failure::bad_input("same-name", message).hint("give one another `name` in its manifest.json")
}

/// None where there is no expert to choose from.
pub fn shelf(experts: Vec<RoutedExpert>) -> Option<Shelf> {
    (!experts.is_empty()).then(|| Shelf::new(&home().join("routers"), experts))
}

/// The shelf in a file beside its router, for a program that outlives this one.
pub fn written(shelf: &Shelf) -> Result<PathBuf, Failure> {
    let path = Path::new(&shelf.file).with_extension("json");
    let folder = path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder).map_err(|error| Failure::writing("make the folder", folder, &error))?;
    durable::write_json(&path, shelf)?;
    Ok(path)
}

fn expert(path: &Path, allowed: &[PathBuf]) -> Result<Resolved, LeftOut> {
    let left_out = |name: &str, why: &str, hint| LeftOut {
        expert: name.to_owned(),
        folder: path.parent().unwrap_or(Path::new(".")).to_owned(),
        message: format!("{name} is left out of the router: {why}"),
        hint,
    };
    let loaded =
        read::load(path, &Options { allowed: allowed.to_vec(), trains_nothing: true, ..Options::default() });
    let manifest = loaded.manifest.as_ref();
    let resolved = manifest.and_then(|it| resolve(&it.effective(0)?, &on_cpu(path)).ok());
    let Some(resolved) = resolved else {
        let name = manifest.map_or_else(|| experts::folder_name(path), |it| it.root.name.value.clone());
        let is_outside = |it: &&Diagnostic| it.severity == Severity::Error && it.code == Code::PathOutside;
        return Err(match loaded.diagnostics.iter().find(is_outside) {
            Some(outside) => left_out(&name, &outside.message, "allow its folder with --allow-path"),
            None => left_out(&name, "its manifest has errors", "`expert-cli validate` shows them"),
        });
    };
    if let Some(absent) = resolved.facts.iter().find(|facts| !facts.is_here()) {
        let why = format!("its training data {} is not here", absent.name);
        let hint = "make the data with the expert's generator, or correct its path";
        return Err(left_out(&resolved.recipe.expert, &why, hint));
    }
    Ok(resolved)
}

fn routed(resolved: Resolved, digests: &Digests) -> RoutedExpert {
    let Resolved { recipe, machine, routing, .. } = resolved;
    let here = |source: &Source| {
        DataFacts::of(source, machine.paths.data.get(&source.name).map(Path::new)).is_here()
    };
    let test: Vec<_> = recipe.data.test.into_iter().filter(here).collect();
    let used = |name: &String| recipe.data.train.iter().chain(&test).any(|source| source.name == *name);
    let data: BTreeMap<_, _> = machine.paths.data.into_iter().filter(|(name, _)| used(name)).collect();
    let digests = data
        .iter()
        .filter_map(|(name, path)| Some((name.clone(), digests.of_source(Path::new(path))?)))
        .collect();
    RoutedExpert {
        name: recipe.expert,
        train: recipe.data.train,
        test,
        field_mapping: recipe.data.field_mapping,
        data,
        digests,
        hints: routing,
    }
}
