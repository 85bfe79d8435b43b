//! Signals: a plain signal wakes; real-time signals carry the message, eight bytes each.
//!
//! They go to one thread, which keeps them blocked and sleeps in `sigtimedwait`: no handler, no
//! race at the start.

use super::exchange::{Slots, Wakeup, open_with, sleep_until_filled};
use super::{Driven, End, Method, Rendezvous, Side, drive};
use crate::sys::signal::{Signal, Thread};
use olivine_arena::error::{ArenaError, Result, io};
use std::io::ErrorKind;

pub(super) const PLAIN: Method = Method::new(
    "signal",
    "SIGUSR1; the message is in shared memory, blocking",
    "block",
    open_plain,
)
.lacking(super::ONE_SLOT);
pub(super) const REAL_TIME: Method = Method::new(
    "signal-queued",
    "real-time signals that carry the message, 8 bytes each, blocking",
    "block",
    open_queued,
)
.lacking(super::ONE_SLOT);

/// Bytes that one real-time signal carries.
const WORD: usize = 8;

fn open_plain(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let wakeup = meet(Signal::plain(), rendezvous)?;
    open_with(wakeup, side, rendezvous, size)
}

fn open_queued(_side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let line = meet(Signal::queued(), rendezvous)?;
    let message = vec![0; size];
    Ok(drive(Words { line, message }, size))
}

/// Learns the target of the signal. The signal is blocked here before the other side learns ours.
fn meet(blocked: std::io::Result<Signal>, rendezvous: &mut Rendezvous) -> Result<Line> {
    let signal = blocked.map_err(io("block a signal"))?;
    let own = Thread::own();
    let line = rendezvous.exchange(format!("{} {}", own.process, own.thread))?;
    let other = parse(&line).ok_or(ArenaError::Protocol { found: line })?;
    Ok(Line { signal, other })
}

fn parse(line: &str) -> Option<Thread> {
    let (process, thread) = line.split_once(' ')?;
    Some(Thread {
        process: process.parse().ok()?,
        thread: thread.parse().ok()?,
    })
}

/// A signal and the thread it goes to.
struct Line {
    signal: Signal,
    other: Thread,
}

impl Wakeup for Line {
    fn wake(&self, _slots: &Slots) -> Result<()> {
        self.signal.send(self.other).map_err(io("send a signal"))
    }

    fn wait(&self, slots: &Slots) -> Result<()> {
        sleep_until_filled(slots, || {
            self.signal.fetch().map_err(io("wait for a signal"))?;
            Ok(())
        })
    }
}

/// Messages cut into words, one signal each.
struct Words {
    line: Line,
    message: Vec<u8>,
}

impl End for Words {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.message);
        for piece in self.message.chunks(WORD) {
            let mut word = [0; WORD];
            word[..piece.len()].copy_from_slice(piece);
            let word = u64::from_ne_bytes(word);
            // The kernel queues a limited number; the other side fetches them in the meantime.
            while let Err(error) = self.line.signal.queue(self.line.other, word) {
                if error.kind() != ErrorKind::WouldBlock {
                    return Err(io("queue a signal")(error));
                }
            }
        }
        Ok(())
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        for piece in self.message.chunks_mut(WORD) {
            let word = loop {
                let fetched = self.line.signal.fetch().map_err(io("wait for a signal"))?;
                if let Some(word) = fetched {
                    break word;
                }
            };
            piece.copy_from_slice(&word.to_ne_bytes()[..piece.len()]);
        }
        Ok(handle(&self.message))
    }
}
