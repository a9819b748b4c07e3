//! Packages made to do harm: each is refused, under a limit of memory, and nothing is written.

#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;
#[path = "common/packages.rs"]
mod packages;

use std::path::Path;
use std::process::{Command, Output};

use common::World;
use packages::{
    PACKAGE, archive, document, entry, plain, safetensors, sha256, talk, trained, tree, unpacked, with,
};
use serde_json::{Value, json};
use tar::{EntryType, Header};

/// Of addresses, in KiB; the bombs are far larger.
const MEMORY: u32 = 1_000_000;

fn packaged() -> World {
    let world = trained();
    document(&world, &["package", "experts/a"]);
    world
}

fn limited(world: &World, words: &[&str]) -> Output {
    let program = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &program, env!("CARGO_BIN_EXE_expert-cli")]).args(words);
    command.current_dir(world.path("")).output().unwrap()
}

/// `verify` and `install` refuse it with these words, and leave everything as it was.
fn refused(world: &World, package: &str, words: &str) {
    let before = tree(&world.path(""));
    for command in [&["verify", package][..], &["install", package, "--registry", "registry"]] {
        let output = limited(world, command);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", talk(&output));
        let talk = talk(&output);
        assert!(talk.replace("\n  ", " ").contains(words), "{command:?}: {talk}");
    }
    assert_eq!(tree(&world.path("")), before, "{words}: something was written");
}

/// The sound package with one entry more.
fn refused_with(world: &World, more: (Header, Vec<u8>), words: &str) {
    archive(&world.path("hostile.expert"), &with(&world.path(PACKAGE), more));
    refused(world, "hostile.expert", words);
}

#[test]
fn names_that_lead_elsewhere() {
    let world = packaged();
    for (name, words) in [
        ("/tmp/expert-cli-absolute", "is an absolute path"),
        ("../outside", "leads out of the package's folder"),
        ("a/../../outside", "leads out of the package's folder"),
        ("..\\outside", "leads out of the package's folder"),
        ("C:\\outside", "is an absolute path"),
        ("\\\\host\\outside", "is an absolute path"),
        ("inner/README.md", "is in a folder"),
        ("./merges.txt", "is in a folder"),
        ("merges.txt\u{1b}[2J", "control character"),
        ("merges.txt\n", "control character"),
    ] {
        refused_with(&world, plain(name, b"x"), words);
    }
    let bytes = (entry(b"merges\xff.txt", EntryType::Regular, 1, b""), b"x".to_vec());
    refused_with(&world, bytes, "not UTF-8");
    assert!(!Path::new("/tmp/expert-cli-absolute").exists());
}

#[test]
fn links_devices_and_extended_headers() {
    let world = packaged();
    for (kind, words) in [
        (EntryType::Symlink, "is a symbolic link"),
        (EntryType::Link, "is a hard link"),
        (EntryType::Char, "is a device"),
        (EntryType::Block, "is a device"),
        (EntryType::Fifo, "is a pipe"),
        (EntryType::Directory, "is a folder"),
        (EntryType::GNULongName, "extended header"),
        (EntryType::XHeader, "extended header"),
        (EntryType::GNUSparse, "extended header"),
        (EntryType::new(b'Z'), "extended header"),
    ] {
        refused_with(&world, (entry(b"merges.txt", kind, 0, b"/etc/passwd"), Vec::new()), words);
    }
}

#[test]
fn names_twice_also_in_another_case() {
    let world = packaged();
    refused_with(&world, plain("README.md", b"another"), "is there twice");
    refused_with(&world, plain("readme.MD", b"another"), "only in case");
}

#[test]
fn pickles_by_name_and_by_content() {
    let world = packaged();
    for name in ["training_args.bin", "adapter_model.bin", "a.pt", "a.pkl", "a.CKPT", "optimizer.pth"] {
        refused_with(&world, plain(name, b"x"), "is a pickle");
    }
    for (content, words) in [
        (&b"\x80\x04\x95\x10"[..], "holds a pickle"),
        (b"PK\x03\x04", "holds a zip archive"),
        (b"\x1f\x8b\x08\x00", "holds another archive"),
    ] {
        // In its place, and listed with its digest.
        relabelled(&world, "tokenizer.json", content);
        refused(&world, "relabelled.expert", words);
    }
    refused_with(&world, plain("more.tar.gz", b"\x1f\x8b"), "is not a file of an expert package");
}

/// A package that lists `name` with its new content, as whoever made it would.
fn relabelled(world: &World, name: &str, content: &[u8]) {
    let mut files = unpacked(&world.path(PACKAGE));
    files.iter_mut().find(|(other, _)| other == name).unwrap().1 = content.to_vec();
    let mut manifest: Value = serde_json::from_slice(&files[0].1).unwrap();
    let integrity = manifest["integrity"].as_object_mut().unwrap();
    integrity.remove("digest");
    integrity["files"][name] = json!(format!("sha256:{}", sha256(content)));
    integrity["sizes"][name] = json!(content.len());
    files[0].1 = serde_json::to_vec(&manifest).unwrap();
    let entries: Vec<_> = files.iter().map(|(name, content)| plain(name, content)).collect();
    archive(&world.path("relabelled.expert"), &entries);
}

