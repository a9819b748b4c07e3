//! A warm parent for the workers of one queue: `python -m expert_worker serve` has paid for imports and for the base's
//! weights, and each worker is forked from it. Linux can hand such a child over to this process, which then watches over
//! it as over one of its own; elsewhere every worker is started by itself.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Warm;
#[cfg(target_os = "linux")]
pub use linux::Warm;
