//! The site of one invocation: this machine, and the paths that the command line names.

use std::path::Path;

use expert_contract::plan::{Device, DeviceKind, Threads};
use expert_contract::resolve::{ProductsInFp32, Site};
use expert_contract::results::ProductSpeed;

use crate::args::PlanOptions;
use crate::doctor::kernels;
use crate::failure::Failure;
use crate::sys::cards::limits;
use crate::sys::files::read_json;
use crate::sys::gpus::Gpus;
use crate::sys::host::{
    computes_bf16, device, device_of_rank, home, hub_cache, processor, threads_alone, threads_of_rank,
};
use crate::sys::launcher::Rank;

/// What a command says about this machine, beside the options that decide a plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Here {
    /// Threads that tokenize.
    pub jobs: Option<u32>,
    pub wait_for_mirror: bool,
    /// Which of a launcher's processes this is.
    pub rank: Option<Rank>,
    /// Memory of the device, where the plan is for a machine with another size.
    pub memory: Option<u64>,
}

/// `manifest` is the manifest's file.
pub fn of(options: &PlanOptions, here: Here, manifest: &Path) -> Result<Site, Failure> {
    let found =
        options.card.as_ref().map_or_else(|| device(options.device.kind()), |card| Ok(card.found()))?;
    let mut found = here.rank.map_or_else(|| Ok(found.clone()), |rank| device_of_rank(&found, rank))?;
    if here.memory.is_some() {
        found.device.memory_bytes = here.memory;
    }
    if let Some(most) = options.max_memory {
        found.device.memory_bytes = Some(found.device.memory_bytes.map_or(most, |here| here.min(most)));
    }
    let compute = match here.rank {
        Some(rank) => threads_of_rank(&found.device, rank),
        None => threads_alone(&found.device),
    };
    let is_cuda = found.device.kind == DeviceKind::Cuda;
    let proved = |operation: &str| {
        if is_cuda { kernels::found(&home(), &found.device.name, operation) } else { Vec::new() }
    };
    let (compiled, captured) = (proved(kernels::COMPILED), proved(kernels::CAPTURED));
    let limits = if is_cuda { limits(&found.device.name) } else { None };
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Ok(Site {
        manifest: absolute(manifest),
        output: options.output.as_deref().map(absolute),
        // A dataset of the Hub is not a path.
        data: options.data.as_deref().map(|it| if is_on_hub(it) { it.to_owned() } else { absolute(it) }),
        test: options.test.as_deref().map(|it| if is_on_hub(it) { it.to_owned() } else { absolute(it) }),
        home: home(),
        hub_cache: hub_cache(),
        threads: Threads { compute, pretokenize: here.jobs },
        least_memory: least_memory(options, &found.device),
        device: found.device,
        devices: found.devices,
        computes_bf16: found.computes_bf16,
        products_in_fp32: products_in_fp32(),
        compiled,
        captured,
        limits,
        launched: here.rank.map(|rank| rank.of),
        launched_here: here.rank.and_then(|rank| rank.local_of),
        wait_for_mirror: here.wait_for_mirror,
    })
}

/// Of this device and those that follow. A card that is only named has its like beside it.
fn least_memory(options: &PlanOptions, device: &Device) -> Option<u64> {
    if options.card.is_some() || device.kind != DeviceKind::Cuda {
        return None;
    }
    let others = Gpus::here().found().into_iter().filter(|it| it.device.index >= device.index);
    others.filter_map(|it| it.device.memory_bytes).chain(device.memory_bytes).min()
}

fn is_on_hub(data: &Path) -> bool {
    data.to_string_lossy().contains("::") && !data.exists()
}

/// For plans that do not depend on the device.
pub fn on_cpu(manifest: &Path) -> Site {
    Site {
        manifest: std::path::absolute(manifest).unwrap_or_else(|_| manifest.to_owned()),
        output: None,
        data: None,
        test: None,
        home: home(),
        hub_cache: hub_cache(),
        device: Device { kind: DeviceKind::Cpu, index: 0, name: String::new(), memory_bytes: None },
        devices: 1,
        least_memory: None,
        computes_bf16: computes_bf16(),
        products_in_fp32: products_in_fp32(),
        compiled: Vec::new(),
        captured: Vec::new(),
        limits: None,
        threads: Threads::default(),
        launched: None,
        launched_here: None,
        wait_for_mirror: false,
    }
}

/// What training has measured on this processor; before that, what its flags say.
fn products_in_fp32() -> ProductsInFp32 {
    let folder = home().join("products");
    let measured = |format: &str| {
        let found: ProductSpeed = read_json(&folder.join(format!("{format}.json")))?;
        (found.processor == processor()).then_some(found.in_fp32)
    };
    let unmeasured = ProductsInFp32::unmeasured(computes_bf16());
    ProductsInFp32 {
        bf16: measured("bf16").unwrap_or(unmeasured.bf16),
        fp16: measured("fp16").unwrap_or(unmeasured.fp16),
    }
}
