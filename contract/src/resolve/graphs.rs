//! Whether a micro-batch is replayed as a CUDA graph.

use crate::plan::{AdapterKind, DeviceKind, Dtype, Graphs, Recipe};
use crate::speed::{Bound, Forecast, Work};

use super::machine::not_verified;
use super::note::Note;
use super::site::{Found, Site};

const CODE: &str = "not-captured";

/// `format`: of the fast path, none where the run does not take it. `work`: of uncaptured micro-batches.
pub fn wanted(
    asked: Option<bool>,
    recipe: &Recipe,
    site: &Site,
    format: Option<Dtype>,
    processes: u64,
    work: Option<Work>,
    notes: &mut Vec<Note>,
) -> Option<Graphs> {
    let obstacle = obstacle(recipe, site, format, processes);
    match asked {
        Some(true) => {
            notes.extend(obstacle.map(|why| {
                let hint = "remove `use_cuda_graphs` to silence this";
                Note::new(CODE, format!("no CUDA graph will be captured: {why}"), hint)
            }));
            Some(Graphs { asked: true })
        }
        None if obstacle.is_none() && is_bound_by_launches(site, work) => {
            is_found_right(site, format?, notes).then_some(Graphs { asked: false })
        }
        Some(false) | None => None,
    }
}

/// What is known before the base is loaded; the worker knows the rest.
fn obstacle(recipe: &Recipe, site: &Site, format: Option<Dtype>, processes: u64) -> Option<&'static str> {
    if site.device.kind != DeviceKind::Cuda {
        return Some("they need an NVIDIA GPU");
    }
    if processes > 1 {
        return Some("several processes train together");
    }
    match format {
        None => return Some("the run takes the plain path"),
        Some(Dtype::Fp32) => return Some("attention in fp32 walks documents one by one"),
        Some(Dtype::Bf16 | Dtype::Fp16) => (),
    }
    if !matches!(recipe.adapter.kind, AdapterKind::Lora | AdapterKind::Rslora) {
        return Some("only LoRA without DoRA adds its gradients at fixed addresses");
    }
    recipe.optimizer.neftune.is_some().then_some("NEFTune scales its noise by the lengths of documents")
}

fn is_bound_by_launches(site: &Site, work: Option<Work>) -> bool {
    let known = work.zip(site.limits);
    known.is_some_and(|(work, limits)| Forecast::of(work, limits, 1, None).bound == Bound::Launches)
}

fn is_found_right(site: &Site, format: Dtype, notes: &mut Vec<Note>) -> bool {
    let (why, hint) = match site.captured.iter().find(|it| it.format == format) {
        Some(Found { refused: None, .. }) => return true,
        Some(Found { refused: Some(reason), .. }) => {
            (reason.clone(), "set `use_cuda_graphs` to false, or to true to capture all the same")
        }
        None => (not_verified(site), "run `expert-cli doctor --prove` there once, or set `use_cuda_graphs`"),
    };
    let message = format!("launches bound the step, and it is not captured as a CUDA graph: {why}");
    notes.push(Note::new(CODE, message, hint));
    false
}
