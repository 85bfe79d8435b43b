//! A stream of small frames in large sends, as a messaging transport sends them to another machine.
//!
//! A frame is its payload's length (u32, little endian), four bytes of zero, its number (u64) and
//! 16 bytes made from the number: 32 bytes in all. The other side reads every frame, checks all of
//! it, and tells at the end how many were right.

use super::error::{LoadError, io};
use super::usage::{self, Usage};
use crate::clock::TickClock;
use crate::cpus;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bytes of a frame.
pub const FRAME: usize = 32;
/// The first word: the payload's length.
const PAYLOAD: u64 = 24;
/// What a number is multiplied by for its check: an odd constant with its bits spread (2^64 over
/// the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Batches between two clock readings.
const BATCHES: u32 = 16;

/// A frame as four words, little endian. Words, because comparing whole arrays goes through memory
/// twice.
fn frame(number: u64) -> [u64; 4] {
    let check = number.wrapping_mul(SPREAD);
    [PAYLOAD, number, check, !check]
}

/// Fills `bytes` with frames from number `first` on.
fn fill(bytes: &mut [u8], first: u64) {
    for (number, place) in (first..).zip(bytes.as_chunks_mut::<FRAME>().0) {
        for (word, value) in place.as_chunks_mut::<8>().0.iter_mut().zip(frame(number)) {
            *word = value.to_le_bytes();
        }
    }
}

/// Reads whole frames from number `next` on; returns how many there were and how many were right.
pub(super) fn check(data: &[u8], mut next: u64) -> (u64, u64) {
    let first = next;
    let mut right = 0;
    for found in data.as_chunks::<FRAME>().0 {
        let words = found.as_chunks::<8>().0;
        let same = |(word, value): (&[u8; 8], u64)| u64::from_le_bytes(*word) == value;
        right += u64::from(words.iter().zip(frame(next)).all(same));
        next += 1;
    }
    (next - first, right)
}

/// What a stream of frames came to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Streamed {
    /// Frames a second, from the first send to the last confirmation.
    pub frames_per_s: f64,
    /// CPU time of the receiving processes for a frame, in nanoseconds; `None` if they are on
    /// another machine or may not be read.
    pub cpu_ns: Option<f64>,
}

/// Streams frames to `address` for `seconds`, `batch` of them in each send, from `cpu`: how many a
/// second, from the first send to the last confirmation, and the CPU time of the receiving
/// processes if they are on this machine.
///
/// # Errors
///
/// [`LoadError`]; [`LoadError::Wrong`] if the other side did not get every frame as it was sent,
/// [`LoadError::Stuck`] if it takes nothing for 20 s.
pub fn stream(
    address: SocketAddr,
    batch: usize,
    seconds: f64,
    cpu: u32,
) -> Result<Streamed, LoadError> {
    stream_with(address, batch, seconds, cpu, ANSWER_MAX)
}

/// The same with a time limit for a server that accepts and replies nothing.
#[allow(clippy::cast_precision_loss, reason = "times stay far below 2^52 ns")]
fn stream_with(
    address: SocketAddr,
    batch: usize,
    seconds: f64,
    cpu: u32,
    deadline: Duration,
) -> Result<Streamed, LoadError> {
    cpus::pin(cpu).map_err(|source| LoadError::Pin { cpu, source })?;
    let clock = TickClock::calibrate();
    let mut socket = TcpStream::connect_timeout(&address, ANSWER_MAX)
        .map_err(|source| LoadError::Connect { address, source })?;
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&socket, Some(deadline)).map_err(io("set a time-out"))?;
    }
    let servers = usage::servers(address);
    let used = Usage::of(&servers);
    let start = TickClock::ticks();
    let span = u64::try_from(Duration::from_secs_f64(seconds).as_nanos()).unwrap_or(u64::MAX);
    let end = start + clock.ticks_for(span);
    let mut number = 0;
    let mut bytes = vec![0; batch * FRAME];
    while TickClock::ticks() < end {
        for _ in 0..BATCHES {
            fill(&mut bytes, number);
            number += batch as u64;
            socket
                .write_all(&bytes)
                .map_err(stuck_or("send frames", deadline))?;
        }
    }
    socket
        .shutdown(std::net::Shutdown::Write)
        .map_err(io("end the stream"))?;
    let mut answer = [0; 16];
    socket
        .read_exact(&mut answer)
        .map_err(stuck_or("read how many frames arrived", deadline))?;
    let elapsed = clock.nanos(TickClock::ticks() - start) as f64 / 1e9;
    let used = Usage::of(&servers).zip(used);
    let (arrived, right) = read_report(&answer);
    if (arrived, right) != (number, number) {
        return Err(LoadError::Wrong {
            number,
            found: format!("{arrived} frames arrived, {right} of them as they were sent"),
        });
    }
    let used = used.map(|(after, before)| after.since(before).total);
    Ok(Streamed {
        frames_per_s: number as f64 / elapsed,
        cpu_ns: used.map(|used| used as f64 / number as f64),
    })
}

/// An error of a stream: the deadline, or a system error of `action`.
fn stuck_or(action: &'static str, deadline: Duration) -> impl FnOnce(std::io::Error) -> LoadError {
    move |error| match error.kind() {
        // Sockets report a time-out with this code.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => LoadError::Stuck {
            seconds: deadline.as_secs(),
        },
        _ => io(action)(error).into(),
    }
}

/// The report of the receiving side.
pub(super) fn report(arrived: u64, right: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&arrived.to_le_bytes());
    bytes[8..].copy_from_slice(&right.to_le_bytes());
    bytes
}

fn read_report(bytes: &[u8; 16]) -> (u64, u64) {
    let [arrived, right] = [&bytes[..8], &bytes[8..]].map(|half| {
        half.iter()
            .rev()
            .fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    });
    (arrived, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalled_receiver_ends_the_stream() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cpu = cpus::allowed()[0];
        let deadline = Duration::from_millis(100);
        let error = stream_with(address, 2048, 3600.0, cpu, deadline).unwrap_err();
        assert!(matches!(error, LoadError::Stuck { .. }), "{error}");
    }

    #[test]
    fn frames_are_counted_and_changed_bytes_are_detected() {
        let mut wire = [0; 3 * FRAME];
        fill(&mut wire, 5);
        assert_eq!(check(&wire, 5), (3, 3));
        assert_eq!(check(&wire[..80], 5), (2, 2));
        assert_eq!(check(&wire, 4), (3, 0));
        for at in FRAME..2 * FRAME {
            wire[at] ^= 1;
            assert_eq!(check(&wire, 5), (3, 2), "byte {at}");
            wire[at] ^= 1;
        }
        assert_eq!(read_report(&report(7, u64::MAX)), (7, u64::MAX));
    }
}
