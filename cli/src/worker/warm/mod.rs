//! A warm parent for the workers of one queue: `python -m expert_worker warm` has loaded the imports and the base's
//! weights, and each worker is forked from it. On Linux such a child becomes a child of this process; elsewhere every worker is
//! started separately.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Warm;
#[cfg(target_os = "linux")]
pub use linux::Warm;
