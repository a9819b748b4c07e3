//! The NVIDIA driver: its versions beside what torch was built for, and the questions that NVML leaves unanswered.

use std::path::Path;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::check::Check;
use super::probe::Report;
use crate::sys::gpus::is_library_missing;

const NAME: &str = "GPU driver";
/// It is there wherever a container or a machine has the driver, also without its library.
const CONTROL: &str = "/dev/nvidiactl";
/// The oldest driver of each major version of CUDA, which runs all of its minor versions.
const OLDEST: [(u32, u32); 2] = [(13, 580), (12, 525)];
/// The builds of torch for each major version of CUDA.
const INDEX: [(u32, &str); 2] = [(13, "cu130"), (12, "cu126")];
/// The first compute capability that CUDA 13 compiles for, and the last one that torch's build for CUDA 12 has code for.
const FIRST_OF_13: (u32, u32) = (7, 5);
const LAST_OF_12: (u32, u32) = (9, 0);

/// None where nothing points to an NVIDIA GPU.
pub fn check(report: Option<&Report>) -> Option<Check> {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(error) if is_library_missing(&error) => {
            let expected =
                report.is_some_and(|report| report.torch.cuda_available) || Path::new(CONTROL).exists();
            return expected.then(|| {
                Check::warning(
                    NAME,
                    "its library NVML is not found, so that no GPU can be chosen or planned for",
                    "in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility; elsewhere install the driver again",
                )
            });
        }
        Err(error) => {
            return Some(Check::warning(NAME, format!("NVML refuses: {error}"), remedy(&error)));
        }
    };
    let cuda = cuda_of(&nvml);
    let version = nvml.sys_driver_version().ok();
    let (gaps, refused) = unanswered(&nvml);
    let found = found(version.as_deref(), cuda, report) + &gaps;
    if let Some((refusal, error)) = refused {
        return Some(Check::warning(NAME, format!("{found}; {refusal}"), remedy(&error)));
    }
    let old = report.and_then(|report| too_old(cuda?, report));
    Some(old.map_or_else(|| Check::good(NAME, &found), |fix| Check::warning(NAME, &found, fix)))
}

/// The line to type for a torch that the driver supports.
pub fn torch_line(report: &Report) -> Option<String> {
    let (major, _) = cuda_of(&Nvml::init().ok()?)?;
    let (_, index) = INDEX.iter().find(|(of, _)| *of <= major)?;
    Some(install(report, index))
}

/// The line to type for a torch that has code for a GPU of this compute capability.
pub fn torch_line_for(report: &Report, capability: &str) -> Option<String> {
    let (major, minor) = capability.split_once('.')?;
    let capability = (major.parse().ok()?, minor.parse().ok()?);
    let [(_, newer), (_, older)] = INDEX;
    if capability < FIRST_OF_13 {
        return Some(install(report, older));
    }
    if capability > LAST_OF_12 {
        return Some(install(report, newer));
    }
    torch_line(report)
}

fn install(report: &Report, index: &str) -> String {
    let python = if report.executable.is_empty() { "python" } else { &report.executable };
    format!(
        "`{python} -m pip install --force-reinstall 'torch>=2.11' --index-url https://download.pytorch.org/whl/{index}`"
    )
}

fn cuda_of(nvml: &Nvml) -> Option<(u32, u32)> {
    let version = nvml.sys_cuda_driver_version().ok()?;
    Some((cuda_driver_version_major(version) as u32, cuda_driver_version_minor(version) as u32))
}

fn found(version: Option<&str>, cuda: Option<(u32, u32)>, report: Option<&Report>) -> String {
    let driver = version.map_or("NVML does not say its version".to_owned(), str::to_owned);
    let supports = cuda.map_or(String::new(), |(major, minor)| format!(", supports CUDA {major}.{minor}"));
    let torch = report.filter(|report| report.torch.error.is_none()).map_or(String::new(), |report| {
        match build(report) {
            None => "; torch is built without CUDA".to_owned(),
            Some((major, _)) => {
                let needed =
                    oldest(major).map_or(String::new(), |least| format!(" (driver {least} or newer)"));
                let cuda = report.torch.cuda_build.as_deref().unwrap_or_default();
                format!("; torch is built for CUDA {cuda}{needed}")
            }
        }
    });
    format!("{driver}{supports}{torch}")
}

/// What to do where torch was built for a later major version of CUDA than the driver supports.
fn too_old((major, _): (u32, u32), report: &Report) -> Option<String> {
    let (needed, _) = build(report).filter(|(needed, _)| *needed > major)?;
    let update = match oldest(needed) {
        Some(least) => format!("update the driver to {least} or newer"),
        None => "update the driver".to_owned(),
    };
    Some(match torch_line(report) {
        Some(line) => format!("{update}, or install a torch for CUDA {major}: {line}"),
        None => update,
    })
}

fn build(report: &Report) -> Option<(u32, u32)> {
    let (major, minor) = report.torch.cuda_build.as_deref()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn oldest(major: u32) -> Option<u32> {
    OLDEST.iter().find(|(of, _)| *of == major).map(|(_, least)| *least)
}

/// In words, what MIG slices, virtual GPUs and WSL2 do not answer; and a refusal that keeps a GPU from use.
fn unanswered(nvml: &Nvml) -> (String, Option<(String, NvmlError)>) {
    let mut silent = Vec::new();
    for number in 0..nvml.device_count().unwrap_or(0) {
        let card = match nvml.device_by_index(number) {
            Ok(card) => card,
            Err(error) => return (String::new(), Some((format!("GPU {number} is refused: {error}"), error))),
        };
        if let Err(error) = card.memory_info() {
            let refusal = format!("NVML does not say GPU {number}'s memory, so it is not used: {error}");
            return (String::new(), Some((refusal, error)));
        }
        if card.utilization_rates().is_err() {
            silent.push(number.to_string());
        }
    }
    if silent.is_empty() {
        return (String::new(), None);
    }
    let gaps = format!(
        "; NVML does not say the utilization of GPU {}, which runs leave out of their figures",
        silent.join(", ")
    );
    (gaps, None)
}

fn remedy(error: &NvmlError) -> &'static str {
    match error {
        NvmlError::LibRmVersionMismatch => {
            "restart the machine: the driver was updated while the old one was loaded"
        }
        NvmlError::DriverNotLoaded => {
            "load the driver with `sudo modprobe nvidia`, or install it; without an NVIDIA GPU nothing is lost"
        }
        NvmlError::NoPermission => "give this user access to the devices /dev/nvidia*",
        _ => "`nvidia-smi` uses the same library and shows the same; until it answers use --device cpu",
    }
}
