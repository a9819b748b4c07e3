//! The NVIDIA driver: its versions beside what torch was built for, and the questions that NVML leaves unanswered.

use std::path::Path;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::check::Check;
use super::probe::Report;
use crate::sys::gpus::{Gpus, is_library_missing};

const NAME: &str = "GPU driver";
/// It is there wherever a container or a machine has the driver, also without its library.
const CONTROL: &str = "/dev/nvidiactl";
/// A compute capability.
type Capability = (u32, u32);

/// A build of torch.
struct Build {
    /// The major version of CUDA.
    cuda: u32,
    /// The oldest driver of that version, which runs all of its minor versions.
    driver: u32,
    index: &'static str,
    /// The GPUs that it has code for; the newest build's can be compiled for later ones too.
    first: Capability,
    last: Option<Capability>,
}

/// The newest first.
const BUILDS: [Build; 2] = [
    Build { cuda: 13, driver: 580, index: "cu130", first: (7, 5), last: None },
    Build { cuda: 12, driver: 525, index: "cu126", first: (5, 0), last: Some((9, 0)) },
];

/// How to get a torch that has code for some GPUs.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// The lines to type, of pip and of uv.
    Install(String),
    /// No build that has code for them runs with the driver.
    UpdateDriver(u32),
    /// No build has code for all of them.
    Nothing,
}

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

/// The way to a torch that this driver runs and that has code for all of these GPUs.
pub fn torch_for(report: &Report, gpus: &[Capability]) -> Way {
    let cuda = Nvml::init().ok().and_then(|nvml| cuda_of(&nvml)).map(|(major, _)| major);
    match build_for(cuda, gpus) {
        Some((build, true)) => Way::Install(install(report, build.index)),
        Some((build, false)) => Way::UpdateDriver(build.driver),
        None => Way::Nothing,
    }
}

/// The newest build for these GPUs that a driver for this version of CUDA runs; else the newest, and false.
fn build_for(cuda: Option<u32>, gpus: &[Capability]) -> Option<(&'static Build, bool)> {
    let has_code = |build: &&Build| {
        gpus.iter().all(|gpu| *gpu >= build.first && build.last.is_none_or(|last| *gpu <= last))
    };
    let runs = |build: &&Build| cuda.is_none_or(|cuda| build.cuda <= cuda);
    let mut fitting = BUILDS.iter().filter(has_code);
    let newest = fitting.clone().next()?;
    Some(fitting.find(runs).map_or((newest, false), |build| (build, true)))
}

/// "7.5"
pub fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn install(report: &Report, index: &str) -> String {
    let python = if report.executable.is_empty() { "python" } else { &report.executable };
    let what = format!("'torch>=2.11' --index-url https://download.pytorch.org/whl/{index}");
    format!(
        "`{python} -m pip install --force-reinstall {what}`, or with uv `uv pip install --python {python} --reinstall {what}`"
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
    // The first one is planned for.
    Some(match torch_for(report, Gpus::here().capability(0).as_slice()) {
        Way::Install(line) => format!("{update}, or install a torch for CUDA {major}: {line}"),
        Way::UpdateDriver(_) | Way::Nothing => update,
    })
}

/// The CUDA that torch is built for.
fn build(report: &Report) -> Option<(u32, u32)> {
    version(report.torch.cuda_build.as_deref()?)
}

fn oldest(cuda: u32) -> Option<u32> {
    BUILDS.iter().find(|build| build.cuda == cuda).map(|build| build.driver)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_of_torch_fits_the_driver_and_every_gpu() {
        let index = |cuda: u32, gpus: &[Capability]| {
            build_for(Some(cuda), gpus).map(|(build, runs)| if runs { build.index } else { "newer driver" })
        };
        let (old, middle, new) = ((6, 1), (8, 9), (12, 0));
        assert_eq!((index(13, &[middle]), index(12, &[middle])), (Some("cu130"), Some("cu126")));
        assert_eq!((index(13, &[old]), index(13, &[old, middle])), (Some("cu126"), Some("cu126")));
        assert_eq!((index(13, &[new]), index(12, &[new])), (Some("cu130"), Some("newer driver")));
        assert_eq!(index(11, &[middle]), Some("newer driver"));
        assert_eq!((index(13, &[old, new]), index(13, &[(3, 7)])), (None, None));
    }
}
