//! Facts about this machine: its devices, cores and folders.

use std::path::PathBuf;

use expert_contract::plan::{Device, DeviceKind};
use sysinfo::System;

use super::cgroup;
use super::env;
use super::gpus::Gpus;
use super::launcher::Rank;
use crate::failure::Failure;

/// The share of a GPU's free memory that another has to have to train what was planned for the first.
const ABOUT_AS_FREE: f64 = 0.9;

/// A device that training can run on.
#[derive(Debug, Clone)]
pub struct Found {
    pub device: Device,
    /// How many of its kind there are, counted from this one.
    pub devices: u32,
    pub computes_bf16: bool,
}

/// The first device of this kind, or the best one.
pub fn device(kind: Option<DeviceKind>) -> Result<Found, Failure> {
    match kind {
        Some(DeviceKind::Cpu) => Ok(cpu()),
        Some(DeviceKind::Mps) => mps().ok_or_else(|| absent("mps", "MPS needs an Apple-silicon Mac")),
        Some(DeviceKind::Cuda) => {
            let gpus = Gpus::here();
            let reason = || {
                let silent = "the NVIDIA driver's library (NVML) does not answer or lists no GPU";
                gpus.hidden().unwrap_or_else(|| gpus.refusal().unwrap_or(silent).to_owned())
            };
            gpus.found().into_iter().next().ok_or_else(|| absent("cuda", &reason()))
        }
        None => Ok(cuda().or_else(mps).unwrap_or_else(cpu)),
    }
}

fn absent(kind: &str, reason: &str) -> Failure {
    Failure::missing("device-missing", format!("there is no {kind} device here: {reason}"))
        .hint("use --device auto, and see `expert-cli doctor` for what this machine has")
}

/// The first GPU that torch will see.
fn cuda() -> Option<Found> {
    Gpus::here().found().into_iter().next()
}

/// The device of one of a launcher's processes: the GPU of its number on this machine, or the only one that the launcher
/// lets it see.
pub fn device_of_rank(first: &Found, rank: Rank) -> Result<Found, Failure> {
    if first.device.kind == DeviceKind::Mps {
        return Err(Failure::missing(
            "device-missing",
            "one Apple GPU cannot be shared by several processes",
        )
        .hint("use --device cpu, or start one process"));
    }
    if first.device.kind == DeviceKind::Cpu || first.devices == 1 {
        return Ok(first.clone());
    }
    Gpus::here().found().into_iter().nth(rank.local as usize).ok_or_else(|| {
        let (local, count) = (rank.local, first.devices);
        Failure::missing(
            "too-few-devices",
            format!("LOCAL_RANK is {local}, and this machine has {count} GPUs"),
        )
        .hint("start one process per GPU (torchrun --nproc-per-node)")
    })
}

/// The devices like `first`, including itself: as large, and about as free.
pub fn devices_like(first: &Device) -> Vec<Device> {
    if first.kind != DeviceKind::Cuda {
        return vec![first.clone()];
    }
    let gpus = Gpus::here();
    let is_as_large = |device: &Device| gpus.total(device.index) >= gpus.total(first.index);
    let devices = gpus.found().into_iter().map(|gpu| gpu.device).filter(is_as_large);
    as_free(first, devices.collect())
}

/// Those that are about as free as `first`. Where it is planned with less than it has (`--max-memory`), so is each.
fn as_free(first: &Device, devices: Vec<Device>) -> Vec<Device> {
    let room = |bytes: Option<u64>| bytes.unwrap_or(0) as f64;
    let own = devices.iter().find(|device| device.index == first.index);
    let limit = first.memory_bytes.filter(|planned| own.and_then(|it| it.memory_bytes) > Some(*planned));
    let is_like = |device: &Device| room(device.memory_bytes) >= ABOUT_AS_FREE * room(first.memory_bytes);
    let limited = |device: Device| Device {
        memory_bytes: device.memory_bytes.map(|free| limit.map_or(free, |most| free.min(most))),
        ..device
    };
    let found: Vec<Device> = devices.into_iter().filter(is_like).map(limited).collect();
    if found.is_empty() { vec![first.clone()] } else { found }
}

fn mps() -> Option<Found> {
    (cfg!(target_os = "macos") && cfg!(target_arch = "aarch64")).then(|| Found {
        device: Device {
            kind: DeviceKind::Mps,
            index: 0,
            name: "Apple GPU".to_owned(),
            memory_bytes: memory_of_host(),
        },
        devices: 1,
        computes_bf16: false,
    })
}

