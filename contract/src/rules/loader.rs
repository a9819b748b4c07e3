//! Loader processes: settings that need them, and runs that do not.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let workers = &config.dataloader_num_workers;
    if **workers == 0 {
        let ahead = &config.dataloader_prefetch_factor;
        if ahead.is_given() && ahead.is_some() {
            let message = "`dataloader_prefetch_factor` has no effect: `dataloader_num_workers` is 0";
            let problem = Problem::new(Code::LoaderWithoutWorkers, ahead.span, message);
            problems.push(problem.hint("remove it, or give the loader workers"));
        }
    } else if effective.uses_cache() && workers.is_given() {
        let message = format!(
            "rows come from the mapped token cache, so the {} loader workers and their prefetching are not used",
            **workers
        );
        let problem = Problem::new(Code::LoaderUnused, workers.span, message);
        problems.push(
            problem.hint("they are used where `training.dataset` has \"use_pretokenized\": false or streams"),
        );
    }
}
