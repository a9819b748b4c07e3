//! The folder of a run, which one process at a time may write.

use std::fs::TryLockError;
use std::io::{Read, Seek, Write};
use std::path::Path;

use expert_contract::exit::Exit;
use fs_err as fs;

use crate::failure::Failure;

/// Held by the operating system, so that it ends with its process however that ends; the file says who holds it.
pub struct Lock {
    _file: fs::File,
}

impl Lock {
    pub fn take(folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(folder).map_err(|error| Failure::writing("create", folder, &error))?;
        let path = folder.join("lock");
        let mut file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| Failure::writing("write", &path, &error))?;
        match file.file().try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(Failure::writing("lock", &path, &error)),
        }
        sign(&mut file).map_err(|error| Failure::writing("write", &path, &error))?;
        Ok(Self { _file: file })
    }
}

fn sign(file: &mut fs::File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    file.flush()
}

fn held(folder: &Path, file: &mut fs::File) -> Failure {
    let mut holder = String::new();
    let _ = file.take(32).read_to_string(&mut holder);
    let holder = match holder.trim() {
        "" => "another process".to_owned(),
        pid => format!("process {pid}"),
    };
    Failure::new(Exit::Locked, "locked", format!("{} is in use by {holder}", folder.display()))
        .hint("wait until it has ended, or choose another folder with -o")
}
