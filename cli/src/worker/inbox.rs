//! Reads the worker's standard output on a separate thread.

use std::io::{BufReader, Read};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use expert_contract::event::{Event, ExpertEvent};

use super::lines::{LONGEST, Line, next_line};

/// Lines waiting to be displayed; more of them slow the worker down instead of filling memory.
const WAITING: usize = 1024;
const EXCERPT: usize = 120;

pub enum Message {
    /// With the expert's name, where the worker trains several.
    Event(Option<String>, Box<Event>),
    /// The beginning of a line that is not an event.
    UnparsedLine(String),
    End,
}

pub fn read(stream: impl Read + Send + 'static) -> Receiver<Message> {
    let (sender, receiver) = mpsc::sync_channel(WAITING);
    thread::spawn(move || {
        let mut reader = BufReader::with_capacity(64 << 10, stream);
        loop {
            let message = match next_line(&mut reader, LONGEST) {
                Ok(Line::Whole(line)) => parse(&line),
                Ok(Line::TooLong) => Message::UnparsedLine(format!("a line of more than {LONGEST} bytes")),
                Ok(Line::End) | Err(_) => Message::End,
            };
            let ended = matches!(message, Message::End);
            if sender.send(message).is_err() || ended {
                break;
            }
        }
    });
    receiver
}

fn parse(line: &[u8]) -> Message {
    if let Ok(event) = serde_json::from_slice(line) {
        return Message::Event(None, Box::new(event));
    }
    match serde_json::from_slice(line) {
        Ok(ExpertEvent { expert, event }) => Message::Event(Some(expert), Box::new(event)),
        Err(_) => Message::UnparsedLine(excerpt(line)),
    }
}

/// Control characters of a stray line must not reach the terminal.
fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * EXCERPT)]);
    let shown: String =
        text.chars().take(EXCERPT).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if shown.len() < line.len() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unparsed_lines_are_shown_short_and_without_control_characters() {
        assert_eq!(excerpt(b"\x1b[2Jhello"), "\u{fffd}[2Jhello");
        assert_eq!(excerpt(&[b'a'; 500]), format!("{}…", "a".repeat(120)));
        assert!(excerpt(&[0xff, 0xfe]).chars().all(|c| c == '\u{fffd}'));
    }

    #[test]
    fn events_and_other_lines_keep_their_order() {
        let stream: &[u8] =
            b"hello\n{\"time\":1.0,\"attempt\":1,\"body\":{\"type\":\"heartbeat\",\"ticks\":3}}\n{\"time\":1";
        let received: Vec<_> = read(stream).iter().collect();
        assert!(matches!(
            &received[..],
            [Message::UnparsedLine(_), Message::Event(None, _), Message::UnparsedLine(_), Message::End]
        ));
    }

    #[test]
    fn a_line_of_several_experts_names_its_own() {
        let line =
            br#"{"expert":"a","event":{"time":1.0,"attempt":1,"body":{"type":"heartbeat","ticks":3}}}"#;
        assert!(matches!(parse(line), Message::Event(Some(expert), _) if expert == "a"));
    }
}
