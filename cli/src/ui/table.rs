//! Rows under aligned columns.

use super::style::{DIM, STRONG};
use super::wrap::{columns, wrapped};

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

/// A cell is one line, whatever name stands in it.
fn one_line(cell: &str) -> String {
    cell.replace(['\n', '\t'], " ")
}

impl Table {
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self {
            columns: columns.iter().map(|(head, align)| (one_line(head), *align)).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell.into())).collect());
    }

    pub fn render(&self) -> String {
        let widths: Vec<usize> =
            self.columns.iter().enumerate().map(|(index, _)| self.width(index)).collect();
        let mut text = String::new();
        if self.has_heads() {
            let heads: Vec<String> = self.columns.iter().map(|(head, _)| head.clone()).collect();
            text += &format!("{STRONG}{}{STRONG:#}\n", self.line(&heads, &widths));
        }
        for row in &self.rows {
            text += &self.line(row, &widths);
            text.push('\n');
        }
        text
    }

    fn has_heads(&self) -> bool {
        self.columns.iter().any(|(head, _)| !head.is_empty())
    }

    fn fits_in(&self, room: Option<usize>) -> bool {
        let widths: usize = (0..self.columns.len()).map(|index| self.width(index)).sum();
        room.is_none_or(|room| widths + 2 * self.columns.len().saturating_sub(1) <= room)
    }

    fn leave_out(&mut self, head: &str) {
        if let Some(index) = self.columns.iter().position(|(known, _)| known == head) {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: usize) {
        self.columns.remove(index);
        self.rows.iter_mut().filter(|row| index < row.len()).for_each(|row| drop(row.remove(index)));
    }

    /// For the terminal: columns are left out, those in `first` before others, until a line fits. Their heads are returned.
    pub fn fit(&mut self, first: &[&str]) -> Vec<String> {
        self.fit_in(columns(), first)
    }

    fn fit_in(&mut self, room: Option<usize>, first: &[&str]) -> Vec<String> {
        let mut left_out = Vec::new();
        for head in first.iter().map(|head| one_line(head)) {
            if self.fits_in(room) {
                break;
            }
            self.leave_out(&head);
            left_out.push(head);
        }
        left_out
    }

    /// For the terminal: where a line has no room, the column `below` (of several with this head the last) stands under each
    /// row, and then those in `first` are left out. Their heads are returned.
    pub fn narrow(self, below: &str, first: &[&str]) -> (String, Vec<String>) {
        self.narrow_in(columns(), below, first)
    }

    fn narrow_in(mut self, room: Option<usize>, below: &str, first: &[&str]) -> (String, Vec<String>) {
        let Some(index) = self.columns.iter().rposition(|(head, _)| head == below) else {
            return (self.render(), Vec::new());
        };
        if self.fits_in(room) {
            return (self.render(), Vec::new());
        }
        let cells: Vec<String> =
            self.rows.iter().map(|row| row.get(index).cloned().unwrap_or_default()).collect();
        self.remove(index);
        let left_out = self.fit_in(room, first);
        let text = self.render();
        let heads = usize::from(self.has_heads());
        let under = cells.iter().map(|cell| match cell.as_str() {
            "" => String::new(),
            cell => format!("  {DIM}{}{DIM:#}\n", wrapped(cell, 2, room)),
        });
        let heads = std::iter::repeat_n(String::new(), heads);
        let lines = text.lines().zip(heads.chain(under)).map(|(line, under)| format!("{line}\n{under}"));
        (lines.collect(), left_out)
    }

    /// For the terminal: where a line has no room, each row is a block, its first cell above the others with their heads.
    pub fn stacked(&self) -> String {
        self.stacked_in(columns())
    }

    fn stacked_in(&self, room: Option<usize>) -> String {
        if self.fits_in(room) {
            return self.render();
        }
        let heads = self.columns.iter().skip(1).map(|(head, _)| head.chars().count()).max().unwrap_or(0);
        // A long name has its value below it.
        let beside = room.is_none_or(|room| 2 * heads <= room);
        let mut text = String::new();
        for row in &self.rows {
            let first = row.first().map_or("", String::as_str);
            text += &format!("{STRONG}{first}{STRONG:#}\n");
            let filled = row.iter().zip(&self.columns).skip(1).filter(|(cell, _)| !cell.is_empty());
            for (cell, (head, _)) in filled {
                text += &if beside {
                    let gap = " ".repeat(heads - head.chars().count() + 2);
                    format!("  {head}{gap}{}\n", wrapped(cell, heads + 4, room))
                } else {
                    format!("  {head}\n    {}\n", wrapped(cell, 4, room))
                };
            }
        }
        text
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
    fn a_head_is_one_line_and_can_be_left_out() {
        let filled = || {
            let mut table = Table::new(&[("expert", Align::Left), ("forged\nhead", Align::Left)]);
            table.row(["sql", "a\nb"]);
            table
        };
        assert_eq!(plain(&filled().render()), "expert  forged head\nsql     a b\n");
        let mut table = filled();
        assert_eq!(table.fit_in(Some(9), &["forged\nhead"]), ["forged head"]);
        assert_eq!(plain(&table.render()), "expert\nsql\n");
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(&super::super::style::shown(text)).to_string()
    }

    #[test]
    fn a_long_cell_stands_below_its_row() {
        let filled = || {
            let mut table =
                Table::new(&[("expert", Align::Left), ("rows", Align::Right), ("data", Align::Left)]);
            table.row(["sql", "320", "a place with spaces in it"]);
            table.row(["json", "9", ""]);
            table
        };
        let (text, left_out) = filled().narrow_in(Some(20), "data", &["rows"]);
        assert_eq!(
            (plain(&text), left_out.len()),
            ("expert  rows\nsql      320\n  a place with\n  spaces in it\njson       9\n".to_owned(), 0)
        );
        assert_eq!(filled().narrow_in(Some(10), "data", &["rows"]).1, ["rows"]);
        assert_eq!(filled().narrow_in(None, "data", &["rows"]), (filled().render(), Vec::new()));
    }

    #[test]
    fn the_last_of_columns_without_heads_can_stand_below() {
        let mut table = Table::new(&[("", Align::Left); 3]);
        table.row(["rank", "honoured", "of the adapter"]);
        table.row(["epochs", "honoured", "passes"]);
        let (text, _) = table.narrow_in(Some(20), "", &[]);
        assert_eq!(plain(&text), "rank    honoured\n  of the adapter\nepochs  honoured\n  passes\n");
    }

    #[test]
    fn rows_of_a_wide_table_become_blocks() {
        let mut table = Table::new(&[("setting", Align::Left), ("a", Align::Left), ("other", Align::Left)]);
        table.row(["adapter.modules", "q_proj, k_proj, v_proj", "q_proj"]);
        assert_eq!(
            plain(&table.stacked_in(Some(25))),
            "adapter.modules\n  a      q_proj, k_proj,\n         v_proj\n  other  q_proj\n"
        );
        assert_eq!(
            plain(&table.stacked_in(Some(9))),
            "adapter.modules\n  a\n    q_proj, k_proj,\n    v_proj\n  other\n    q_proj\n"
        );
        assert_eq!(table.stacked_in(Some(80)), table.render());
    }

    #[test]
    fn columns_align_and_lines_have_no_trailing_space() {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
        table.row(["weights", "1.20 GiB"]);
        table.row(["été", "9 B"]);
        assert_eq!(table.render(), "weights  1.20 GiB\nété           9 B\n");
    }
}
