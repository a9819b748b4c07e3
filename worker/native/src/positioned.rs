//! Writing at a place of a file, so that threads share one file without sharing a cursor.

use std::io;

use fs_err::File;

#[cfg(unix)]
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.file().write_all_at(bytes, offset).map_err(|error| named(file, &error))
}

#[cfg(windows)]
pub fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        let written = file.file().seek_write(bytes, offset).map_err(|error| named(file, &error))?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

fn named(file: &File, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("failed to write to {}: {error}", file.path().display()))
}
