//! A base model's folder, its name in a recipe, and its dimensions.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::tensors;
use crate::budget::Shape;
use crate::manifest::{EMBEDDED, is_embedded, is_hub_id};
use crate::paths::anywhere;
use crate::plan::Quantization;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundBase {
    /// What the manifest says.
    pub declared: String,
    /// The name in the recipe: the same on every machine.
    pub logical: String,
    pub place: Place,
    /// `model_type`, where it is known.
    pub architecture: Option<String>,
    pub shape: Option<Shape>,
    pub shape_source: ShapeSource,
    /// The form in which bitsandbytes saved its weights, which they are loaded in whatever the manifest says.
    #[serde(skip)]
    pub stored: Option<Quantization>,
    /// What saved its weights in a form that is not read here, as its `config.json` names it: fp8, mxfp4, gptq...
    #[serde(skip)]
    pub foreign_form: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    Embedded,
    Folder(PathBuf),
    /// A Hub id, with its snapshot where the Hub's cache holds one. One without all weights was fetched for its
    /// tokenizer, or its download was interrupted.
    Hub {
        id: String,
        snapshot: Option<PathBuf>,
        has_weights: bool,
    },
    /// A path that does not exist on this machine.
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeSource {
    Config(PathBuf),
    /// Published dimensions: the base itself is not on this machine.
    Published,
    Unknown,
}

impl FoundBase {
    /// Whether training can start without fetching anything.
    pub fn is_here(&self) -> bool {
        match &self.place {
            Place::Embedded | Place::Folder(_) => true,
            Place::Hub { has_weights, .. } => *has_weights,
            Place::Absent => false,
        }
    }

    /// The folder to load from, where it is known before the worker starts.
    pub fn folder(&self) -> Option<&Path> {
        self.config_folder().filter(|_| self.is_here())
    }

    /// The folder of its configuration and tokenizer, which may lack the weights.
    pub fn config_folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Folder(folder) => Some(folder),
            Place::Hub { snapshot, .. } => snapshot.as_deref(),
            Place::Embedded | Place::Absent => None,
        }
    }
}

/// `name` as the manifest gives it: a folder (relative to the manifest's), a Hub id, or the embedded base.
/// Without the Hub's cache only what the name itself says is known of a Hub id.
pub fn find(name: &str, expert_dir: &Path, hub_cache: Option<&Path>) -> FoundBase {
    // A path of another system leads to no folder here; joined, it is one that does not exist.
    let folder = anywhere(name, expert_dir).unwrap_or_else(|| expert_dir.join(name));
    let (logical, place) = if is_embedded(name) {
        (EMBEDDED.to_owned(), Place::Embedded)
    } else if folder.join("config.json").is_file() {
        (last_component(name), Place::Folder(folder))
    } else if is_hub_id(name) {
        let snapshot = hub_cache.and_then(|cache| hub_snapshot(name, cache));
        let has_weights = snapshot.as_deref().is_some_and(tensors::are_all_here);
        (name.to_owned(), Place::Hub { id: name.to_owned(), snapshot, has_weights })
    } else {
        (last_component(name), Place::Absent)
    };
    let mut found = FoundBase {
        declared: name.to_owned(),
        logical,
        place,
        architecture: None,
        shape: None,
        shape_source: ShapeSource::Unknown,
        stored: None,
        foreign_form: None,
    };
    (found.shape, found.shape_source) = dimensions(&mut found);
    if let Some(shape) = &found.shape {
        found.architecture = Some(shape.architecture.clone());
    }
    found
}

/// From the base's own `config.json` and weights; for one that is not here from the table of published shapes.
fn dimensions(found: &mut FoundBase) -> (Option<Shape>, ShapeSource) {
    let folder = found.config_folder().map(Path::to_owned);
    if let Some((config, folder)) = folder.and_then(|folder| Some((read_config(&folder)?, folder))) {
        let text = config.get("text_config").unwrap_or(&config);
        found.architecture = text.get("model_type").and_then(Value::as_str).map(str::to_owned);
        found.stored = stored(&config);
        found.foreign_form = found.stored.is_none().then(|| foreign_form(&config)).flatten();
        if let Some(shape) = Shape::from_config(&config) {
            // Weights that are saved quantized have other shapes than their layers.
            let packed = config.get("quantization_config").is_some_and(|it| !it.is_null());
            let tensors = if packed || !found.is_here() { None } else { tensors::read(&folder) };
            let shape = match tensors {
                Some(tensors) => shape.with_tensors(&tensors),
                None => shape,
            };
            // Those of an architecture outside the table of families are known from its weights only.
            if shape.blocks().next().is_none() {
                return (None, ShapeSource::Unknown);
            }
            return (Some(shape), ShapeSource::Config(folder.join("config.json")));
        }
    }
    match Shape::known(&found.logical) {
        Some(shape) => (Some(shape), ShapeSource::Published),
        None => (None, ShapeSource::Unknown),
    }
}

/// The worker reads it likewise (`base/quantized.py`).
fn stored(config: &Value) -> Option<Quantization> {
    let saved = config.get("quantization_config")?;
    let flag = |key: &str| saved.get(key).and_then(Value::as_bool) == Some(true);
    let eight = flag("load_in_8bit").then_some(Quantization::Int8);
    flag("load_in_4bit").then_some(Quantization::Int4).or(eight)
}

/// The worker reads it likewise (`base/quantized.py`).
fn foreign_form(config: &Value) -> Option<String> {
    let of = |config: &Value| {
        let method = config.get("quantization_config")?.get("quant_method")?.as_str()?;
        (method != "bitsandbytes").then(|| method.to_owned())
    };
    of(config).or_else(|| of(config.get("text_config")?))
}

fn read_config(folder: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(folder.join("config.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// The name of the folder, whichever system the path was written on.
fn last_component(name: &str) -> String {
    name.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(name).to_owned()
}

fn hub_snapshot(id: &str, hub_cache: &Path) -> Option<PathBuf> {
    let repository = hub_repository("models", id, hub_cache);
    let snapshot = repository.join("snapshots").join(hub_main(&repository)?);
    snapshot.join("config.json").is_file().then_some(snapshot)
}

/// The commit at which a Hub dataset is read, `name::split::config` as a source names it: that of its last download.
/// None where it is not in the Hub's cache. The worker decides likewise (expert_worker/pretokenize/sources.py).
pub fn hub_dataset_revision(name: &str, hub_cache: &Path) -> Option<String> {
    let id = name.split("::").next().unwrap_or(name);
    hub_main(&hub_repository("datasets", id, hub_cache))
}

fn hub_repository(kind: &str, id: &str, hub_cache: &Path) -> PathBuf {
    hub_cache.join(format!("{kind}--{}", id.replace('/', "--")))
}

/// The commit that `main` points to in the Hub's cache layout.
fn hub_main(repository: &Path) -> Option<String> {
    let revision = std::fs::read_to_string(repository.join("refs").join("main")).ok()?;
    Some(revision.trim().to_owned()).filter(|revision| !revision.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_from_another_system_is_a_base_that_is_not_here() {
        for name in
            ["F:/models/Qwen3-0.6B", r"F:\models\Qwen3-0.6B", r"\\server\share\Qwen3-0.6B\", "~/Qwen3-0.6B"]
        {
            let found = find(name, Path::new("/nowhere"), None);
            assert_eq!(found.place, Place::Absent, "{name}");
            assert_eq!(found.logical, "Qwen3-0.6B", "{name}");
            assert_eq!(found.shape_source, ShapeSource::Published, "{name}");
        }
    }
}
