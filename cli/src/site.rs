//! What this machine is: its device, and where things are kept.

use std::path::{Path, PathBuf};

use expert_contract::plan::{Device, DeviceKind};
use expert_contract::resolve::Site;

use crate::env;
use crate::failure::Failure;
use crate::options::{DeviceChoice, PlanOptions};

/// A device that training can run on.
#[derive(Debug, Clone)]
pub struct Found {
    pub device: Device,
    pub computes_bf16: bool,
}

/// The site of one invocation; `manifest` is the manifest's file.
pub fn of(options: &PlanOptions, manifest: &Path) -> Result<Site, Failure> {
    let found = device(options.device)?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Ok(Site {
        manifest: absolute(manifest),
        output: options.output.as_deref().map(absolute),
        data: options.data.as_deref().map(absolute),
        home: home(),
        hub_cache: hub_cache(),
        device: found.device,
        computes_bf16: found.computes_bf16,
    })
}

/// For questions whose answer no device changes.
pub fn on_cpu(manifest: &Path) -> Site {
    Site {
        manifest: std::path::absolute(manifest).unwrap_or_else(|_| manifest.to_owned()),
        output: None,
        data: None,
        home: home(),
        hub_cache: hub_cache(),
        device: Device { kind: DeviceKind::Cpu, index: 0, name: String::new(), memory_bytes: None },
        computes_bf16: false,
    }
}

pub fn device(choice: DeviceChoice) -> Result<Found, Failure> {
    match choice {
        DeviceChoice::Cpu => Ok(cpu()),
        DeviceChoice::Mps => mps().ok_or_else(|| absent("mps", "this is no Mac with Apple silicon")),
        DeviceChoice::Cuda => {
            let reason = "the NVIDIA driver's library (NVML) does not answer or lists no GPU";
            cuda().ok_or_else(|| absent("cuda", reason))
        }
        DeviceChoice::Auto => Ok(cuda().or_else(mps).unwrap_or_else(cpu)),
    }
}

fn absent(kind: &str, reason: &str) -> Failure {
    Failure::missing("device-missing", format!("there is no {kind} device here: {reason}"))
        .hint("use --device auto, and see `expert-cli doctor` for what this machine has")
}

/// The first GPU that the driver shows, by way of the library that nvidia-smi uses; nothing is linked.
fn cuda() -> Option<Found> {
    let nvml = nvml_wrapper::Nvml::init().ok()?;
    let gpu = nvml.device_by_index(0).ok()?;
    let memory = gpu.memory_info().ok()?.total;
    // Tensor cores compute in bf16 from compute capability 8.0 on.
    let computes_bf16 = gpu.cuda_compute_capability().is_ok_and(|it| it.major >= 8);
    let name = gpu.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned());
    let device = Device { kind: DeviceKind::Cuda, index: 0, name, memory_bytes: Some(memory) };
    Some(Found { device, computes_bf16 })
}

fn mps() -> Option<Found> {
    (cfg!(target_os = "macos") && cfg!(target_arch = "aarch64")).then(|| Found {
        device: Device {
            kind: DeviceKind::Mps,
            index: 0,
            name: "Apple GPU".to_owned(),
            memory_bytes: memory_of_host(),
        },
        computes_bf16: false,
    })
}

fn cpu() -> Found {
    let device =
        Device { kind: DeviceKind::Cpu, index: 0, name: "CPU".to_owned(), memory_bytes: memory_of_host() };
    Found { device, computes_bf16: false }
}

/// Physical memory, or less where a container sets a limit.
fn memory_of_host() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let total = system.total_memory();
    let limit = system.cgroup_limits().map(|limits| limits.total_memory).filter(|limit| *limit > 0);
    Some(limit.map_or(total, |limit| limit.min(total))).filter(|bytes| *bytes > 0)
}

/// Converted bases, compiled tokenizers, base scores: everything that can be made again.
pub fn home() -> PathBuf {
    if let Some(named) = env::HOME.get() {
        return PathBuf::from(named);
    }
    dirs::cache_dir().unwrap_or_else(std::env::temp_dir).join("expert-cli")
}

/// As huggingface_hub decides it.
pub fn hub_cache() -> PathBuf {
    if let Some(cache) = env::HF_HUB_CACHE.get() {
        return PathBuf::from(cache);
    }
    if let Some(root) = env::HF_HOME.get() {
        return PathBuf::from(root).join("hub");
    }
    let home = dirs::home_dir().unwrap_or_else(|| PathBuf::from("."));
    home.join(".cache").join("huggingface").join("hub")
}
