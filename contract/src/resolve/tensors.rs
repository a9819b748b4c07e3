//! A base's weight files, and the names and shapes of its tensors, from the headers of these files: nothing else of
//! them is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// A larger header is not read; those of the largest models stay below a tenth of it.
const LARGEST_HEADER: u64 = 32 << 20;
const MOST_FILES: usize = 1024;
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Whether the folder holds every weight file that transformers reads: `model.safetensors`, or all that the index names.
/// Pickled weights alone count too: the worker refuses them with the reason.
pub fn are_all_here(folder: &Path) -> bool {
    match named(folder) {
        Some(files) => files.iter().all(|file| file.is_file()),
        // Shards may arrive before their index.
        None => {
            with_ending(folder, &["safetensors"]).is_empty()
                && !with_ending(folder, &["bin", "pt"]).is_empty()
        }
    }
}

/// The files that transformers reads, in its order. A folder may hold a second copy of its weights, such as the
/// `consolidated.safetensors` of Mistral's.
fn named(folder: &Path) -> Option<Vec<PathBuf>> {
    if folder.join(WEIGHTS).is_file() {
        return Some(vec![folder.join(WEIGHTS)]);
    }
    let text = std::fs::read(folder.join(INDEX)).ok()?;
    let index: Index = serde_json::from_slice(&text).ok()?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    // Other files are never opened: the index may come from anyone.
    let is_plain = |name: &String| name.ends_with(".safetensors") && !name.contains(['/', '\\', ':']);
    (!names.is_empty() && names.iter().all(is_plain))
        .then(|| names.iter().map(|name| folder.join(name)).collect())
}

fn with_ending(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let paths = entries.map(|entry| entry.path());
    let matches = |path: &PathBuf| {
        path.extension().is_some_and(|it| endings.iter().any(|ending| it == *ending)) && path.is_file()
    };
    paths.filter(matches).collect()
}

/// The weight files that transformers reads, or every safetensors file where neither is there, by name.
pub fn weight_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = named(folder).unwrap_or_else(|| with_ending(folder, &["safetensors"]));
    files.sort();
    files
}

/// Of the base's weight files. `None` where there is none, or where one cannot be read: the worker reports it.
pub fn read(folder: &Path) -> Option<BTreeMap<String, Vec<u64>>> {
    let files = weight_files(folder);
    if files.is_empty() || files.len() > MOST_FILES {
        return None;
    }
    let mut found = BTreeMap::new();
    for file in &files {
        found.extend(header(file)?);
    }
    Some(found)
}

fn header(path: &Path) -> Option<BTreeMap<String, Vec<u64>>> {
    let mut file = File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    if length > LARGEST_HEADER {
        return None;
    }
    let mut text = Vec::new();
    file.take(length).read_to_end(&mut text).ok()?;
    let entries: BTreeMap<String, Value> = serde_json::from_slice(&text).ok()?;
    let shapes = entries.into_iter().filter(|(name, _)| name != "__metadata__");
    shapes.map(|(name, entry)| Some((name, Tensor::deserialize(entry).ok()?.shape))).collect()
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Tensor {
    shape: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, header: &str) {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        std::fs::write(folder.join(name), bytes).unwrap();
    }

    #[test]
    fn weights_are_here_once_every_file_that_is_read_is() {
        const INDEX_OF_TWO: &str =
            r#"{"weight_map": {"a": "1-of-2.safetensors", "b": "2-of-2.safetensors"}}"#;
        for (names, here) in [
            (&["config.json", "tokenizer.json"][..], false),
            (&["model.safetensors"], true),
            (&["1-of-2.safetensors"], false),
            (&["1-of-2.safetensors", INDEX], false),
            (&["1-of-2.safetensors", "2-of-2.safetensors", INDEX], true),
            (&["model.safetensors", INDEX], true),
            (&["pytorch_model.bin"], true),
            (&["pytorch_model.bin", INDEX], false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                std::fs::write(folder.path().join(name), INDEX_OF_TWO).unwrap();
            }
            assert_eq!(are_all_here(folder.path()), here, "{names:?}");
        }
    }

    #[test]
    fn the_shapes_of_all_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), None);
        let entry = |shape| format!(r#"{{"dtype": "F32", "shape": {shape}, "data_offsets": [0, 0]}}"#);
        write(
            folder.path(),
            "1.safetensors",
            &format!(r#"{{"__metadata__": {{}}, "a": {}}}"#, entry("[2, 3]")),
        );
        write(folder.path(), "2.safetensors", &format!(r#"{{"b": {}}}"#, entry("[4]")));
        let found = read(folder.path()).unwrap();
        assert_eq!(found, BTreeMap::from([("a".to_owned(), vec![2, 3]), ("b".to_owned(), vec![4])]));
    }

    #[test]
    fn a_second_copy_of_the_weights_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let one =
            |name: &str| format!(r#"{{"{name}": {{"dtype": "F32", "shape": [1], "data_offsets": [0, 0]}}}}"#);
        let names = || read(folder.path()).unwrap().into_keys().collect::<Vec<_>>();
        write(folder.path(), "consolidated.safetensors", &one("copy"));
        write(folder.path(), "1-of-1.safetensors", &one("shard"));
        for index in ["[]", r#"{"weight_map": {"shard": "../1-of-1.safetensors"}}"#] {
            std::fs::write(folder.path().join(INDEX), index).unwrap();
            assert_eq!(names(), ["copy", "shard"], "{index}");
        }
        std::fs::write(folder.path().join(INDEX), r#"{"weight_map": {"shard": "1-of-1.safetensors"}}"#)
            .unwrap();
        assert_eq!(names(), ["shard"]);
        write(folder.path(), WEIGHTS, &one("whole"));
        assert_eq!(names(), ["whole"]);
    }

    #[test]
    fn a_header_has_a_largest_length_and_a_folder_a_largest_number_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let with_length = |length: u64| {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend_from_slice(b"{}");
            std::fs::write(folder.path().join("1.safetensors"), bytes).unwrap();
            read(folder.path())
        };
        assert_eq!(with_length(LARGEST_HEADER), Some(BTreeMap::new()));
        assert_eq!(with_length(LARGEST_HEADER + 1), None);
        for number in 0..MOST_FILES {
            write(folder.path(), &format!("{number}.safetensors"), "{}");
        }
        assert_eq!(read(folder.path()), Some(BTreeMap::new()));
        write(folder.path(), "more.safetensors", "{}");
        assert_eq!(read(folder.path()), None);
    }

    #[test]
    fn a_damaged_file_gives_nothing() {
        for text in ["", "{", "[]", r#"{"a": 1}"#] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), "1.safetensors", text);
            assert_eq!(read(folder.path()), None, "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("1.safetensors"), u64::MAX.to_le_bytes()).unwrap();
        assert_eq!(read(folder.path()), None);
    }
}
