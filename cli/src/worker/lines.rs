//! Reads lines of an untrusted stream: bounded in length, any content is accepted.

use std::io::{self, BufRead};

/// A `finished` event may hold every scored answer; no valid event is longer.
pub const LONGEST: usize = 16 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    /// Its text is dropped, so that a flood without newlines cannot fill this process's memory.
    TooLong,
    End,
}

pub fn next_line(reader: &mut impl BufRead, longest: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(if too_long {
                Line::TooLong
            } else if line.is_empty() {
                Line::End
            } else {
                Line::Whole(line)
            });
        }
        let newline = available.iter().position(|&byte| byte == b'\n');
        let piece = &available[..newline.unwrap_or(available.len())];
        too_long |= line.len() + piece.len() > longest;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(newline.is_some());
        reader.consume(used);
        if newline.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Whole(line) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn all(text: &[u8], buffer: usize) -> Vec<Line> {
        let mut reader = BufReader::with_capacity(buffer, text);
        std::iter::from_fn(|| Some(next_line(&mut reader, 5).unwrap()).filter(|line| *line != Line::End))
            .collect()
    }

    #[test]
    fn lines_come_whole_whatever_the_buffer_and_long_ones_are_dropped() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        for buffer in [1, 2, 3, 64] {
            assert_eq!(
                all(b"one\n\nfive5\nsixsix\ntorn", buffer),
                [whole("one"), whole(""), whole("five5"), Line::TooLong, whole("torn")]
            );
            assert_eq!(all(b"longer than five", buffer), [Line::TooLong]);
        }
    }
}
