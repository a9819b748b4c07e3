//! The machine: device, memory, disk, caches, git.

use std::path::{Path, PathBuf};

use expert_contract::plan::{CONTRACT_VERSION, DeviceKind};

use super::check::Check;
use super::driver::{self, Way, torch_for};
use super::probe::{Gpu, Report};
use crate::sys::gpus::Gpus;
use crate::sys::{cgroup, git, host};
use crate::ui::number::bytes;

/// A converted base, its cache, and some checkpoints of a small adapter.
const ENOUGH_DISK: u64 = 5 << 30;

const UNTIL_THEN: &str = "until then use --device cpu";
const NO_BUILD: &str = "use --device cpu: no build of torch that training supports has code for this GPU";

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
                match torch_for(report, Gpus::here().capability(found.device.index).as_slice()) {
                    Way::Install(line) => {
                        format!("install a torch build for the driver: {line}; {UNTIL_THEN}")
                    }
                    Way::UpdateDriver(least) => {
                        format!("update the driver to {least} or newer; {UNTIL_THEN}")
                    }
                    Way::Nothing => NO_BUILD.to_owned(),
                },
            )
        }
        DeviceKind::Mps if !torch.mps_available => Check::warning(
            "device",
            format!("{shown}, but torch cannot use it"),
            "install a torch build for this Mac",
        ),
        DeviceKind::Cuda => match torch.devices.get(found.device.index as usize) {
            Some(planned) if !planned.has_code => without_code(planned, report),
            Some(_) => cards(&torch.devices),
            None => Check::good("device", shown),
        },
        DeviceKind::Cpu if torch.cuda_available => Check::warning(
            "device",
            "torch sees a CUDA device that the driver's library (NVML) does not show",
            "name it with --device cuda once NVML answers; `nvidia-smi` uses the same library",
        ),
        DeviceKind::Cpu | DeviceKind::Mps => Check::good("device", shown),
    }
}

/// torch's build cannot compute on the GPU that is planned for.
fn without_code(planned: &Gpu, report: &Report) -> Check {
    let build = report.torch.cuda_build.as_deref().unwrap_or("another device");
    let found = format!(
        "{} (capability {}), for which torch (built for CUDA {build}) has no code",
        planned.name, planned.capability
    );
    let usable: Vec<&Gpu> = report.torch.devices.iter().filter(|gpu| gpu.has_code).collect();
    // Another build must not take the code of the others away.
    let kept: Vec<_> =
        usable.iter().chain([&planned]).filter_map(|gpu| driver::version(&gpu.capability)).collect();
    let fix = match torch_for(report, &kept) {
        Way::Install(line) => format!("install a torch that has: {line}; {UNTIL_THEN}"),
        Way::UpdateDriver(least) => {
            format!("update the driver to {least} or newer first, for a torch that has; {UNTIL_THEN}")
        }
        Way::Nothing if usable.is_empty() => NO_BUILD.to_owned(),
        Way::Nothing => {
            let names: Vec<_> = usable.iter().map(|gpu| gpu.name.as_str()).collect();
            format!("choose a GPU that it has code for with CUDA_VISIBLE_DEVICES: {}", names.join(", "))
        }
    };
    Check::warning("device", found, fix)
}

/// The GPUs that torch sees, the first of which it can compute on.
fn cards(gpus: &[Gpu]) -> Check {
    let one = |gpu: &Gpu| {
        let without = if gpu.has_code { "" } else { ", for which torch has no code" };
        format!("{} ({}, capability {}{without})", gpu.name, bytes(gpu.memory_bytes), gpu.capability)
    };
    let seen = gpus.iter().map(one).collect::<Vec<_>>().join("; ");
    if gpus.iter().all(|gpu| gpu.has_code) {
        return Check::good("device", seen);
    }
    let fix = "name only the others in CUDA_VISIBLE_DEVICES: runs on several GPUs, and experts that train at once, would take it too";
    Check::warning("device", seen, fix)
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
    let here = std::env::current_dir().unwrap_or_default();
    let places = [here, existing(&host::home())];
    let found: Vec<(PathBuf, u64)> =
        places.into_iter().filter_map(|place| Some((place.clone(), free(&place)?))).collect();
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

/// Of the file system that holds the place: a network's and one in memory are in no list of disks.
#[cfg(target_os = "linux")]
fn free(place: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(place).ok()?;
    // One that does not count its blocks has none.
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// The disk that is mounted nearest above the place.
#[cfg(not(target_os = "linux"))]
fn free(place: &Path) -> Option<u64> {
    let disks = sysinfo::Disks::new_with_refreshed_list();
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_that_of_the_file_system_that_holds_the_place() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free(folder.path()).is_some());
        assert_eq!(free(Path::new("/proc")), None, "not that of the disk above it");
    }
}
