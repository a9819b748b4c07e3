//! From a checked manifest to a plan: every decision that a run needs, made once, here.

mod base;
mod data;
mod fit;
mod fuse;
mod graphs;
mod lengths;
mod machine;
mod modules;
mod note;
mod outcome;
mod packed;
mod positions;
mod recipe;
mod remedy;
mod rope;
mod site;
mod sizing;
mod sources;
mod steps;
mod stored;
mod tensors;
mod text_tokens;

use std::path::{Path, PathBuf};

pub use base::{FoundBase, Place, ShapeSource, find as find_base, hub_dataset_revision};
pub use data::DataFacts;
pub use fit::{MOST_ROOM, gibibytes};
pub use fuse::{NotFused, fuse};
pub use lengths::RowLengths;
pub use modules::{check as check_modules, idle_dropout, shared_head};
pub use note::Note;
pub use outcome::{Resolved, Share};
pub use positions::check as check_positions;
pub use recipe::{base as recipe_base, decoding};
pub use remedy::{Remedy, held_in};
pub use rope::check as check_rope;
pub use site::{Found, ProductsInFp32, Site};
pub use steps::{CachedRows, StepEstimate, estimate as estimate_steps};
pub use stored::{UNQUANTIZED, check as check_stored, foreign_form};
pub use tensors::weight_files;

use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::paths::{data_path, read_text};
use crate::plan::{Template, TemplateKind};
use crate::routing::Keywords;
use crate::rules::{read_grammar, read_test_cases};

/// Makes every decision. [`FoundBase::is_here`] and [`DataFacts::is_here`] say what is missing on this machine:
/// whether that is an error depends on the command.
pub fn resolve(expert: &Effective<'_>, site: &Site) -> Result<Resolved, Problem> {
    let expert = &mut expert.clone();
    let mut notes = Vec::new();
    let template = template(expert, site.expert_dir())?;
    let base = base::find(&expert.base.name, site.expert_dir(), Some(&site.hub_cache));
    if let Some(problem) = modules::check(expert, &base).into_iter().next() {
        return Err(problem);
    }
    if let Some(problem) = stored::check(expert, &base).or_else(|| rope::check(expert, &base)) {
        return Err(problem);
    }
    positions::settle(expert, &base, &mut notes)?;
    let sources = sources::collect(&expert.manifest.root, site);
    let fact = |source| DataFacts::of(source, sources.paths.get(&source.name).map(PathBuf::as_path));
    let facts: Vec<DataFacts> = sources.train.iter().map(fact).collect();
    let grammar = read_grammar(expert.manifest)?;
    let recipe = recipe::build(
        expert,
        &base,
        template,
        &sources,
        &read_test_cases(expert.manifest, site.expert_dir())?,
        &facts,
        grammar,
    );
    let machine::Built { machine, largest_micro_batch, remedies, work, fast_format } =
        machine::build(expert, &recipe, &base, &sources, &facts, site, &mut notes);
    notes.extend(steps::of_steps(&recipe, &machine, &facts, None));
    let license = expert.manifest.root.license.value.clone();
    let routing = expert.manifest.root.routing.as_ref().map(Keywords::from).unwrap_or_default();
    let description = expert.manifest.description().map(str::to_owned);
    let usable_memory = machine::usable_memory(&machine, site);
    Ok(Resolved {
        description,
        recipe,
        machine,
        base,
        facts,
        notes,
        largest_micro_batch,
        remedies,
        usable_memory,
        work,
        fast_format,
        settings: expert.shown(),
        license,
        routing,
        test_sets: sources.test_sets,
        typed: Vec::new(),
    })
}

/// The chosen template; a custom one stands in the manifest or in a file beside it.
pub fn template(expert: &Effective<'_>, expert_dir: &Path) -> Result<Template, Problem> {
    let base = expert.base;
    let kind = *base.prompt_template;
    let source = match (kind, &*base.template_source, &*base.template_path) {
        (TemplateKind::Custom, Some(text), _) => Some(text.clone()),
        (TemplateKind::Custom, None, Some(path)) => {
            let unreadable = |error| {
                let message = format!("the template {path} cannot be read: {error}");
                Problem::new(Code::TemplateSource, base.template_path.span, message)
                    .hint("put the file in the expert's folder, or its text in `template_source`")
            };
            Some(read_text(&data_path(path, expert_dir)).map_err(unreadable)?)
        }
        _ => None,
    };
    Ok(Template { kind, source, kwargs: base.chat_template_kwargs.values() })
}
