//! Rows under aligned columns.

use super::style::STRONG;
use super::wrap::columns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Column heads with their alignment, and rows with as many cells. An empty head line is left out.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self {
            columns: columns.iter().map(|(head, align)| ((*head).to_owned(), *align)).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        // A cell is one line, whatever name stands in it.
        let line = |cell: String| cell.replace(['\n', '\t'], " ");
        self.rows.push(cells.into_iter().map(|cell| line(cell.into())).collect());
    }

    pub fn render(&self) -> String {
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(index, _)| self.width(index)).collect();
        let mut text = String::new();
        if self.columns.iter().any(|(head, _)| !head.is_empty()) {
            let heads: Vec<String> = self.columns.iter().map(|(head, _)| head.clone()).collect();
            text += &format!("{STRONG}{}{STRONG:#}\n", self.line(&heads, &widths));
        }
        for row in &self.rows {
            text += &self.line(row, &widths);
            text.push('\n');
        }
        text
    }

    /// Whether a line has room on the terminal.
    pub fn fits(&self) -> bool {
        self.fits_in(columns())
    }

    fn fits_in(&self, room: Option<usize>) -> bool {
        let widths: usize = (0..self.columns.len()).map(|index| self.width(index)).sum();
        room.is_none_or(|room| widths + 2 * self.columns.len().saturating_sub(1) <= room)
    }

    pub fn leave_out(&mut self, head: &str) {
        if let Some(index) = self.columns.iter().position(|(known, _)| known == head) {
            self.columns.remove(index);
            self.rows.iter_mut().filter(|row| index < row.len()).for_each(|row| drop(row.remove(index)));
        }
    }

    /// For the terminal: columns are left out, those in `first` before others, until a line fits. Their heads are returned.
    pub fn fit(&mut self, first: &[&str]) -> Vec<String> {
        self.fit_in(columns(), first)
    }

    fn fit_in(&mut self, room: Option<usize>, first: &[&str]) -> Vec<String> {
        let mut left_out = Vec::new();
        for head in first {
            if self.fits_in(room) {
                break;
            }
            self.leave_out(head);
            left_out.push((*head).to_owned());
        }
        left_out
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .chain([self.columns[column].0.chars().count()])
            .max()
            .unwrap_or(0)
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let gap = " ".repeat(width - cell.chars().count().min(*width));
            if index > 0 {
                line.push_str("  ");
            }
            match self.columns[index].1 {
                Align::Left => line.extend([cell.as_str(), &gap]),
                Align::Right => line.extend([gap.as_str(), cell]),
            }
        }
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let filled = || {
            let left = Align::Left;
            let mut table = Table::new(&[("expert", left), ("speed", left), ("when", left), ("run", left)]);
            table.row(["sql", "58.2", "2026-11-22", "weights/a"]);
            table
        };
        let mut table = filled();
        assert_eq!(table.fit_in(Some(36), &["speed", "when"]), Vec::<String>::new());
        assert_eq!(table.fit_in(Some(35), &["speed", "when"]), ["speed"]);
        assert_eq!(filled().fit_in(Some(10), &["speed", "when"]), ["speed", "when"]);
        assert_eq!(filled().fit_in(None, &["speed", "when"]), Vec::<String>::new());
        let shown = anstream::adapter::strip_str(&super::super::style::shown(&table.render())).to_string();
        assert_eq!(shown, "expert  when        run\nsql     2026-11-22  weights/a\n");
    }

    #[test]
    fn columns_align_and_lines_have_no_trailing_space() {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
        table.row(["weights", "1.20 GiB"]);
        table.row(["été", "9 B"]);
        assert_eq!(table.render(), "weights  1.20 GiB\nété           9 B\n");
    }
}
