//! Causal attention by document, and its gradients.

pub mod bf16;
#[cfg(test)]
mod exact;
pub mod fp32;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::number::Bf16;

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
pub trait Format: Sized {
    fn forward(
        shape: Shape<'_>,
        inputs: Inputs<'_, Self>,
        result: Output<&mut [Self], &mut [f32]>,
        threads: usize,
    );

    fn backward(
        shape: Shape<'_>,
        inputs: Inputs<'_, Self>,
        result: Output<&[Self], &[f32]>,
        grad: &[Self],
        gradients: Gradients<'_, Self>,
        threads: usize,
    );
}

macro_rules! computed_by {
    ($format:ty, $module:ident) => {
        impl Format for $format {
            fn forward(
                shape: Shape<'_>,
                inputs: Inputs<'_, Self>,
                result: Output<&mut [Self], &mut [f32]>,
                threads: usize,
            ) {
                $module::forward(shape, inputs, result, threads);
            }

            fn backward(
                shape: Shape<'_>,
                inputs: Inputs<'_, Self>,
                result: Output<&[Self], &[f32]>,
                grad: &[Self],
                gradients: Gradients<'_, Self>,
                threads: usize,
            ) {
                $module::backward(shape, inputs, result, grad, gradients, threads);
            }
        }
    };
}

computed_by!(f32, fp32);
computed_by!(Bf16, bf16);

/// One document and one group of heads that share keys.
#[derive(Clone, Copy)]
struct Task {
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
