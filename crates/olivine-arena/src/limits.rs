//! The hardware limits of one CPU, without a channel: copies, an empty system call, a futex wake.

use crate::clock::TickClock;
use crate::protocol::Done;
use std::hint::black_box;
use std::sync::atomic::AtomicU32;

/// Calls timed for the cost of one.
const CALLS: u64 = 20_000;
/// Readings of the clock timed for the cost of one.
const READINGS: u64 = 100_000;
/// Bytes copied for one copying rate.
const COPIED_BYTES: usize = 64 << 20;

/// The time of `count` calls.
fn timed(count: u64, mut call: impl FnMut()) -> Done {
    let start_ticks = TickClock::ticks();
    (0..count).for_each(|_| call());
    Done {
        start_ticks,
        end_ticks: TickClock::ticks(),
        count,
        ..Done::default()
    }
}

/// Empty system calls.
pub(crate) fn system_calls() -> Done {
    timed(CALLS, || {
        black_box(rustix::process::getppid());
    })
}

/// Wakes of a futex without a sleeper: the cost for a sender that cannot detect sleepers.
pub(crate) fn futex_wakes() -> Done {
    let word = AtomicU32::new(0);
    timed(CALLS, || {
        // Not private: it must work between processes.
        let woken = rustix::thread::futex::wake(&word, rustix::thread::futex::Flags::empty(), 1);
        black_box(woken.is_ok());
    })
}

/// Readings of the clock.
pub(crate) fn clock_readings() -> Done {
    timed(READINGS, || {
        black_box(TickClock::ticks());
    })
}

/// Copies `size` bytes at a time from one place to the next free one in `ring_bytes`; counts bytes.
///
/// The destination moves through as much memory as a ring has, the source stays: the minimal work
/// of a publisher that copies messages. Nothing is copied if a message does not fit.
pub(crate) fn copies(size: usize, ring_bytes: usize) -> Done {
    if size == 0 || size > ring_bytes {
        return Done::default();
    }
    let source = vec![0x5A_u8; size];
    let mut destination = vec![1_u8; ring_bytes];
    let walk = ring_bytes / size * size;
    let walks = COPIED_BYTES.div_ceil(walk) as u64;
    let done = timed(walks, || {
        for place in destination.chunks_exact_mut(size) {
            place.copy_from_slice(black_box(&source));
            black_box(&place[0]);
        }
    });
    Done {
        count: walks * walk as u64,
        ..done
    }
}
