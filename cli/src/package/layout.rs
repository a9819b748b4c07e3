//! Which files an `.expert` package may hold. A name is compared with this list and never used as it came.

pub use crate::experts::MANIFEST;
pub use crate::run::{CONFIG, EXPERT, WEIGHTS};
use crate::runs::answers::{GBNF, JSON_SCHEMA};

pub const SIGNATURE: &str = "signature.sig";
pub const TEMPLATE: &str = "chat_template.jinja";
pub const LICENSE: &str = "LICENSE";
/// The last is of packages that other tools made.
pub const GRAMMARS: [&str; 3] = [GBNF, JSON_SCHEMA, "grammar.lark"];

/// Files of a finished adapter's folder that travel, beside the weights.
const ADAPTER: [&str; 15] = [
    CONFIG,
    EXPERT,
    "README.md",
    "added_tokens.json",
    TEMPLATE,
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    WEIGHTS,
];

pub const REQUIRED: [&str; 3] = [MANIFEST, CONFIG, WEIGHTS];

/// More entries than there are names are duplicates or junk.
pub const MOST_ENTRIES: usize = 32;

const PICKLES: [&str; 9] = ["bin", "pt", "pth", "pkl", "pickle", "ckpt", "joblib", "dill", "npy"];

/// The name as this list has it, or why it is none of a package.
pub fn known(name: &str) -> Result<&'static str, String> {
    all().find(|known| *known == name).ok_or_else(|| refusal(name))
}

pub fn of_adapter(name: &str) -> Option<&'static str> {
    ADAPTER.into_iter().find(|known| *known == name)
}

fn all() -> impl Iterator<Item = &'static str> {
    ADAPTER.into_iter().chain(GRAMMARS).chain([MANIFEST, SIGNATURE, LICENSE])
}

/// Bytes at most.
pub fn largest(name: &str) -> u64 {
    match name {
        WEIGHTS => 64 << 30,
        MANIFEST | EXPERT | CONFIG | SIGNATURE => 4 << 20,
        _ => 256 << 20,
    }
}

fn refusal(name: &str) -> String {
    let drive = name.as_bytes().get(1) == Some(&b':') && name.as_bytes()[0].is_ascii_alphabetic();
    if name.is_empty() {
        "has no name".to_owned()
    } else if name.chars().any(char::is_control) {
        "has a control character in its name".to_owned()
    } else if name.starts_with(['/', '\\']) || drive {
        "is an absolute path".to_owned()
    } else if name.split(['/', '\\']).any(|part| part == "..") {
        "leads out of the package's folder".to_owned()
    } else if name.contains(['/', '\\']) {
        "is in a folder, and packages are flat".to_owned()
    } else if is_pickle_name(name) {
        "is a pickle, which can run any program when it is loaded".to_owned()
    } else if let Some(known) = all().find(|known| known.eq_ignore_ascii_case(name)) {
        format!("differs from {known} only in case")
    } else {
        "is not a file of an expert package".to_owned()
    }
}

pub fn is_pickle_name(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    PICKLES.contains(&ending.as_str())
}

/// Pickles and archives by their first bytes: torch.save writes zip files. Not for safetensors, which begin with a length.
pub fn foreign_content(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x80, 2..=5, ..] => Some("holds a pickle, which can run any program when it is loaded"),
        [b'P', b'K', 3 | 5, 4 | 6, ..] => Some("holds a zip archive, as torch.save writes pickles"),
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [b'7', b'z', 0xbc, ..] | [b'B', b'Z', b'h', ..] => {
            Some("holds another archive")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_list_or_refused_with_the_reason() {
        assert_eq!(known("README.md"), Ok("README.md"));
        for (name, reason) in [
            ("", "no name"),
            ("/etc/passwd", "absolute"),
            ("\\\\host\\share", "absolute"),
            ("C:\\x", "absolute"),
            ("c:x", "absolute"),
            ("../x", "leads out"),
            ("a\\..\\x", "leads out"),
            ("./README.md", "in a folder"),
            ("README.md/", "in a folder"),
            ("a\\b", "in a folder"),
            ("a\u{1b}[2J", "control character"),
            ("README.md\n", "control character"),
            ("training_args.bin", "pickle"),
            ("X.PKL", "pickle"),
            ("model.ckpt", "pickle"),
            ("Readme.MD", "only in case"),
            ("more.tar.gz", "not a file of"),
            (".hidden", "not a file of"),
        ] {
            let refused = known(name).unwrap_err();
            assert!(refused.contains(reason), "{name:?}: {refused}");
        }
    }

    #[test]
    fn pickles_and_archives_are_known_by_their_content() {
        assert!(foreign_content(b"\x80\x04\x95").unwrap().contains("pickle"));
        assert!(foreign_content(b"PK\x03\x04").unwrap().contains("zip"));
        assert!(foreign_content(b"\x1f\x8b\x08").unwrap().contains("archive"));
        assert_eq!(foreign_content(b"{\"a\": 1}"), None);
        assert_eq!(foreign_content(b""), None);
    }
}
