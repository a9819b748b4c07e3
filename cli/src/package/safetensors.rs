//! The header of a safetensors file: the place of each tensor. A reader that trusts it maps whatever it names.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An adapter's header has about 100 bytes for each tensor.
pub const LARGEST_HEADER: u64 = 16 << 20;
/// The length of the header, in front of it.
pub const PREFIX: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The header's length, once the first bytes of the file are there.
pub fn header_length(start: &[u8]) -> Option<u64> {
    start.first_chunk::<PREFIX>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// `start` is the file's beginning with the whole header, `bytes` the size of the file.
pub fn check(start: &[u8], bytes: u64) -> Result<(), String> {
    let length = header_length(start).ok_or("is too short for a safetensors file")?;
    if length > LARGEST_HEADER {
        return Err(format!("has a header of {length} bytes, more than {LARGEST_HEADER}"));
    }
    let end = PREFIX as u64 + length;
    let header = start.get(PREFIX..end as usize).ok_or("ends within its header")?;
    let data = bytes.checked_sub(end).ok_or("ends within its header")?;
    check_tensors(header, data)
}

fn check_tensors(header: &[u8], data: u64) -> Result<(), String> {
    let mut entries: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|error| format!("has a header that is not JSON ({error})"))?;
    entries.remove("__metadata__");
    let mut ranges = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        let tensor: Tensor = serde_json::from_value(entry)
            .map_err(|error| format!("describes tensor {name:?} wrongly ({error})"))?;
        let (begin, end) = tensor.data_offsets;
        let wanted = size(&tensor).ok_or_else(|| format!("has tensor {name:?} of an impossible size"))?;
        if begin > end || end > data || end - begin != wanted {
            return Err(format!(
                "has tensor {name:?} at {begin} to {end} of {data} bytes, where its shape needs {wanted}"
            ));
        }
        ranges.push((begin, end));
    }
    if ranges.is_empty() {
        return Err("has no tensors".to_owned());
    }
    ranges.sort_unstable();
    let last = ranges.iter().try_fold(0, |reached, (begin, end)| (*begin == reached).then_some(*end));
    if last == Some(data) { Ok(()) } else { Err("has tensors that overlap or leave bytes unused".to_owned()) }
}

/// None where it overflows, or where the type is unknown.
fn size(tensor: &Tensor) -> Option<u64> {
    let bytes = match tensor.dtype.as_str() {
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" => 8,
        _ => return None,
    };
    tensor.shape.iter().try_fold(bytes, |size: u64, length| size.checked_mul(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), &vec![0; data]].concat()
    }

    fn checked(header: &str, data: usize) -> Result<(), String> {
        let file = file(header, data);
        check(&file, file.len() as u64)
    }

    #[test]
    fn tensors_fill_the_file_exactly() {
        let two = r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}, "b": {"dtype": "BF16", "shape": [3], "data_offsets": [8, 14]}}"#;
        assert_eq!(checked(two, 14), Ok(()));
        assert!(checked(two, 15).unwrap_err().contains("unused"));
        assert!(checked(two, 13).unwrap_err().contains("\"b\""));
    }

    #[test]
    fn false_headers_are_refused() {
        let one = |shape: &str, offsets: &str| {
            checked(
                &format!(r#"{{"a": {{"dtype": "F32", "shape": {shape}, "data_offsets": {offsets}}}}}"#),
                8,
            )
        };
        assert_eq!(one("[2]", "[0, 8]"), Ok(()));
        for (shape, offsets, reason) in [
            ("[2]", "[8, 0]", "at 8 to 0"),
            ("[2]", "[0, 80]", "at 0 to 80"),
            ("[1]", "[0, 8]", "needs 4"),
            ("[4294967296, 4294967296]", "[0, 8]", "impossible size"),
            ("[-1]", "[0, 8]", "wrongly"),
            ("[1]", "[4, 8]", "unused"),
        ] {
            let refused = one(shape, offsets).unwrap_err();
            assert!(refused.contains(reason), "{shape} {offsets}: {refused}");
        }
        assert!(checked("{}", 0).unwrap_err().contains("no tensors"));
        assert!(checked("[1]", 0).unwrap_err().contains("not JSON"));
        assert!(check(&u64::MAX.to_le_bytes(), 8).unwrap_err().contains("more than"));
        assert!(check(&100_u64.to_le_bytes(), 8).unwrap_err().contains("ends within"));
        assert!(check(b"abc", 3).unwrap_err().contains("too short"));
    }
}
