//! Several processes for one expert: what they cannot do together.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Accumulation, Distributed, Effective, Together};

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let Some(wanted) = effective.config.distributed.as_ref() else { return };
    match *wanted.strategy {
        Together::Ddp => {}
        Together::Fsdp2 => shard(effective, wanted, problems),
        Together::Deepspeed => {
            let message =
                "DeepSpeed is not supported: it shards optimizer states, which are small for an adapter";
            let problem = Problem::new(Code::DistributedUnsupported, wanted.strategy.span, message);
            problems.push(problem.hint("use `ddp`, or `fsdp2` where the base does not fit one device"));
        }
    }
    idle(effective, wanted, problems);
}

fn shard(effective: &Effective<'_>, wanted: &Distributed, problems: &mut Problems) {
    let quantization = &effective.base.quantization;
    if !quantization.can_be_sharded() {
        let message = format!("FSDP2 cannot shard weights that are quantized to {}", **quantization);
        let problem = Problem::new(Code::DistributedUnsupported, wanted.strategy.span, message);
        problems.push(problem.hint("use `ddp`, where each process holds the quantized base, or a bf16 base"));
    }
    if effective.config.adapter_type.is_soft_prompt() {
        let message = "FSDP2 cannot shard the embedding when soft prompts are trained";
        let problem = Problem::new(Code::DistributedUnsupported, wanted.strategy.span, message);
        problems.push(problem.hint("use `ddp` for prompt learning"));
    }
    if *effective.config.torch_compile == Some(true) {
        let message = "`torch_compile` has no effect with FSDP2: the base runs uncompiled";
        problems.push(
            Problem::new(Code::DistributedUncompiled, effective.config.torch_compile.span, message)
                .hint("set it to false, or use `ddp`"),
        );
    }
}

/// A step's rows are divided: with more processes than rows some would have none.
fn idle(effective: &Effective<'_>, wanted: &Distributed, problems: &mut Problems) {
    let config = &effective.config;
    let Accumulation::Steps(steps) = *config.gradient_accumulation_steps else { return };
    let rows = config.batch_size.saturating_mul(steps);
    if let Some(processes) = *wanted.processes
        && u64::from(processes) > rows
    {
        let message =
            format!("{processes} processes share a step of {rows} rows: some would have nothing to do");
        let problem = Problem::new(Code::IdleProcesses, wanted.processes.span, message);
        problems.push(problem.hint("lower `processes`, or raise `batch_size`"));
    }
}
