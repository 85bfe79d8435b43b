//! Signals: plain ones as a bell, real-time ones that carry the message, eight bytes each.
//!
//! They go to one thread, which keeps them blocked and sleeps in `sigtimedwait`: no handler, no race at the start.

use super::bell::{Bell, Rung};
use super::exchange::{Memory, Slots};
use super::player::{End, Player, play};
use super::{Described, Door, Side};
use crate::error::{BenchError, Result, io};
use crate::peer::Patience;
use crate::sys::signal::{Signal, Thread};
use std::io::ErrorKind;

pub(super) const PLAIN: Described = Described {
    name: "signal",
    about: "SIGUSR1; the message lies in shared memory beside, blocking",
    wait: "block",
    streams: false,
    batches: false,
    threads: false,
    lacks: super::ONE_SLOT,
    open: open_plain,
};
pub(super) const REAL_TIME: Described = Described {
    name: "signal-queued",
    about: "real-time signals that carry the message, 8 bytes each, blocking",
    wait: "block",
    streams: false,
    batches: false,
    threads: false,
    lacks: super::ONE_SLOT,
    open: open_queued,
};

/// Bytes that one real-time signal carries.
const WORD: usize = 8;

fn open_plain(
    side: Side,
    door: &mut Door,
    size: usize,
    _settings: &str,
) -> Result<Box<dyn Player>> {
    let bell = meet(Signal::plain(), door)?;
    let slots = Slots::open(Memory::Posix, side, door, size)?;
    Ok(play(Rung { slots, bell }, size))
}

fn open_queued(
    _side: Side,
    door: &mut Door,
    size: usize,
    _settings: &str,
) -> Result<Box<dyn Player>> {
    let line = meet(Signal::queued(), door)?;
    let message = vec![0; size];
    Ok(play(Words { line, message }, size))
}

/// Learns where to send the signal, which is blocked here before the other side learns the same.
fn meet(blocked: std::io::Result<Signal>, door: &mut Door) -> Result<Line> {
    let signal = blocked.map_err(io("block a signal"))?;
    let own = Thread::own();
    let line = door.exchange(format!("{} {}", own.process, own.thread))?;
    let other = parse(&line).ok_or(BenchError::Protocol { found: line })?;
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

impl Bell for Line {
    fn ring(&self, _slots: &Slots) -> Result<()> {
        self.signal.send(self.other).map_err(io("send a signal"))
    }

    fn sleep(&self, _slots: &Slots) -> Result<()> {
        self.signal.fetch().map_err(io("wait for a signal"))?;
        Ok(())
    }
}

/// Messages cut into words, one signal each.
struct Words {
    line: Line,
    message: Vec<u8>,
}

impl End for Words {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]), patience: &mut Patience<'_>) -> Result<()> {
        fill(&mut self.message);
        for piece in self.message.chunks(WORD) {
            let mut word = [0; WORD];
            word[..piece.len()].copy_from_slice(piece);
            let word = u64::from_ne_bytes(word);
            // The kernel holds a limited number; the other side fetches them meanwhile.
            while let Err(error) = self.line.signal.queue(self.line.other, word) {
                if error.kind() != ErrorKind::WouldBlock {
                    return Err(io("queue a signal")(error));
                }
                patience.spend()?;
            }
        }
        Ok(())
    }

    fn receive<T>(
        &mut self,
        handle: impl FnOnce(&[u8]) -> T,
        patience: &mut Patience<'_>,
    ) -> Result<T> {
        for piece in self.message.chunks_mut(WORD) {
            let word = loop {
                let fetched = self.line.signal.fetch().map_err(io("wait for a signal"))?;
                match fetched {
                    Some(word) => break word,
                    None => patience.look()?,
                }
            };
            piece.copy_from_slice(&word.to_ne_bytes()[..piece.len()]);
        }
        Ok(handle(&self.message))
    }
}
