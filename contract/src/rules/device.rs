//! Rules that depend on the machine.

use super::problems::{Problems, place};
use super::switched_off;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;
use crate::plan::{DeviceKind, OptimizerName, PrecisionRequest, Quantization};

/// What rules need to know of the machine that trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineFacts {
    pub device: DeviceKind,
    /// How many devices of that kind there are.
    pub devices: u32,
    /// How many processes a launcher has started to train one expert, on this machine and others.
    pub launched: Option<u32>,
}

pub fn check(effective: &Effective<'_>, facts: MachineFacts, problems: &mut Problems) {
    let config = &effective.config;
    // A base held in 16 bits computes in its own format.
    let held = matches!(*effective.base.quantization, Quantization::Bf16 | Quantization::Fp16);
    if facts.device == DeviceKind::Cpu && config.precision() == PrecisionRequest::Fp16 && !held {
        let message = "fp16 is no faster than fp32 on a CPU, which forms its products in fp32";
        let problem = Problem::new(Code::Fp16OnCpu, place(&config.fp16, effective), message);
        problems.push(problem.hint("use `--mixed-precision bf16`, or `no`, on this machine"));
    }
    too_few_devices(effective, facts, problems);
    switched_off::check_compiled(effective, facts.device, problems);
    let paged = matches!(*config.optim, OptimizerName::PagedAdamw8bit | OptimizerName::PagedAdamw32bit);
    if facts.device != DeviceKind::Cuda && paged {
        let message = format!("paging needs CUDA: `{}` runs as its plain form", *config.optim);
        let problem = Problem::new(Code::PagedWithoutCuda, place(&config.optim, effective), message);
        problems.push(problem.hint("use `adamw_torch_fused`; an adapter's optimizer state is small"));
    }
}

/// Processes on a CPU share its cores; elsewhere each needs its own device.
fn too_few_devices(effective: &Effective<'_>, facts: MachineFacts, problems: &mut Problems) {
    let Some(wanted) = effective.config.distributed.as_ref() else { return };
    let Some(processes) = *wanted.processes else { return };
    if let Some(launched) = facts.launched {
        if launched != processes {
            let message =
                format!("the launcher has started {launched} processes, and the manifest wants {processes}");
            let problem = Problem::new(Code::LaunchedProcesses, wanted.processes.span, message);
            problems.push(problem.hint("remove `processes`, or start as many with the launcher"));
        }
        return;
    }
    if facts.device != DeviceKind::Cpu && processes > facts.devices {
        let (have, kind) = (facts.devices, facts.device);
        let message = format!("{processes} processes need a {kind} device each, and there are {have} here");
        let problem = Problem::new(Code::TooFewDevices, wanted.processes.span, message);
        problems.push(problem.hint("lower `processes`; null means one per device"));
    }
}
