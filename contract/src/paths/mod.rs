//! The manifest's paths. Data stays inside the expert's folder; base models and caches may be anywhere.

mod base;
mod data;
mod files;
mod keys;
mod named_base;
mod parse;
mod sample_rows;
mod text;
mod written;

pub use base::base_is_known;
pub use data::{data_path, is_under, named_files};
pub use files::{
    DataFiles, FILE, NotData, Several, data_files, find_data, hub_id, is_pattern, may_be_on_hub,
};
pub use keys::{holds_path, holds_paths_by_name};
pub use parse::{
    DEFAULT_CACHE, anywhere, fill_placeholders, format_of_ending, packed_ending, unknown_ending,
};
pub use text::{read_text, without_mark};
pub use written::{Target, behind_local_scheme, mirror_target};

use parse::{is_foreign, unknown_placeholder};

use crate::diagnostic::{Code, Problem, Severity};
use crate::manifest::{Manifest, Options};

/// Checks every path in the manifest against the disk.
pub fn check(manifest: &Manifest, options: &Options, problems: &mut Vec<Problem>) {
    data::check(manifest, options, problems);
    sample_rows::check(manifest, problems);
    base::check(manifest, options, problems);
    written::check(manifest, options, problems);
    for effective in manifest.all_effective() {
        let cache = &effective.config.pretokenized_cache;
        let mirror = effective.config.checkpoint_mirror.as_ref().map(|it| &it.target);
        let of_mirror = mirror.map(|target| (target.as_str(), target.span));
        let filled_in = cache.as_deref().map(|text| (text, cache.span)).into_iter().chain(of_mirror);
        for (text, span) in filled_in {
            let Some(unknown) = unknown_placeholder(text) else { continue };
            let message = format!("`{{{unknown}}}` is not a placeholder");
            let problem = Problem::new(Code::PathInvalid, span, message);
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
