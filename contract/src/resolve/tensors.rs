//! Names and shapes of a base's tensors, from the headers of its safetensors files: nothing else of them is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// A larger header is not read; those of the largest models stay below a tenth of it.
const LARGEST_HEADER: u64 = 32 << 20;
const MOST_FILES: usize = 1024;

/// Of every safetensors file in the folder. `None` where there is none, or where one cannot be read: the worker reports it.
pub fn read(folder: &Path) -> Option<BTreeMap<String, Vec<u64>>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "safetensors") && path.is_file())
        .collect();
    files.sort();
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
