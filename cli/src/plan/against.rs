//! What `evaluate --against` names: another adapter of the base, or any model that `--model` can name.

use std::path::Path;

use expert_contract::budget;
use expert_contract::manifest::{Bases, Options};
use expert_contract::plan::{Against, Base, Machine};
use expert_contract::read;
use expert_contract::resolve::{
    FoundBase, Place, Resolved, UNQUANTIZED, find_base, foreign_form, recipe_base,
};
use serde::Deserialize;

use super::prepare::base_elsewhere;
use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::run::{CONFIG, adapter};
use crate::sys::files::read_json;
use crate::sys::host::hub_cache;
use crate::ui::number::bytes;

/// Where an adapter says what it was trained on.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AdapterConfig {
    base_model_name_or_path: Option<String>,
}

/// A model that is not here, an adapter of another base and a model without room are refused before anything is scored.
pub fn against(named: &str, options: &PlanOptions, resolved: &Resolved) -> Result<Against, Failure> {
    if let Ok(path) = adapter::named(Path::new(named)) {
        refuse_adapter_of_other_base(Path::new(&path), &resolved.recipe.base.name)?;
        return Ok(Against::Adapter { path });
    }
    let (base, found) = model(named, options, resolved)?;
    refuse_too_large(&base, &found, &resolved.machine)?;
    let folder = found.folder().map(|folder| folder.to_string_lossy().into_owned());
    Ok(Against::Model { base: Box::new(base), folder })
}

/// A base of the manifest as the manifest has it; any other as it is stored in 4 or 8 bits, or else quantized as the
/// evaluated one.
fn model(named: &str, options: &PlanOptions, resolved: &Resolved) -> Result<(Base, FoundBase), Failure> {
    let file = options.manifest_file()?;
    let settings = Options { bases: Bases::First, trains_nothing: true, ..options.reading() };
    let manifest = read::load(&file, &settings).manifest;
    if let Some((manifest, index)) = manifest.as_ref().and_then(|it| Some((it, it.find_base(named)?))) {
        let declared = &manifest.bases[index];
        let found = find_base(&declared.name, &manifest.folder, Some(&hub_cache()));
        return can_be_read(named, &found).map(|()| (recipe_base(declared, &found), found));
    }
    let name = base_elsewhere(named).ok_or_else(|| unknown(named))?;
    let found = find_base(&name, Path::new(&resolved.machine.paths.expert_dir), Some(&hub_cache()));
    can_be_read(named, &found)?;
    let quantization = found.stored.unwrap_or(resolved.recipe.base.quantization);
    Ok((Base { name: found.logical.clone(), sha256: None, quantization, rope_scaling: None }, found))
}

fn can_be_read(named: &str, found: &FoundBase) -> Result<(), Failure> {
    if found.place == Place::Absent {
        return Err(unknown(named));
    }
    found.foreign_form.as_ref().map_or(Ok(()), |form| {
        let what = foreign_form(&found.logical, form);
        Err(Failure::bad_input("stored-quantization", what).hint(UNQUANTIZED))
    })
}

fn unknown(named: &str) -> Failure {
    let what = if Path::new(named).is_dir() {
        format!("{named} holds neither a model (config.json) nor an adapter ({CONFIG})")
    } else {
        format!("there is no model {named}")
    };
    Failure::bad_input("unknown-model", what).hint(
        "--against takes a base of the manifest, a Hub id (owner/name), the folder of a transformers model, or a run's folder or final/",
    )
}

/// The names differ in case and owner: a base is a folder here and a Hub id there.
fn refuse_adapter_of_other_base(folder: &Path, base: &str) -> Result<(), Failure> {
    let config: AdapterConfig = read_json(&folder.join(CONFIG)).unwrap_or_default();
    let Some(trained_on) = config.base_model_name_or_path.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let last = |name: &str| {
        name.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase()
    };
    if last(&trained_on) == last(base) {
        return Ok(());
    }
    let message =
        format!("the adapter in {} was trained on {trained_on}, and {base} is evaluated", folder.display());
    Err(Failure::bad_input("adapter-of-other-base", message).hint(
        "merge it into its own base with `expert-cli export --merge`, and name the merged folder with --against",
    ))
}

/// Base and adapter are released before the model is loaded.
fn refuse_too_large(base: &Base, found: &FoundBase, machine: &Machine) -> Result<(), Failure> {
    let (Some(shape), Some(room)) = (&found.shape, machine.device.memory_bytes) else { return Ok(()) };
    let weights = budget::weights(shape, base.quantization, machine.dtype, machine.fp32_products);
    let needed = machine.estimate.process + weights;
    if needed <= room {
        return Ok(());
    }
    let message = format!(
        "{} needs {} for its weights alone, and this device has {}",
        base.name,
        bytes(needed),
        bytes(room)
    );
    Err(Failure::bad_input("model-too-large", message)
        .hint("compare with a smaller model, or add it to base_models with \"quantization\": \"int4\""))
}