#[test]
fn weights_with_a_false_header() {
    let world = packaged();
    let header = |text: &str, data: usize| {
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &vec![0; data]].concat()
    };
    let tensor = |offsets: &str| {
        header(&format!(r#"{{"a": {{"dtype": "F32", "shape": [4], "data_offsets": {offsets}}}}}"#), 16)
    };
    for (content, words) in [
        (u64::MAX.to_le_bytes().to_vec(), "has a header of 18446744073709551615 bytes"),
        (header("not JSON", 0), "has a header that is not JSON"),
        (tensor("[0, 1600]"), "at 0 to 1600 of 16 bytes"),
        (tensor("[16, 0]"), "at 16 to 0"),
        (safetensors([0.0; 4])[..30].to_vec(), "ends within its header"),
        (b"\x80\x04\x95\x10".to_vec(), "too short for a safetensors file"),
    ] {
        relabelled(&world, "adapter_model.safetensors", &content);
        refused(&world, "relabelled.expert", words);
    }
}

#[test]
fn bombs() {
    let world = packaged();
    refused_with(&world, plain("merges.txt", &vec![0; 80 << 20]), "as an archive bomb does");
    let header = |size: u64| entry(b"merges.txt", EntryType::Regular, size, b"");
    refused_with(&world, (header(512 << 20), Vec::new()), "too much for its kind");
    refused_with(&world, (header(200 << 20), vec![b'a'; 1000]), "it ends after");
    let weights = entry(b"adapter_model.safetensors", EntryType::Regular, 60 << 30, b"");
    archive(&world.path("hostile.expert"), &[(weights, vec![b'{'; 5000])]);
    refused(&world, "hostile.expert", "it ends after");
    let mut deep = vec![b'['; 3 << 20];
    deep.push(b'1');
    archive(&world.path("hostile.expert"), &[plain("manifest.json", &deep)]);
    refused(&world, "hostile.expert", "manifest.json is not JSON");
}

#[test]
fn too_many_entries() {
    let world = packaged();
    let entries: Vec<_> =
        (0..100_000).map(|_| (entry(b"merges.txt", EntryType::Regular, 0, b""), Vec::new())).collect();
    archive(&world.path("hostile.expert"), &entries);
    refused(&world, "hostile.expert", "is there twice");
}

#[test]
fn cut_off_continued_or_something_else() {
    let world = packaged();
    let whole = std::fs::read(world.path(PACKAGE)).unwrap();
    for length in [0, 1, 10, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(world.path("hostile.expert"), &whole[..length]).unwrap();
        refused(&world, "hostile.expert", "hostile.expert");
    }
    std::fs::write(world.path("hostile.expert"), [&whole[..], b"more"].concat()).unwrap();
    refused(&world, "hostile.expert", "there is more behind its end");
    std::fs::write(world.path("hostile.expert"), [&whole[..], &whole[..]].concat()).unwrap();
    refused(&world, "hostile.expert", "there is more behind its end");
    let inner = packed(&[unpacked_bytes(&whole), b"more".to_vec()].concat());
    std::fs::write(world.path("hostile.expert"), inner).unwrap();
    refused(&world, "hostile.expert", "there is more behind its last entry");
    for other in [&b"PK\x03\x04 a zip"[..], b"plain text", b"\x80\x04 a pickle"] {
        std::fs::write(world.path("hostile.expert"), other).unwrap();
        refused(&world, "hostile.expert", "is not a gzipped tar archive");
    }
}

fn unpacked_bytes(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut bytes).unwrap();
    bytes
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// Name, version and base of the manifest become folders.
#[test]
fn a_manifest_that_names_folders_elsewhere() {
    let world = packaged();
    for (pointer, value) in [
        ("/name", "../../outside"),
        ("/name", "/tmp/outside"),
        ("/name", ""),
        ("/version", ".."),
        ("/version", "1/2"),
        ("/version", "c:x"),
        ("/base_models/0/name", ""),
    ] {
        let mut files = unpacked(&world.path(PACKAGE));
        let mut manifest: Value = serde_json::from_slice(&files[0].1).unwrap();
        *manifest.pointer_mut(pointer).unwrap() = json!(value);
        manifest["integrity"].as_object_mut().unwrap().remove("digest");
        files[0].1 = serde_json::to_vec(&manifest).unwrap();
        let entries: Vec<_> = files.iter().map(|(name, content)| plain(name, content)).collect();
        archive(&world.path("hostile.expert"), &entries);
        refused(&world, "hostile.expert", "manifest.json");
    }
}

/// An unpacked package may hold links and pipes, which are not opened.
#[test]
fn folders_with_links_and_pipes() {
    let world = packaged();
    document(&world, &["install", PACKAGE, "--registry", "first"]);
    let folder = world.path("first/a/0.1.0/smollm2-135m-instruct");
    let card = folder.join("README.md");
    std::fs::remove_file(&card).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &card).unwrap();
    refused(&world, folder.to_str().unwrap(), "README.md is");
    std::fs::remove_file(&card).unwrap();
    assert!(Command::new("mkfifo").arg(&card).status().unwrap().success());
    for package in [folder.to_str().unwrap(), card.to_str().unwrap()] {
        let output = limited(&world, &["verify", package]);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    }
    std::fs::remove_file(&card).unwrap();
    std::fs::write(&card, "# a\n").unwrap();
    std::fs::write(folder.join("training_args.bin"), "x").unwrap();
    refused(&world, folder.to_str().unwrap(), "training_args.bin is a pickle");
}