fn cpu() -> Found {
    let device =
        Device { kind: DeviceKind::Cpu, index: 0, name: "CPU".to_owned(), memory_bytes: memory_of_host() };
    Found { device, devices: 1, computes_bf16: computes_bf16() }
}

/// Whether the processor has instructions for bf16 products. Without them a product in bf16 is emulated, many times slower
/// than one in fp32.
#[cfg(target_arch = "x86_64")]
pub fn computes_bf16() -> bool {
    let cpuid = raw_cpuid::CpuId::new();
    cpuid.get_extended_feature_info().is_some_and(|it| it.has_amx_bf16() || it.has_avx512_bf16())
}

#[cfg(target_arch = "aarch64")]
pub fn computes_bf16() -> bool {
    std::arch::is_aarch64_feature_detected!("bf16")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn computes_bf16() -> bool {
    false
}

/// The processor's model.
pub fn processor() -> String {
    let mut system = System::new();
    system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
    system.cpus().first().map_or_else(String::new, |cpu| cpu.brand().trim().to_owned())
}

/// Physical memory, or less where a container, job or service has a limit.
fn memory_of_host() -> Option<u64> {
    let mut system = System::new();
    system.refresh_memory();
    let total = system.total_memory();
    // sysinfo's own `cgroup_limits` reads the root group only.
    let limit = cgroup::memory_limit().filter(|limit| *limit > 0);
    Some(limit.map_or(total, |limit| limit.min(total))).filter(|bytes| *bytes > 0)
}

/// Cores that this process may use, without hyper-threads; OMP_NUM_THREADS overrides it.
pub fn cores() -> u32 {
    let named = env::OMP_NUM_THREADS.get().and_then(|text| text.to_str()?.parse().ok());
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let physical = System::physical_core_count().unwrap_or(allowed);
    named.filter(|threads| *threads > 0).unwrap_or(allowed.min(physical).max(1) as u32)
}

/// Threads to compute with, for one expert alone on its device.
pub fn threads_alone(device: &Device) -> Option<u32> {
    (device.kind == DeviceKind::Cpu).then(cores)
}

/// Threads of one of a launcher's processes: what the launcher says (OMP_NUM_THREADS), or its share of the cores.
pub fn threads_of_rank(device: &Device, rank: Rank) -> Option<u32> {
    let sharing = if env::OMP_NUM_THREADS.get().is_some() { 1 } else { rank.local_of.unwrap_or(1) };
    threads_alone(device).map(|threads| (threads / sharing).max(1))
}

/// Converted bases, compiled tokenizers, base scores: files that can be made again.
pub fn home() -> PathBuf {
    if let Some(named) = env::HOME.folder() {
        return named;
    }
    dirs::cache_dir().unwrap_or_else(std::env::temp_dir).join("expert-cli")
}

/// As huggingface_hub decides it.
pub fn hub_cache() -> PathBuf {
    if let Some(cache) = env::HF_HUB_CACHE.folder().or_else(|| env::HUGGINGFACE_HUB_CACHE.folder()) {
        return cache;
    }
    if let Some(root) = env::HF_HOME.folder() {
        return root.join("hub");
    }
    let home = || dirs::home_dir().unwrap_or_else(|| PathBuf::from("."));
    let caches = env::XDG_CACHE_HOME.folder().unwrap_or_else(|| home().join(".cache"));
    caches.join("huggingface").join("hub")
}

/// The variable by which huggingface_hub downloads nothing.
pub fn offline() -> Option<&'static env::Variable> {
    let set = [&env::HF_HUB_OFFLINE, &env::TRANSFORMERS_OFFLINE];
    let (variable, value) = set.into_iter().find_map(|it| Some((it, it.get()?)))?;
    let is_true = ["1", "ON", "YES", "TRUE"].iter().any(|word| value.eq_ignore_ascii_case(word));
    is_true.then_some(variable)
}

/// How this machine calls itself.
#[cfg(unix)]
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
pub fn name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "a node".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_of_a_queue_keeps_to_the_memory_of_the_plan() {
        let gpu = |index: u32, memory: u64| Device {
            kind: DeviceKind::Cuda,
            index,
            name: "A".to_owned(),
            memory_bytes: Some(memory),
        };
        let here = || vec![gpu(0, 80), gpu(1, 90), gpu(2, 40)];
        assert_eq!(as_free(&gpu(0, 80), here()), [gpu(0, 80), gpu(1, 90)]);
        assert_eq!(as_free(&gpu(0, 20), here()), [gpu(0, 20), gpu(1, 20), gpu(2, 20)], "--max-memory");
        assert_eq!(as_free(&gpu(0, 200), here()), [gpu(0, 200)]);
    }
}
