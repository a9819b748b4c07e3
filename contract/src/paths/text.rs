//! Text files that a manifest names.

use std::io;
use std::path::Path;

/// Without the byte order mark that editors on Windows may begin UTF-8 with: it is not part of the text.
pub fn read_text(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path).map(without_mark)
}

pub fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
