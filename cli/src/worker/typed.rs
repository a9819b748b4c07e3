//! Prompts that a person types: lines that can be edited, with those before them.

/// Ctrl-C arrives here as a key while a line is edited, not as a signal.
pub enum Typed {
    Prompt(String),
    End,
    /// On Windows Ctrl-C is a signal here too.
    #[cfg_attr(not(unix), allow(dead_code))]
    Interrupt,
}

const SIGN: &str = "> ";

pub use system::{Editor, restore_terminal};

#[cfg(unix)]
mod system {
    use std::io::{Write, stdin};
    use std::sync::{Mutex, PoisonError};

    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
    use rustyline::error::ReadlineError;
    use rustyline::history::MemHistory;
    use rustyline::{Behavior, Config};

    use super::{SIGN, Typed};

    /// As it was before a line was edited; the thread that edits cannot restore it where the process ends meanwhile.
    static MODE: Mutex<Option<Termios>> = Mutex::new(None);

    /// None where the terminal cannot be had, which ends the prompts.
    pub struct Editor(Option<rustyline::Editor<(), MemHistory>>);

    impl Editor {
        pub fn new() -> Self {
            // The terminal itself: standard output may be a file.
            let config = Config::builder().behavior(Behavior::PreferTerm).auto_add_history(true).build();
            let history = MemHistory::with_config(&config);
            Self(rustyline::Editor::with_history(config, history).ok())
        }

        pub fn read(&mut self) -> Typed {
            let Some(editor) = &mut self.0 else { return Typed::End };
            *MODE.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(stdin()).ok();
            let typed = loop {
                match editor.readline(SIGN) {
                    Ok(line) if line.trim().is_empty() => {}
                    Ok(line) => break Typed::Prompt(line),
                    Err(ReadlineError::Interrupted) => break Typed::Interrupt,
                    Err(_) => break Typed::End,
                }
            };
            MODE.lock().unwrap_or_else(PoisonError::into_inner).take();
            typed
        }
    }

    /// Ends the editing of a line from another thread.
    pub fn restore_terminal() {
        const NO_BRACKETED_PASTE: &[u8] = b"\x1b[?2004l\r\n";
        if let Some(mode) = MODE.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &mode);
            let _ = std::io::stderr().write_all(NO_BRACKETED_PASTE);
        }
    }
}

/// The console of Windows edits lines and keeps their history by itself.
#[cfg(not(unix))]
mod system {
    use std::io::Write;

    use super::{SIGN, Typed};

    pub struct Editor;

    impl Editor {
        pub fn new() -> Self {
            Self
        }

        pub fn read(&mut self) -> Typed {
            loop {
                let mut out = std::io::stderr();
                let _ = write!(out, "{SIGN}").and_then(|()| out.flush());
                let mut line = String::new();
                match std::io::stdin().read_line(&mut line) {
                    Ok(0) | Err(_) => return Typed::End,
                    Ok(_) if line.trim().is_empty() => {}
                    Ok(_) => return Typed::Prompt(line.trim_end().to_owned()),
                }
            }
        }
    }

    pub fn restore_terminal() {}
}
