//! The manifest's paths. Data stays inside the expert's folder; base models and caches may be anywhere.

mod base;
mod data;
mod files;
mod keys;
mod parse;
mod written;

pub use base::base_is_known;
pub use data::data_path;
pub use files::{DataFiles, NotData, data_files, find_data, hub_id, is_pattern, unknown_ending};
pub use keys::{holds_path, holds_paths_by_name};
pub use parse::{DEFAULT_CACHE, anywhere, fill_placeholders, format_of_ending, packed_ending};
pub use written::{Target, mirror_target};

use parse::{is_foreign, unknown_placeholder};

use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::{Manifest, Options};

/// Checks every path in the manifest against the disk.
pub fn check(manifest: &Manifest, options: &Options, problems: &mut Vec<Problem>) {
    data::check(manifest, options, problems);
    base::check(manifest, options, problems);
    written::check(manifest, options, problems);
    for effective in manifest.all_effective() {
        let cache = &effective.config.pretokenized_cache;
        if let Some(unknown) = cache.as_deref().and_then(unknown_placeholder) {
            let message = format!("`{{{unknown}}}` is not a placeholder");
            let problem = Problem::new(Code::PathInvalid, cache.span, message);
            problems.push(problem.hint("use `{expert-name}` and `{model-slug}`"));
        }
        if let Some(foreign) = cache.as_deref().filter(|cache| is_foreign(cache)) {
            let message = format!(
                "`{foreign}` is a path of another operating system; the token cache is kept beside the manifest"
            );
            let problem = Problem::new(Code::PathInvalid, cache.span, message).severity(Severity::Warning);
            problems.push(problem.hint("remove the key, or name a folder that exists on every system"));
        }
    }
}
