//! Work spread over threads whose results come back in the order of the jobs.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::problem::Outcome;

/// What the threads share: jobs not begun, results not consumed.
struct Board<I, R> {
    jobs: I,
    taken: usize,
    done: BTreeMap<usize, R>,
    consumed: usize,
    /// How many jobs there were, once that is known.
    total: Option<usize>,
    stopped: bool,
}

struct Shared<I, R> {
    board: Mutex<Board<I, R>>,
    changed: Condvar,
    /// Results that may wait for an earlier one.
    window: usize,
}

/// Runs `work` on every job and `consume` on every result in order; an error of `consume` ends it all.
///
/// With one thread nothing is spawned. A thread makes its own `state` once.
pub fn run<J, S, R, I>(
    threads: usize,
    jobs: I,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, J) -> R + Sync,
    mut consume: impl FnMut(R) -> Outcome<()>,
) -> Outcome<()>
where
    I: Iterator<Item = J> + Send,
    J: Send,
    R: Send,
{
    if threads <= 1 {
        let mut state = state();
        return jobs.into_iter().try_for_each(|job| consume(work(&mut state, job)));
    }
    let board = Board { jobs, taken: 0, done: BTreeMap::new(), consumed: 0, total: None, stopped: false };
    let shared = Shared { board: Mutex::new(board), changed: Condvar::new(), window: threads * 2 + 2 };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _end = StopOnPanic(&shared);
                let mut state = state();
                while let Some((at, job)) = shared.take() {
                    shared.put(at, work(&mut state, job));
                }
            });
        }
        let outcome = shared.consume_all(&mut consume);
        shared.stop();
        outcome
    })
}

impl<I, J, R> Shared<I, R>
where
    I: Iterator<Item = J>,
{
    fn lock(&self) -> MutexGuard<'_, Board<I, R>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<(usize, J)> {
        let mut board = self.lock();
        while !board.stopped && board.total.is_none() && board.taken >= board.consumed + self.window {
            board = self.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
        if board.stopped || board.total.is_some() {
            return None;
        }
        let at = board.taken;
        let job = board.jobs.next();
        if job.is_some() {
            board.taken += 1;
        } else {
            board.total = Some(at);
            self.changed.notify_all();
        }
        job.map(|job| (at, job))
    }

    fn put(&self, at: usize, result: R) {
        self.lock().done.insert(at, result);
        self.changed.notify_all();
    }

    fn consume_all(&self, consume: &mut impl FnMut(R) -> Outcome<()>) -> Outcome<()> {
        while let Some(result) = self.next_result() {
            consume(result)?;
        }
        Ok(())
    }

    fn next_result(&self) -> Option<R> {
        let mut board = self.lock();
        loop {
            let at = board.consumed;
            if let Some(result) = board.done.remove(&at) {
                board.consumed += 1;
                drop(board);
                self.changed.notify_all();
                return Some(result);
            }
            if board.stopped || board.total == Some(at) {
                return None;
            }
            board = self.changed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<I, R> Shared<I, R> {
    fn stop(&self) {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.changed.notify_all();
    }
}

/// A thread that panics must not leave the others waiting for its result.
struct StopOnPanic<'a, I, R>(&'a Shared<I, R>);

impl<I, R> Drop for StopOnPanic<'_, I, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
