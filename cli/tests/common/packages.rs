//! A finished run as training leaves it, and archives that nobody should have made.

#![allow(clippy::unwrap_used)]
// Each test file uses a part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::common::World;

pub const PACKAGE: &str = "a-smollm2-135m-instruct.v0.1.0.expert";
pub const RUN: &str = "experts/a/weights/smollm2-135m-instruct";

pub fn sha256(bytes: &[u8]) -> String {
    expert_contract::digest::hex(&Sha256::digest(bytes))
}

/// One tensor of four numbers.
pub fn safetensors(numbers: [f32; 4]) -> Vec<u8> {
    let name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
    let header = json!({name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).to_string();
    let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// An expert `a` with one finished run.
pub fn trained() -> World {
    let world = World::shelf(&["a"]);
    let manifest = world.path("experts/a/manifest.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    document["version"] = json!("0.1.0");
    std::fs::write(&manifest, serde_json::to_string_pretty(&document).unwrap()).unwrap();
    let base = "smollm2-135m-instruct";
    let files = [
        ("adapter_config.json", json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "target_modules": ["q_proj"], "base_model_name_or_path": base}).to_string().into_bytes()),
        ("adapter_model.safetensors", safetensors([0.5, -1.0, 2.0, 3.0])),
        ("chat_template.jinja", b"{{ messages }}".to_vec()),
        ("generation_config.json", b"{\"do_sample\": false}".to_vec()),
        ("tokenizer.json", b"{\"version\": \"1.0\"}".to_vec()),
        ("tokenizer_config.json", b"{}".to_vec()),
    ];
    let folder = world.path(RUN).join("final");
    std::fs::create_dir_all(&folder).unwrap();
    let mut digests = serde_json::Map::new();
    for (name, content) in files {
        std::fs::write(folder.join(name), &content).unwrap();
        digests.insert(name.to_owned(), json!({"sha256": sha256(&content), "bytes": content.len()}));
    }
    let expert = json!({"format": 1, "name": "a", "license": null, "base": {"name": "HuggingFaceTB/SmolLM2-135M-Instruct", "quantization": "none", "files": {}}, "adapter": "lora", "template": "chatml", "recipe_digest": "0".repeat(64), "data": {}, "files": digests, "score": null});
    std::fs::write(folder.join("expert.json"), expert.to_string()).unwrap();
    std::fs::write(folder.join("README.md"), "# a\n").unwrap();
    let run = json!({"recipe_digest": "d", "recipe": {"expert": "a", "base": {"name": base}}, "inputs": null, "final": digests, "result": {"ok": true}});
    std::fs::write(world.path(RUN).join("run.json"), run.to_string()).unwrap();
    world
}

/// Makes `text` the grammar of `final/`, as training and `evaluate` leave it.
pub fn constrained_by(world: &World, text: &str) {
    let folder = world.path(RUN).join("final");
    std::fs::write(folder.join("grammar.gbnf"), text).unwrap();
    edit(&folder.join("expert.json"), |record| {
        record["grammar"] = json!({"name": "grammar.gbnf", "sha256": sha256(text.as_bytes())});
    });
}

pub fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut document);
    std::fs::write(path, serde_json::to_string_pretty(&document).unwrap()).unwrap();
}

pub fn run(world: &World, words: &[&str]) -> Output {
    world.expert_cli(words, "").output().unwrap()
}

/// What a command that succeeds writes with `--json`.
pub fn document(world: &World, words: &[&str]) -> Value {
    let output = run(world, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", talk(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The code and message of a command that fails.
pub fn refused(world: &World, words: &[&str]) -> (String, String) {
    let output = run(world, &[words, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", talk(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |key: &str| document["error"][key].as_str().unwrap_or_default().to_owned();
    (text("code"), format!("{} | {}", text("message"), text("hint")))
}

pub fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// Everything in a folder, by path.
pub fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push((path.clone(), std::fs::read(&path).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

/// The files of a package, in their order.
pub fn unpacked(package: &Path) -> Vec<(String, Vec<u8>)> {
    let packed = flate2::read::GzDecoder::new(std::fs::File::open(package).unwrap());
    let mut archive = tar::Archive::new(packed);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        (String::from_utf8(entry.path_bytes().into_owned()).unwrap(), content)
    });
    entries.collect()
}

/// An entry whose header says whatever it is made to say.
pub fn entry(name: &[u8], kind: EntryType, size: u64, link: &[u8]) -> Header {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_entry_type(kind);
    header.set_cksum();
    header
}

pub fn plain(name: &str, content: &[u8]) -> (Header, Vec<u8>) {
    (entry(name.as_bytes(), EntryType::Regular, content.len() as u64, b""), content.to_vec())
}

/// A gzipped tar of entries as they are, sound or not.
pub fn archive(path: &Path, entries: &[(Header, Vec<u8>)]) {
    let packed = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::fast());
    let mut builder = Builder::new(packed);
    for (header, content) in entries {
        builder.append(header, content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap();
}

/// The files of the package with one more or another one in their place.
pub fn with(package: &Path, more: (Header, Vec<u8>)) -> Vec<(Header, Vec<u8>)> {
    let mut entries: Vec<_> = unpacked(package).iter().map(|(name, content)| plain(name, content)).collect();
    entries.push(more);
    entries
}
