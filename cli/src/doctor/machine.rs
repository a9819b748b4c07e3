//! The machine: device, memory, disk, caches, git.

use std::path::{Path, PathBuf};

use expert_contract::plan::{CONTRACT_VERSION, DeviceKind};
use sysinfo::Disks;

use super::check::Check;
use super::driver::{torch_line, torch_line_for};
use super::probe::Report;
use crate::sys::{cgroup, git, host};
use crate::ui::number::bytes;

/// A converted base, its cache, and some checkpoints of a small adapter.
const ENOUGH_DISK: u64 = 5 << 30;

pub fn this_program() -> Check {
    let place = std::env::current_exe().map_or(String::new(), |path| format!(", {}", path.display()));
    Check::good("expert-cli", format!("{}, contract {CONTRACT_VERSION}{place}", env!("CARGO_PKG_VERSION")))
}

/// The driver's devices, and whether torch can use them.
pub fn device(report: Option<&Report>) -> Check {
    let Ok(found) = host::device(None) else {
        return Check::warning("device", "none was recognised", "training falls back to the CPU");
    };
    let memory = found.device.memory_bytes.map_or(String::new(), |size| format!(", {}", bytes(size)));
    let shown = format!("{} ({}{memory})", found.device.name, found.device.kind);
    let Some(report) = report else { return Check::good("device", shown) };
    let torch = &report.torch;
    match found.device.kind {
        DeviceKind::Cuda if !torch.cuda_available => {
            let build = torch
                .cuda_build
                .as_ref()
                .map_or("without CUDA".to_owned(), |cuda| format!("for CUDA {cuda}"));
            Check::warning(
                "device",
                format!("{shown}, but torch (built {build}) cannot use it"),
                match torch_line(report) {
                    Some(line) => format!("install a torch build for the driver: {line}; until then use --device cpu"),
                    None => "update the driver, which no supported torch build runs on; until then use --device cpu".to_owned(),
                },
            )
        }
        DeviceKind::Mps if !torch.mps_available => Check::warning(
            "device",
            format!("{shown}, but torch cannot use it"),
            "install a torch build for this Mac",
        ),
        DeviceKind::Cuda => without_code(report).unwrap_or_else(|| {
            let seen: Vec<_> = torch
                .devices
                .iter()
                .map(|gpu| {
                    format!("{} ({}, capability {})", gpu.name, bytes(gpu.memory_bytes), gpu.capability)
                })
                .collect();
            Check::good("device", if seen.is_empty() { shown } else { seen.join("; ") })
        }),
        DeviceKind::Cpu if torch.cuda_available => Check::warning(
            "device",
            "torch sees a CUDA device that the driver's library (NVML) does not show",
            "name it with --device cuda once NVML answers; `nvidia-smi` uses the same library",
        ),
        DeviceKind::Cpu | DeviceKind::Mps => Check::good("device", shown),
    }
}

/// A warning where torch sees a GPU that its build cannot compute on.
fn without_code(report: &Report) -> Option<Check> {
    let gpu = report.torch.devices.iter().find(|gpu| !gpu.has_code)?;
    let build = report.torch.cuda_build.as_deref().unwrap_or("another device");
    let until = "until then use --device cpu";
    Some(Check::warning(
        "device",
        format!(
            "{} (capability {}), for which torch (built for CUDA {build}) has no code",
            gpu.name, gpu.capability
        ),
        match torch_line_for(report, &gpu.capability) {
            Some(line) => format!("install a torch that has: {line}; {until}"),
            None => format!("update the driver and torch; {until}"),
        },
    ))
}

pub fn memory() -> Check {
    const LITTLE: u64 = 4 << 30;
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let (total, free) = (system.total_memory(), system.available_memory());
    let limit = cgroup::memory_limit().filter(|limit| *limit < total);
    let limited = limit.map_or_else(String::new, |limit| format!(", limited to {} here", bytes(limit)));
    let found = format!("{} free of {}{limited}", bytes(free), bytes(total));
    if limit.map_or(free, |limit| limit.min(free)) < LITTLE {
        return Check::warning(
            "memory",
            found,
            "close other programs, or use a smaller base, before training on the CPU",
        );
    }
    Check::good("memory", found)
}

/// Where runs and where converted bases go.
pub fn disk() -> Check {
    let disks = Disks::new_with_refreshed_list();
    let here = std::env::current_dir().unwrap_or_default();
    let places = [here, existing(&host::home())];
    let found: Vec<(PathBuf, u64)> =
        places.into_iter().filter_map(|place| Some((place.clone(), free(&disks, &place)?))).collect();
    let shown: Vec<_> =
        found.iter().map(|(place, free)| format!("{} free at {}", bytes(*free), place.display())).collect();
    match found.iter().map(|(_, free)| *free).min() {
        None => Check::warning("disk", "free space is unknown", "make sure that several GiB are free"),
        Some(least) if least < ENOUGH_DISK => {
            Check::warning("disk", shown.join(", "), "free some space, or set EXPERT_HOME to another disk")
        }
        Some(_) => Check::good("disk", shown.join(", ")),
    }
}

/// The disk that is mounted nearest above the place.
fn free(disks: &Disks, place: &Path) -> Option<u64> {
    let place = place.canonicalize().ok()?;
    let above = disks.iter().filter(|disk| place.starts_with(disk.mount_point()));
    above.max_by_key(|disk| disk.mount_point().components().count()).map(sysinfo::Disk::available_space)
}

fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

pub fn hub_cache() -> Check {
    let cache = host::hub_cache();
    let offline = host::offline().map_or(String::new(), |variable| format!(", offline ({})", variable.name));
    let models = std::fs::read_dir(&cache).map(|entries| {
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("models--")).count()
    });
    match models {
        Ok(count) => Check::good("Hub cache", format!("{count} models in {}{offline}", cache.display())),
        Err(_) => Check::good("Hub cache", format!("{} (not made yet){offline}", cache.display())),
    }
}

/// Only `matrix --changed-since` needs it.
pub fn git_itself() -> Check {
    match git::version() {
        Some(version) => Check::good("git", version),
        None => Check::warning("git", "not found", "install git to use matrix --changed-since"),
    }
}
