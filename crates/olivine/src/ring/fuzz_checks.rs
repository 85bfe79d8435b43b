//! Checks of one end of a lane against any words of the other end. The fuzz targets and the replay
//! of the kept inputs run them.

#![allow(unreachable_pub, reason = "reached by the fuzz targets only")]

use super::consume::{Consumer, Stop, committed_up_to};
use super::heap::{Channel, channel, send};
use super::layout::lane;
use crate::error::ReceiveError;
use crate::fuzz_checks::input::Input;
use crate::region::Copied;
use crate::sync::{AtomicU64, Ordering};

/// Largest number of steps for one input.
const STEPS_MAX: usize = 200;
/// Messages of one walk: a damaged lane may be endless, a call must return.
const WALK: usize = 100;

/// Checks that both ends of a lane stay inside its memory while other words are written as `data`
/// says.
///
/// # Panics
///
/// If a check fails.
pub fn check_frames(data: &[u8]) {
    let mut input = Input::new(data);
    let align = if input.byte() & 1 == 0 { 8 } else { 64 };
    let origin = [0, (1 << 32) - 4096, (1 << 62) - 4096][usize::from(input.byte()) % 3];
    let channel = channel(align, origin);
    let mut producer = channel.producer();
    for length in 0..usize::from(input.byte()) % 32 {
        send(&mut producer, 1, &vec![7; length * 9]);
    }
    let mut reader = channel.consumer_at(0, origin);
    let mut sum = 0;
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let choice = input.byte();
        match choice % 8 {
            0 | 1 => overwrite_word(&channel, &reader, &mut input),
            2 if choice & 8 == 0 => sum += walk(&mut reader),
            2 => sum += walk_plain(&mut reader),
            3 => sum += step(&mut reader),
            4 => reader.release(),
            5 => {
                // A successor after a death, and a durable subscriber after an absence.
                producer = channel.producer();
                let wanted = input.word();
                let cursor = channel.lane.resolve(lane::CURSOR);
                let at = committed_up_to(&channel.ring, &cursor, &channel.geometry, wanted);
                reader = channel.consumer_at(0, at);
            }
            6 => sum += checked(&mut reader, &mut input),
            _ => {
                let length = usize::from(input.byte()) * 16;
                send(&mut producer, 3, &vec![5; length]);
            }
        }
    }
    std::hint::black_box(sum);
}

/// Overwrites one word of the lane's header or ring; half of the time near the reader.
fn overwrite_word(channel: &Channel, reader: &Consumer, input: &mut Input<'_>) {
    let (place, value) = (input.half(), input.word());
    let word: &AtomicU64 = match place % 4 {
        0 => channel.lane.word(usize::from(place / 4) % lane::WORDS),
        1 => channel.ring.header(u64::from(place / 4) * 8),
        _ => {
            let near = u64::from(place / 4) % 8 * channel.geometry.align;
            channel.ring.header(reader.position() + near)
        }
    };
    word.store(value, Ordering::Release);
}

/// A sum over a payload, so that every byte of it is read.
fn read(payload: &[u8]) -> u64 {
    payload.iter().copied().map(u64::from).sum()
}

/// A ring alone has one reason to refuse: it holds what no publisher writes.
fn corrupt(error: &ReceiveError) {
    assert!(matches!(error, ReceiveError::Corrupt { .. }), "{error}");
}

fn walk(reader: &mut Consumer) -> u64 {
    let (mut sum, mut seen, before) = (0, 0, reader.position());
    let walked = reader.walk(WALK, |frame, payload| {
        assert_eq!(frame.length, payload.len());
        sum += read(payload);
        seen += 1;
    });
    match walked {
        Ok(count) => assert_eq!(count, seen),
        Err(error) => corrupt(&error),
    }
    assert!(reader.position() >= before, "it went back");
    sum
}

/// As [`walk`], for messages without a topic.
fn walk_plain(reader: &mut Consumer) -> u64 {
    let (mut sum, mut seen, before) = (0, 0, reader.position());
    let walked = reader.walk_plain(WALK, |frame, payload| {
        assert!(!frame.topic && frame.length == payload.len());
        sum += read(payload);
        seen += 1;
    });
    match walked {
        Ok(count) | Err(Stop { count }) => assert_eq!(count, seen),
    }
    assert!(reader.position() >= before, "it went back");
    sum
}

fn step(reader: &mut Consumer) -> u64 {
    match reader.next() {
        Ok(Some(frame)) => {
            let sum = read(reader.view(&frame));
            assert!(frame.end > frame.position, "a frame that goes nowhere");
            reader.advance(&frame);
            sum
        }
        Ok(None) => {
            reader.at_tail();
            0
        }
        Err(error) => {
            corrupt(&error);
            0
        }
    }
}

/// Reads as a lossy subscriber, or as a bridge.
fn checked(reader: &mut Consumer, input: &mut Input<'_>) -> u64 {
    if input.byte() & 1 == 0 {
        let mut copy = Copied::default();
        return match reader.next_checked(&mut copy) {
            Ok(_) => read(copy.bytes()),
            Err(ReceiveError::Overrun { lost_bytes }) => {
                assert!(lost_bytes > 0);
                0
            }
            Err(error) => {
                corrupt(&error);
                0
            }
        };
    }
    let from = reader.position();
    match reader.committed() {
        Ok(end) => {
            assert!(end >= from && end - from <= 4096, "{from} to {end}");
            let sum = read(reader.frames(from, end));
            let mut copy = Vec::new();
            reader.copy_frames(end, &mut copy);
            sum + read(&copy)
        }
        Err(error) => {
            corrupt(&error);
            0
        }
    }
}
