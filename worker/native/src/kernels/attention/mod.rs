//! Causal attention by document, and its gradients.

// A function is compiled with the instructions of the one that it is inlined into.
#![allow(clippy::inline_always)]

pub mod bf16;
#[cfg(test)]
mod exact;
pub mod fp32;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a cache line, which a row of a tile fills.
const LINE: usize = 64;
/// Multiply-adds for which a thread is worth its start.
const SHARE: usize = 1 << 22;

/// Documents end to end; queries are [tokens, heads, width], keys and values [tokens, groups, width].
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    pub lengths: &'a [usize],
    pub heads: usize,
    pub groups: usize,
    pub width: usize,
    pub scale: f32,
}

impl Shape<'_> {
    pub fn tokens(&self) -> usize {
        self.lengths.iter().sum()
    }
}

#[derive(Clone, Copy)]
pub struct Inputs<'a, N> {
    pub queries: &'a [N],
    pub keys: &'a [N],
    pub values: &'a [N],
}

/// The result, and the logarithm of each row's sum: [tokens, heads].
#[derive(Clone, Copy)]
pub struct Output<T, S> {
    pub out: T,
    pub log_sums: S,
}

pub struct Gradients<'a, N> {
    pub queries: &'a mut [N],
    pub keys: &'a mut [N],
    pub values: &'a mut [N],
}

/// A number format that attention is computed in.
pub trait Format: Copy + Send + Sync {
    fn forward_task(job: &Forward<'_, Self>, task: Task);

    fn backward_task(job: &Backward<'_, Self>, task: Task);
}

pub fn forward<N: Format>(
    shape: Shape<'_>,
    inputs: Inputs<'_, N>,
    result: Output<&mut [N], &mut [f32]>,
    threads: usize,
) {
    let Output { out, log_sums } = result;
    let job = Forward { shape, inputs, out: Shared::new(out), log_sums: Shared::new(log_sums) };
    for_each_task(shape, threads, |task| N::forward_task(&job, task));
}

pub fn backward<N: Format>(
    shape: Shape<'_>,
    inputs: Inputs<'_, N>,
    result: Output<&[N], &[f32]>,
    grad: &[N],
    gradients: Gradients<'_, N>,
    threads: usize,
) {
    let Gradients { queries, keys, values } = gradients;
    let to = [queries, keys, values].map(Shared::new);
    let job = Backward { shape, inputs, result, grad, to };
    for_each_task(shape, threads, |task| N::backward_task(&job, task));
}

pub struct Forward<'a, N> {
    shape: Shape<'a>,
    inputs: Inputs<'a, N>,
    out: Shared<'a, N>,
    log_sums: Shared<'a, f32>,
}

pub struct Backward<'a, N> {
    shape: Shape<'a>,
    inputs: Inputs<'a, N>,
    result: Output<&'a [N], &'a [f32]>,
    grad: &'a [N],
    /// For queries, keys and values.
    to: [Shared<'a, N>; 3],
}

/// One document and one group of heads that share keys.
#[derive(Clone, Copy)]
pub struct Task {
    start: usize,
    length: usize,
    group: usize,
}

/// Memory of which each task writes its own numbers.
#[derive(Clone, Copy)]
struct Shared<'a, N> {
    start: *mut N,
    length: usize,
    lent: PhantomData<&'a mut [N]>,
}

// SAFETY: the memory is lent to the job alone, and no two tasks have the same numbers.
unsafe impl<N: Send> Send for Shared<'_, N> {}
// SAFETY: as above.
unsafe impl<N: Send> Sync for Shared<'_, N> {}

impl<'a, N> Shared<'a, N> {
    fn new(memory: &'a mut [N]) -> Self {
        Self { start: memory.as_mut_ptr(), length: memory.len(), lent: PhantomData }
    }

    /// # Safety
    /// No other task has these numbers.
    unsafe fn numbers(&self, start: usize, length: usize) -> &'a mut [N] {
        assert!(start + length <= self.length);
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), length) }
    }
}

/// One head's rows within [tokens, heads, width].
#[derive(Clone, Copy)]
struct Head<'a, N> {
    numbers: &'a [N],
    start: usize,
    row: usize,
    width: usize,
}

impl<'a, N> Head<'a, N> {
    fn new(numbers: &'a [N], first: usize, heads: usize, head: usize, width: usize) -> Self {
        Self { numbers, start: (first * heads + head) * width, row: heads * width, width }
    }

    #[inline(always)]
    fn at(self, token: usize) -> &'a [N] {
        &self.numbers[self.start + token * self.row..][..self.width]
    }
}

/// `size` numbers of a thread's memory, from the start of a cache line on, with whatever they were.
fn fit<N: Copy + Default>(memory: &mut Vec<N>, size: usize) -> &mut [N] {
    let spare = LINE / size_of::<N>();
    if memory.len() < size + spare {
        memory.resize(size + spare, N::default());
    }
    let first = memory.as_ptr().align_offset(LINE).min(spare);
    &mut memory[first..first + size]
}

fn zeros<N: Copy + Default>(memory: &mut Vec<N>, size: usize) -> &mut [N] {
    let memory = fit(memory, size);
    memory.fill(N::default());
    memory
}

fn for_each_task(shape: Shape<'_>, threads: usize, work: impl Fn(Task) + Sync) {
    let mut tasks = Vec::with_capacity(shape.lengths.len() * shape.groups);
    let (mut start, mut size) = (0, 0);
    for &length in shape.lengths {
        tasks.extend((0..shape.groups).map(|group| Task { start, length, group }));
        start += length;
        size += length * length * shape.heads * shape.width;
    }
    let next = AtomicUsize::new(0);
    let all = || {
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(*task);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(tasks.len()).min(size / SHARE) {
            scope.spawn(all);
        }
        all();
    });
}
