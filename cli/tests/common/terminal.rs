//! A terminal that keeps every byte that a program writes to it.
#![allow(dead_code)]

use std::fs::File;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Runs the command with standard output and error on a terminal of this width, to its end.
pub fn run(command: &mut Command, columns: u16) -> (ExitStatus, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&slave, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    command.stdin(Stdio::null()).stdout(slave.try_clone().unwrap()).stderr(slave);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let mut child = command.spawn().unwrap();
    // The command keeps the other end open in this process until it is given new streams.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    let mut master = File::from(master);
    let mut buffer = [0; 4096];
    // Linux answers with an error, other systems with nothing, once the last writer has gone.
    while let Ok(read) = master.read(&mut buffer)
        && read > 0
    {
        bytes.extend_from_slice(&buffer[..read]);
    }
    (child.wait().unwrap(), String::from_utf8(bytes).unwrap().replace("\r\n", "\n"))
}

/// The text without the sequences that this program itself writes: styles, and those that redraw its own lines.
pub fn without_own_sequences(text: &str) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let body = &rest[at + 2..];
        let end = body.find(|c: char| !(c.is_ascii_digit() || c == ';')).unwrap_or(body.len());
        let (numbers, last) = (&body[..end], body[end..].chars().next().unwrap_or(' '));
        let own = matches!((numbers, last), (_, 'm' | 'A') | ("", 'K' | 'J'));
        out.push_str(if own { "" } else { "\u{1b}[" });
        rest = if own { &body[end + 1..] } else { body };
    }
    out + rest
}
