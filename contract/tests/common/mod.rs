//! A machine for plans to be made on.

use std::path::{Path, PathBuf};

use expert_contract::plan::{Device, DeviceKind, Threads};
use expert_contract::resolve::{ProductsInFp32, Site};

/// A CPU whose memory is not known, and nothing from the command line.
pub fn site(manifest: &Path) -> Site {
    Site {
        manifest: manifest.to_owned(),
        output: None,
        data: None,
        test: None,
        home: PathBuf::from("/cache"),
        hub_cache: PathBuf::from("/nowhere"),
        device: Device { kind: DeviceKind::Cpu, index: 0, name: "device".into(), memory_bytes: None },
        devices: 1,
        least_memory: None,
        computes_bf16: true,
        products_in_fp32: ProductsInFp32::unmeasured(true),
        compiled: Vec::new(),
        captured: Vec::new(),
        limits: None,
        threads: Threads::default(),
        launched: None,
        launched_here: None,
        wait_for_mirror: false,
    }
}
