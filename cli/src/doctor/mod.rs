//! What this machine has for training, and how to fix what is missing. It works without Python, too.

mod check;
mod driver;
pub mod kernels;
mod machine;
mod probe;
pub mod text;
mod worker;

pub use check::{Check, Status};

use crate::args::Global;

pub fn checks(global: &Global) -> Vec<Check> {
    let (worker, report) = worker::checks(global);
    let mut all = vec![machine::this_program()];
    all.extend(worker);
    all.extend(driver::check(report.as_ref()));
    all.push(machine::device(report.as_ref()));
    all.extend([machine::memory(), machine::disk(), machine::hub_cache(), machine::git_itself()]);
    all
}
