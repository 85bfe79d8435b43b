//! Parallel work.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

/// The number of processors.
pub(crate) fn jobs() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` on each of `items`, started in order, `jobs` in parallel; returns the results in any
/// order.
///
/// # Panics
///
/// If `work` panics, once the others have ended.
pub(crate) fn each<T: Send, R: Send>(
    items: Vec<T>,
    jobs: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let queue = Mutex::new(VecDeque::from(items));
    // The lock is held only for this access.
    let next = || queue.lock().map_or(None, |mut queue| queue.pop_front());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1))
            .map(|_| scope.spawn(|| std::iter::from_fn(next).map(&work).collect::<Vec<_>>()))
            .collect();
        let done = workers.into_iter().map(thread::ScopedJoinHandle::join);
        done.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn everything_is_done_once_and_some_at_a_time() {
        let both = Barrier::new(2);
        let mut done = each(vec![1, 2, 3, 4], 2, |n| {
            both.wait();
            n * 10
        });
        done.sort_unstable();
        assert_eq!(done, [10, 20, 30, 40]);
    }
}
