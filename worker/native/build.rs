//! Gives the module the digest of the sources that it is built from, so that `expert-cli` can compare builds on any
//! machine.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn main() -> io::Result<()> {
    let mut files = vec![PathBuf::from("Cargo.toml")];
    collect(Path::new("src"), &mut files)?;
    let mut named: Vec<(String, PathBuf)> =
        files.into_iter().map(|file| (file.to_string_lossy().replace('\\', "/"), file)).collect();
    named.sort();
    let mut digest = Sha256::new();
    for (name, file) in named {
        let text: Vec<u8> = fs::read(&file)?.into_iter().filter(|byte| *byte != b'\r').collect();
        digest.update(format!("{name} {}\n", text.len()));
        digest.update(&text);
    }
    let mut hex = String::new();
    for byte in digest.finalize() {
        write!(hex, "{byte:02x}").map_err(io::Error::other)?;
    }
    println!("cargo::rustc-env=EXPERT_NATIVE_SOURCES={hex}");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=Cargo.toml");
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
