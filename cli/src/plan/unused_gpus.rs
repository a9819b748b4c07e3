//! GPUs that one expert leaves unused.

use expert_contract::plan::DeviceKind;
use expert_contract::resolve::{Note, Resolved};

/// `devices`: how many there are, from the one that the plan is for. The queue of `train --all` uses them all.
pub fn note(resolved: &Resolved, devices: u32) -> Option<Note> {
    let machine = &resolved.machine;
    let is_alone = machine.distributed.is_none() && resolved.names_no_strategy();
    if devices < 2 || machine.device.kind != DeviceKind::Cuda || !is_alone {
        return None;
    }
    let unused = devices - 1;
    let verb = if unused == 1 { "is" } else { "are" };
    let rows = resolved.recipe.batch.rows_per_step;
    let all = "--set training.config.distributed=ddp uses them all (fsdp2 where the base does not fit one)";
    let together = if rows < u64::from(devices) {
        format!("raise batch_size, as a step has fewer rows than there are GPUs; then {all}")
    } else {
        all.to_owned()
    };
    Some(Note {
        code: "unused-gpus",
        message: format!(
            "{unused} of {devices} GPUs {verb} not used: without `distributed` one expert trains on one"
        ),
        hint: format!("{together}; `train --all` trains an expert on each"),
    })
}
