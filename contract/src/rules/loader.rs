//! Loader processes: settings that need them, and runs that do not.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::{Effective, Setting};

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let config = &effective.config;
    let workers = &config.dataloader_num_workers;
    if **workers == 0 {
        without_workers(
            "dataloader_persistent_workers",
            &config.dataloader_persistent_workers,
            |on| *on,
            problems,
        );
        without_workers(
            "dataloader_prefetch_factor",
            &config.dataloader_prefetch_factor,
            Option::is_some,
            problems,
        );
    } else if effective.uses_cache() && workers.is_given() {
        let message = format!(
            "rows come from the mapped token cache, so the {} loader workers, their prefetching and their persistence are not used",
            **workers
        );
        let problem = Problem::new(Code::LoaderUnused, workers.span, message);
        problems.push(
            problem.hint("they are used where `training.dataset` has \"use_pretokenized\": false or streams"),
        );
    }
}

fn without_workers<T>(key: &str, setting: &Setting<T>, asks: fn(&T) -> bool, problems: &mut Problems) {
    if setting.is_given() && asks(setting) {
        let message = format!("`{key}` has no effect: `dataloader_num_workers` is 0");
        let problem = Problem::new(Code::LoaderWithoutWorkers, setting.span, message);
        problems.push(problem.hint("remove it, or give the loader workers"));
    }
}
