//! From a checked manifest to a plan: every decision that a run needs, made once, here.

mod base;
mod cases;
mod data;
mod fit;
mod machine;
mod recipe;
mod sources;
mod steps;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use base::{EMBEDDED, FoundBase, Place, ShapeSource, find as find_base, is_embedded, is_hub_id};
pub use data::DataFacts;
pub use fit::gibibytes;
pub use steps::{CachedRows, StepEstimate, estimate as estimate_steps};

use crate::diagnostic::{Code, Problem};
use crate::manifest::{Effective, Shown, model_slug};
use crate::plan::{Device, Plan, Request, Template, TemplateKind};

/// Facts about this machine, and paths from the command line.
#[derive(Debug, Clone)]
pub struct Site {
    /// Absolute path of the manifest.
    pub manifest: PathBuf,
    /// Where the run lives, if the command line names a place.
    pub output: Option<PathBuf>,
    /// Training data in place of the manifest's, absolute.
    pub data: Option<PathBuf>,
    /// Converted bases, compiled tokenizers and base scores.
    pub home: PathBuf,
    /// The Hugging Face Hub's cache of models.
    pub hub_cache: PathBuf,
    pub device: Device,
    /// How many devices of that kind there are.
    pub devices: u32,
    /// Whether the device has units for bf16: tensor cores, AMX, AVX-512 BF16 or the like.
    pub computes_bf16: bool,
}

impl Site {
    pub fn expert_dir(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }
}

/// Something that follows from the machine or from how settings meet, which the manifest alone does not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    pub code: &'static str,
    pub message: String,
    pub hint: String,
}

impl Note {
    fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }
}

/// A plan, and what a person wants to know about how it came to be.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub plan: Plan,
    pub base: FoundBase,
    pub facts: Vec<DataFacts>,
    pub notes: Vec<Note>,
    /// The most rows that fit at once, where the device's memory and the base's shape are known.
    pub largest_micro_batch: Option<u64>,
    /// Every setting of `training.config`, with its value and who decided it.
    pub settings: Vec<Shown>,
}

/// Makes every decision. [`FoundBase::is_here`] and [`DataFacts::is_here`] say what is missing on this machine:
/// whether that is an error depends on the command.
pub fn resolve(expert: &Effective<'_>, site: &Site, request: Request) -> Result<Resolved, Problem> {
    let mut notes = Vec::new();
    let template = template(expert, site)?;
    let base = base::find(&expert.base.name, site.expert_dir(), &site.hub_cache);
    let sources = sources::collect(&expert.manifest.root.training.dataset, site);
    let recipe = recipe::build(expert, &base, template, &sources, &cases::read(expert, site)?);
    let fact = |source| DataFacts::of(source, sources.paths.get(&source.name).map(PathBuf::as_path));
    let facts = recipe.data.train.iter().map(fact).collect();
    let (machine, largest_micro_batch) = machine::build(expert, &recipe, &base, &sources, site, &mut notes);
    let plan = Plan::new(recipe, machine, request);
    Ok(Resolved { plan, base, facts, notes, largest_micro_batch, settings: expert.shown() })
}

/// The chosen template; a custom one stands in the manifest or in a file beside it.
fn template(expert: &Effective<'_>, site: &Site) -> Result<Template, Problem> {
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
            Some(std::fs::read_to_string(site.expert_dir().join(path)).map_err(unreadable)?)
        }
        _ => None,
    };
    Ok(Template { kind, source })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
