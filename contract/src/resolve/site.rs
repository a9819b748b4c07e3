//! What `resolve` gets beside the manifest.

use std::path::{Path, PathBuf};

use crate::plan::{Device, Dtype, Threads};
use crate::speed::Limits;

/// Facts about this machine, and paths from the command line.
#[derive(Debug, Clone)]
pub struct Site {
    /// Absolute path of the manifest.
    pub manifest: PathBuf,
    /// Where the run lives, if the command line names a place.
    pub output: Option<PathBuf>,
    /// Training data in place of the manifest's, absolute.
    pub data: Option<PathBuf>,
    /// Test rows in place of the manifest's, absolute.
    pub test: Option<PathBuf>,
    /// Converted bases, compiled tokenizers and base scores.
    pub home: PathBuf,
    /// The Hugging Face Hub's cache of models.
    pub hub_cache: PathBuf,
    pub device: Device,
    /// How many devices of that kind there are.
    pub devices: u32,
    /// Memory of the smallest of them; none where they are alike.
    pub least_memory: Option<u64>,
    /// How many processes a launcher has started to train one expert, this one among them.
    pub launched: Option<u32>,
    /// How many of these are on this machine, where the launcher says so.
    pub launched_here: Option<u32>,
    /// Whether the device has units for bf16: tensor cores, AMX, AVX-512 BF16 or the like.
    pub computes_bf16: bool,
    pub products_in_fp32: ProductsInFp32,
    /// What `doctor --prove` found of compiled layers on the device; none where nobody has asked it.
    pub compiled: Vec<Found>,
    /// The same of captured steps.
    pub captured: Vec<Found>,
    /// What the device can do at most, where it is known.
    pub limits: Option<Limits>,
    /// What this run may use of the processor.
    pub threads: Threads,
    /// Whether training waits for each checkpoint's copy to the mirror, whatever the manifest says.
    pub wait_for_mirror: bool,
}

/// Whether a CPU computes in fp32 where the model is in a 16-bit format.
#[derive(Debug, Clone, Copy)]
pub struct ProductsInFp32 {
    pub bf16: bool,
    pub fp16: bool,
}

impl ProductsInFp32 {
    /// Where none was measured yet.
    pub fn unmeasured(computes_bf16: bool) -> Self {
        Self { bf16: !computes_bf16, fp16: true }
    }
}

/// What `doctor --prove` found of a part of the fast path, in one number format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub format: Dtype,
    /// Why it is not used; none where it is right, and not slower.
    pub refused: Option<String>,
}

impl Site {
    pub fn expert_dir(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new("."))
    }
}
