//! A table on the terminal that is redrawn in place: one row per expert, while several train at once.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::console::Console;
use super::line::fit;
use super::style::{STRONG, one_line, shown};

/// More often is not visible.
const FRAME: Duration = Duration::from_millis(80);

pub struct Live {
    state: Mutex<State>,
}

struct State {
    rows: Vec<Row>,
    /// Lines that are on the screen now.
    drawn: usize,
    drawn_at: Option<Instant>,
}

struct Row {
    name: String,
    text: String,
    ended: bool,
}

/// Whether standard error is a terminal that can draw a line over another; a dumb one only adds lines.
pub fn redraws() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    std::io::stderr().is_terminal() && !is_dumb
}

impl Live {
    /// Only on a terminal.
    pub fn new(console: &Console, names: &[String]) -> Option<Self> {
        let watched = !console.quiet && redraws();
        watched.then(|| Self::of(names))
    }

    fn of(names: &[String]) -> Self {
        let row = |name: &String| Row { name: name.clone(), text: "waits".to_owned(), ended: false };
        let state = State { rows: names.iter().map(row).collect(), drawn: 0, drawn_at: None };
        Self { state: Mutex::new(state) }
    }

    pub fn set(&self, row: usize, text: &str) {
        let mut state = self.lock();
        state.put(row, text);
        if state.drawn_at.is_none_or(|at| at.elapsed() >= FRAME) {
            state.redraw();
        }
    }

    /// The row's text where nothing may follow for long.
    pub fn begin(&self, row: usize, text: &str) {
        let mut state = self.lock();
        state.put(row, text);
        state.redraw();
    }

    /// The row's last word.
    pub fn end(&self, row: usize, text: &str) {
        let mut state = self.lock();
        state.put(row, text);
        if let Some(row) = state.rows.get_mut(row) {
            row.ended = true;
        }
        state.redraw();
    }

    /// Lets `speak` write above the table.
    pub fn above(&self, speak: impl FnOnce()) {
        let mut state = self.lock();
        state.erase();
        speak();
        state.redraw();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Live {
    /// The summary has everything.
    fn drop(&mut self) {
        self.lock().erase();
    }
}

impl State {
    fn put(&mut self, row: usize, text: &str) {
        if let Some(row) = self.rows.get_mut(row) {
            row.text.clear();
            row.text.push_str(text);
        }
    }

    fn redraw(&mut self) {
        let (width, height) = terminal_size::terminal_size_of(std::io::stderr())
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let lines = self.lines(width.saturating_sub(1), height.saturating_sub(1));
        let mut text = back(self.drawn);
        for line in &lines {
            text += &shown(line);
            text += "\x1b[K\n";
        }
        text += "\x1b[J";
        write(&text);
        self.drawn = lines.len();
        self.drawn_at = Some(Instant::now());
    }

    fn erase(&mut self) {
        if self.drawn > 0 {
            write(&format!("{}\x1b[J", back(self.drawn)));
            self.drawn = 0;
        }
    }

    /// As many as fit; running experts before finished ones.
    fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let names = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let mut shown: Vec<usize> = (0..self.rows.len()).collect();
        if shown.len() > height {
            shown.sort_by_key(|index| self.rows[*index].ended);
            shown.truncate(height);
            shown.sort_unstable();
        }
        let line = |index: usize| {
            let row = &self.rows[index];
            let name: String = one_line(&row.name).chars().take(width).collect();
            let room = width.saturating_sub(names + 2);
            let text = fit(&one_line(&row.text), room);
            let gap = " ".repeat(names - row.name.chars().count());
            format!("{STRONG}{name}{STRONG:#}{gap}  {text}")
        };
        shown.into_iter().map(line).collect()
    }
}

fn back(lines: usize) -> String {
    if lines == 0 { "\r".to_owned() } else { format!("\r\x1b[{lines}A") }
}

fn write(text: &str) {
    let mut out = anstream::AutoStream::auto(std::io::stderr()).into_inner();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(live: &Live, width: usize, height: usize) -> Vec<String> {
        let lines = live.lock().lines(width, height);
        lines.iter().map(|line| one_line(line)).collect()
    }

    #[test]
    fn rows_align_and_are_cut_to_the_screen() {
        let live = Live::of(&["sql".to_owned(), "typescript".to_owned(), "json".to_owned()]);
        live.lock().put(0, "step 1\nof 9");
        live.lock().rows[1].ended = true;
        assert_eq!(
            shown(&live, 40, 9),
            ["sql         step 1 of 9", "typescript  waits", "json        waits"]
        );
        assert_eq!(shown(&live, 16, 2), ["sql         step", "json        wait"]);
    }
}
