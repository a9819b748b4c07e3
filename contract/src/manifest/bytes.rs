//! From a file's bytes to text, with a clear message for everything that is not the JSON it should be.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::json::TOO_LARGE_HINT;
use crate::diagnostic::{Code, Problem};
use crate::foreign;
use crate::source::Span;

pub const MAX_BYTES: u64 = 16 << 20;

/// How messages speak of a kind of file, and how large one may be.
pub struct FileKind {
    pub one: &'static str,
    pub many: &'static str,
    pub max_bytes: u64,
    pub too_large_hint: &'static str,
    /// What to start from where the file is empty or in another format.
    pub start_hint: &'static str,
}

pub const MANIFEST: FileKind = FileKind {
    one: "a manifest",
    many: "manifests",
    max_bytes: MAX_BYTES,
    too_large_hint: TOO_LARGE_HINT,
    start_hint: "start from one that `expert-cli init NAME` writes",
};

const BYTE_ORDER_MARK: &str = "\u{feff}";
const LFS_HEADER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// A manifest's content; reading stops at the limit.
pub fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a folder" } else { "no regular file" };
        let problem =
            Problem::new(Code::FileUnreadable, Span::default(), format!("this is {what}, not a manifest"));
        return Err(problem.hint("name a manifest.json, or a folder that holds one"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    let (message, hint) = match error.kind() {
        ErrorKind::NotFound => {
            ("there is no such file", "check the path, or create one with `expert-cli init NAME`")
        }
        ErrorKind::PermissionDenied => ("there is no permission to read this file", "check its permissions"),
        _ => ("this file cannot be read", "check the path and the disk"),
    };
    let detail = if error.kind() == ErrorKind::NotFound { String::new() } else { format!(": {error}") };
    if error.kind() == ErrorKind::NotFound
        && let Some(other) =
            ["yaml", "yml", "toml"].iter().map(|end| path.with_extension(end)).find(|it| it.is_file())
    {
        let name = other.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Problem::new(Code::FileUnreadable, Span::default(), message)
            .hint(format!(
                "there is a {name} instead; manifests are JSON, so write it as manifest.json, or run `expert-cli import` \
                 where it is a configuration of Axolotl or LLaMA-Factory"
            ));
    }
    Problem::new(Code::FileUnreadable, Span::default(), format!("{message}{detail}")).hint(hint)
}

pub fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.starts_with(LFS_HEADER)
}

/// The text of a file, and what is wrong with the bytes around it. Where the problem is an error the text is only
/// there to show its place.
pub fn decode(bytes: Vec<u8>, kind: &FileKind) -> (String, Option<Problem>) {
    if bytes.len() as u64 > kind.max_bytes {
        let message = format!("this file is larger than {} MiB", kind.max_bytes >> 20);
        let problem = Problem::new(Code::FileTooLarge, Span::default(), message).hint(kind.too_large_hint);
        return (String::new(), Some(problem));
    }
    if is_lfs_pointer(&bytes) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let problem = Problem::new(
            Code::LfsPointer,
            Span::new(0, 0, LFS_HEADER.len()),
            format!("this is a Git LFS pointer, not {}", kind.one),
        )
        .hint(format!("run `git lfs pull`, and keep {} out of LFS", kind.many));
        return (text, Some(problem));
    }
    match String::from_utf8(bytes) {
        Ok(text) => {
            let problem = look(&text, kind);
            (text, problem)
        }
        Err(error) => not_utf8(&error),
    }
}

fn look(text: &str, kind: &FileKind) -> Option<Problem> {
    let content = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if content.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
        let message = format!("this file does not contain {}", kind.one);
        return Some(Problem::new(Code::FileEmpty, Span::default(), message).hint(kind.start_hint));
    }
    if let Some((format, start, end)) = other_format(content) {
        let before = text.len() - content.len();
        let span = Span::new(0, before + start, before + end);
        let message = format!("this looks like {format}; {} are JSON", kind.many);
        let problem = Problem::new(Code::OtherFormat, span, message);
        return Some(if is_of_another_trainer(content) {
            problem.hint(foreign::IMPORT)
        } else {
            let start = kind.start_hint;
            problem
                .hint(format!("write it as JSON (a YAML or TOML library of Python converts it), or {start}"))
        });
    }
    let span = Span::new(0, 0, BYTE_ORDER_MARK.len());
    text.starts_with(BYTE_ORDER_MARK).then(|| {
        Problem::new(
            Code::ByteOrderMark,
            span,
            "the file begins with a byte order mark, which is skipped here",
        )
        .hint("save it as UTF-8 without BOM; other JSON readers refuse it")
    })
}

/// Whether several of its outermost keys are those of another trainer.
fn is_of_another_trainer(text: &str) -> bool {
    foreign::are_of_another_trainer(
        text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name),
    )
}

/// YAML or TOML, by the first line that is neither empty nor a comment, and where that line is.
fn other_format(text: &str) -> Option<(&'static str, usize, usize)> {
    let mut start = 0;
    let found = text.split_inclusive('\n').find_map(|line| {
        let (at, shown) = (start, line.trim());
        start += line.len();
        (!shown.is_empty() && !shown.starts_with('#')).then_some((at, shown))
    });
    let (at, line) = found?;
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
    let table = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let key = |mark: char| line.split_once(mark).is_some_and(|(name, _)| is_name(name.trim()));
    let format = if line == "---" || line.starts_with("%YAML") || key(':') {
        "YAML"
    } else if table.is_some_and(is_name) || key('=') {
        "TOML"
    } else {
        return None;
    };
    Some((format, at, at + line.len()))
}

fn not_utf8(error: &std::string::FromUtf8Error) -> (String, Option<Problem>) {
    let bytes = error.as_bytes();
    let at = error.utf8_error().valid_up_to();
    let (message, hint) = match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            ("this file is UTF-16, not UTF-8".to_owned(), "save it as UTF-8")
        }
        _ => (format!("byte 0x{:02x} is not UTF-8 here", bytes[at]), "save the file as UTF-8"),
    };
    // Every byte before the place is valid, so it keeps its line and column in the text with replacements.
    let text = String::from_utf8_lossy(bytes).into_owned();
    let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    (text, Some(Problem::new(Code::InvalidUtf8, Span::new(0, at, end), message).hint(hint)))
}
