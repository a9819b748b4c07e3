//! Facts about this machine: its devices, cores and folders.

use std::path::PathBuf;

use expert_contract::plan::{Device, DeviceKind};
use sysinfo::System;

use super::env;
use super::launcher::Rank;
use crate::failure::Failure;

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
            let reason = "the NVIDIA driver's library (NVML) does not answer or lists no GPU";
            cuda().ok_or_else(|| absent("cuda", reason))
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
    gpus().into_iter().next()
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
    gpus().into_iter().nth(rank.local as usize).ok_or_else(|| {
        let (local, count) = (rank.local, first.devices);
        Failure::missing(
            "too-few-devices",
            format!("LOCAL_RANK is {local}, and this machine has {count} GPUs"),
        )
        .hint("start one process per GPU (torchrun --nproc-per-node)")
    })
}

/// The devices like `first`, including itself.
pub fn devices_like(first: &Device) -> Vec<Device> {
    let all = if first.kind == DeviceKind::Cuda { gpus() } else { Vec::new() };
    let as_large = |device: &Device| device.memory_bytes >= first.memory_bytes;
    let mut devices: Vec<Device> = all.into_iter().map(|gpu| gpu.device).filter(as_large).collect();
    if devices.is_empty() {
        devices.push(first.clone());
    }
    devices
}

/// The driver's GPUs, through NVML (loaded at run time). They are numbered as in torch, which sees
/// only those in CUDA_VISIBLE_DEVICES.
fn gpus() -> Vec<Found> {
    let Ok(nvml) = nvml_wrapper::Nvml::init() else { return Vec::new() };
    let count = nvml.device_count().unwrap_or(0);
    let visible = visible_gpus(env::CUDA_VISIBLE_DEVICES.get().as_deref(), count);
    let all = visible.len();
    let found = visible.into_iter().enumerate().filter_map(|(index, number)| {
        // Processes that train together take this one and those that follow.
        gpu(&nvml, number, index as u32).map(|gpu| Found { devices: (all - index) as u32, ..gpu })
    });
    found.collect()
}

/// Numbers up to the first invalid one, as the driver reads them. Other kinds of names select all.
fn visible_gpus(named: Option<&std::ffi::OsStr>, count: u32) -> Vec<u32> {
    let Some(named) = named.and_then(|named| named.to_str()) else { return (0..count).collect() };
    let numbers: Vec<Option<i64>> = named.split(',').map(|word| word.trim().parse().ok()).collect();
    if numbers.iter().all(Option::is_none) {
        return (0..count).collect();
    }
    let numbers = numbers.into_iter().map_while(|number| u32::try_from(number?).ok());
    numbers.take_while(|number| *number < count).collect()
}

fn gpu(nvml: &nvml_wrapper::Nvml, number: u32, index: u32) -> Option<Found> {
    let gpu = nvml.device_by_index(number).ok()?;
    let memory = gpu.memory_info().ok()?.total;
    // Tensor cores compute in bf16 from compute capability 8.0 on.
    let computes_bf16 = gpu.cuda_compute_capability().is_ok_and(|it| it.major >= 8);
    let name = gpu.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned());
    let device = Device { kind: DeviceKind::Cuda, index, name, memory_bytes: Some(memory) };
    Some(Found { device, devices: 1, computes_bf16 })
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

/// Physical memory, or less where a container sets a limit.
fn memory_of_host() -> Option<u64> {
    let mut system = System::new();
    system.refresh_memory();
    let total = system.total_memory();
    let limit = system.cgroup_limits().map(|limits| limits.total_memory).filter(|limit| *limit > 0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_numbered_as_torch_sees_them() {
        let visible = |named: &str| visible_gpus(Some(named.as_ref()), 4);
        assert_eq!(visible_gpus(None, 2), [0, 1]);
        assert_eq!(visible("2,0"), [2, 0]);
        assert_eq!(visible("1,-1,2"), [1]);
        assert_eq!(visible("1,9,2"), [1]);
        assert_eq!(visible("GPU-abc"), [0, 1, 2, 3]);
        assert!(visible("-1").is_empty());
    }
}
