//! The folder of a search, which holds the runs of its trials.

use std::path::Path;

pub const SEARCH: &str = "search.json";

pub fn is_search(folder: &Path) -> bool {
    folder.join(SEARCH).is_file()
}
