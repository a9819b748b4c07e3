//! Documents into rows of a fixed capacity: exact best fit, longest documents first.

/// Rows as runs of `documents`: row `r` is `documents[starts[r]..starts[r + 1]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub starts: Vec<u32>,
    pub documents: Vec<u32>,
}

impl Packed {
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn row(&self, at: usize) -> &[u32] {
        &self.documents[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// Every document in a separate row.
    pub fn apart(count: usize) -> Self {
        Self { starts: (0..=count as u32).collect(), documents: (0..count as u32).collect() }
    }
}

const NONE: u32 = u32::MAX;

/// Best fit decreasing. No length may be above `capacity`; of documents equally long, earlier ones go first.
///
/// Each document goes into the fullest row that still holds it. Rows stand in one stack per amount of free space,
/// and a bitmap says which stacks hold any, so that a document costs a few instructions whatever their number.
pub fn best_fit(lengths: &[u32], capacity: u32) -> Packed {
    let mut rows = Rows::new(capacity);
    let mut row_of = vec![0; lengths.len()];
    let order = longest_first(lengths, capacity);
    for document in &order {
        row_of[*document as usize] = rows.place(lengths[*document as usize]);
    }
    group(&row_of, &order, rows.next.len())
}

/// Counting sort by descending length, stable.
fn longest_first(lengths: &[u32], capacity: u32) -> Vec<u32> {
    let mut places = vec![0u32; capacity as usize + 2];
    for length in lengths {
        places[(capacity - length) as usize + 1] += 1;
    }
    for at in 1..places.len() {
        places[at] += places[at - 1];
    }
    let mut order = vec![0; lengths.len()];
    for (document, length) in lengths.iter().enumerate() {
        let place = &mut places[(capacity - length) as usize];
        order[*place as usize] = document as u32;
        *place += 1;
    }
    order
}

/// Counting sort by row; within a row documents stand as they were placed.
fn group(row_of: &[u32], order: &[u32], rows: usize) -> Packed {
    let mut starts = vec![0u32; rows + 1];
    for row in row_of {
        starts[*row as usize + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut places = starts.clone();
    let mut documents = vec![0; row_of.len()];
    for document in order {
        let place = &mut places[row_of[*document as usize] as usize];
        documents[*place as usize] = *document;
        *place += 1;
    }
    Packed { starts, documents }
}

/// Open rows by the space that is left in them.
struct Rows {
    capacity: u32,
    /// Top row of the stack of each amount of free space.
    top: Vec<u32>,
    /// The row below each row in its stack.
    next: Vec<u32>,
    /// Bit `f` is set where the stack of free space `f` holds a row; the second level says which words have bits.
    bits: Vec<u64>,
    words: Vec<u64>,
}

impl Rows {
    fn new(capacity: u32) -> Self {
        let spaces = capacity as usize + 1;
        let bits = vec![0; spaces.div_ceil(64)];
        let words = vec![0; bits.len().div_ceil(64)];
        Self { capacity, top: vec![NONE; spaces], next: Vec::new(), bits, words }
    }

    /// The row that the document goes into; a new one where none has room.
    fn place(&mut self, length: u32) -> u32 {
        let (row, free) = if let Some(free) = self.least_space(length) {
            (self.pop(free), free)
        } else {
            self.next.push(NONE);
            (self.next.len() as u32 - 1, self.capacity)
        };
        self.push(row, free - length);
        row
    }

    fn pop(&mut self, free: u32) -> u32 {
        let row = self.top[free as usize];
        self.top[free as usize] = self.next[row as usize];
        if self.top[free as usize] == NONE {
            let word = free as usize / 64;
            self.bits[word] &= !(1 << (free % 64));
            if self.bits[word] == 0 {
                self.words[word / 64] &= !(1 << (word % 64));
            }
        }
        row
    }

    fn push(&mut self, row: u32, free: u32) {
        self.next[row as usize] = self.top[free as usize];
        self.top[free as usize] = row;
        let word = free as usize / 64;
        self.bits[word] |= 1 << (free % 64);
        self.words[word / 64] |= 1 << (word % 64);
    }

    /// The smallest free space of at least `length` that some row has.
    fn least_space(&self, length: u32) -> Option<u32> {
        let word = length as usize / 64;
        let here = self.bits[word] & (u64::MAX << (length % 64));
        if here != 0 {
            return Some(word as u32 * 64 + here.trailing_zeros());
        }
        let word = self.next_word(word + 1)?;
        Some(word as u32 * 64 + self.bits[word].trailing_zeros())
    }

    fn next_word(&self, from: usize) -> Option<usize> {
        let mut at = from / 64;
        let mut word = self.words.get(at)? & (u64::MAX << (from % 64));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}
