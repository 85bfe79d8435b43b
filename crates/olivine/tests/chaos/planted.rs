//! Faults planted between a source and a destination of `tcp://`, with correct checksums: errors
//! that the product could make. Each kind must fail a run.

use crate::checker::{Checker, SHORTEST, Verdict};
use crate::common::blocks::{ACK, Block, END, FRAMES, LANE_END, by_block};
use crate::common::proxy::{Proxy, Way};
use crate::common::{Random, free_port};
use crate::traffic::{Plan, Publishers, receive_all};
use olivine::Subscriber;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Messages of a run, and the message with the fault.
const MESSAGES: u64 = 200;
const AT: u64 = 50;
/// Bytes of the frame of a shortest message: a header of 8, the message, padding.
const FRAME: usize = (8 + SHORTEST).next_multiple_of(8);
/// Start of the frame with the fault: the lane of a new channel begins at 0.
const PLACE: u64 = AT * FRAME as u64;
/// A run without messages counts as hung after this time: short, because planted runs must hang.
const HUNG: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lost,
    Repeated,
    Torn,
    Hung,
    SilentEnd,
}

/// A changed block of a source; sets `planted` once it was changed.
fn source(kind: Kind, mut block: Block, planted: &AtomicBool) -> Vec<u8> {
    let position = block.position();
    if planted.load(Ordering::Acquire) {
        return match kind {
            Kind::Lost if block.kind() == FRAMES => {
                block.set_position(position - FRAME as u64);
                block.sealed()
            }
            Kind::Repeated if block.kind() == FRAMES => {
                block.set_position(position + FRAME as u64);
                block.sealed()
            }
            Kind::Hung | Kind::SilentEnd if block.kind() == FRAMES => Vec::new(),
            _ => block.bytes(),
        };
    }
    let is_here =
        block.kind() == FRAMES && (position..position + block.body.len() as u64).contains(&PLACE);
    if !is_here {
        return block.bytes();
    }
    planted.store(true, Ordering::Release);
    let from = usize::try_from(PLACE - position).unwrap();
    let frame = from..from + FRAME;
    match kind {
        Kind::Lost => drop(block.body.drain(frame)),
        Kind::Repeated => {
            let copy = block.body[frame].to_vec();
            block.body.splice(from..from, copy);
        }
        // After the frame's header.
        Kind::Torn => block.body[from + 8] ^= 1,
        Kind::Hung => block.body.truncate(from),
        Kind::SilentEnd => {
            block.body.truncate(from);
            let mut end = block.clone();
            (end.header[0], end.body) = (LANE_END, Vec::new());
            end.set_position(0);
            return [block.sealed(), end.sealed()].concat();
        }
    }
    block.sealed()
}

/// A changed block of a destination, so that the source gets nothing about the frame with the
/// fault.
fn destination(kind: Kind, mut block: Block, planted: &AtomicBool) -> Vec<u8> {
    if block.kind() != ACK || !planted.load(Ordering::Acquire) {
        return block.bytes();
    }
    let frame = FRAME as u64;
    let moved = |position: u64| match kind {
        Kind::Lost if position > PLACE => position + frame,
        Kind::Repeated if position > PLACE => position - frame,
        _ => position,
    };
    let room = u64::from_le_bytes(*block.body.first_chunk().unwrap());
    block.body = moved(room).to_le_bytes().to_vec();
    block.set_position(moved(block.position()));
    block.sealed()
}

/// No other faults.
struct NoFaults;

impl Plan for NoFaults {
    fn look(&mut self, _: u64, _: &mut Checker) {}
    fn before_close(&mut self) {}
    fn after_close(&mut self) {}
}

fn verdict(kind: Option<Kind>) -> Verdict {
    let port = free_port();
    let proxy = Proxy::start(port);
    let planted = Arc::new(AtomicBool::new(false));
    if let Some(kind) = kind {
        let (one, other) = (Arc::clone(&planted), Arc::clone(&planted));
        proxy.rewrite(
            Way::ToListener,
            by_block(move |block| source(kind, block, &one)),
        );
        proxy.rewrite(
            Way::FromListener,
            by_block(move |block| destination(kind, block, &other)),
        );
    }
    let uri = |port: u16, query: &str| format!("tcp://127.0.0.1:{port}/planted?{query}");
    let mut subscriber = Subscriber::open(&uri(port, "role=listen")).unwrap();
    let publish = [uri(proxy.port, "role=connect")];
    let shortest = SHORTEST as u64;
    let mut publishers = Publishers::start(&publish, MESSAGES, shortest, &mut Random(1));
    let checker = receive_all(&mut publishers, &mut subscriber, &mut NoFaults, HUNG);
    assert_eq!(planted.load(Ordering::Acquire), kind.is_some());
    checker.verdict()
}

#[test]
fn run_without_planted_fault_passes() {
    let verdict = verdict(None);
    assert!(verdict.is_good(), "{verdict:?}");
}

#[test]
fn a_planted_loss_fails_a_run() {
    let verdict = verdict(Some(Kind::Lost));
    assert_eq!((verdict.lost, verdict.repeated), (1, 0), "{verdict:?}");
    assert!(!verdict.is_good());
}

#[test]
fn a_planted_repetition_fails_a_run() {
    let verdict = verdict(Some(Kind::Repeated));
    assert_eq!((verdict.lost, verdict.repeated), (0, 1), "{verdict:?}");
    assert!(!verdict.is_good());
}

#[test]
fn a_planted_tear_fails_a_run() {
    let verdict = verdict(Some(Kind::Torn));
    assert_eq!((verdict.torn, verdict.repeated), (1, 0), "{verdict:?}");
    assert!(!verdict.is_good());
}

#[test]
fn a_planted_stop_fails_a_run() {
    let verdict = verdict(Some(Kind::Hung));
    assert_eq!((verdict.hung, verdict.received), (1, AT), "{verdict:?}");
    assert!(!verdict.is_good());
}

#[test]
fn a_planted_early_end_fails_a_run() {
    let verdict = verdict(Some(Kind::SilentEnd));
    assert_eq!(
        (verdict.silent_ends, verdict.received),
        (1, AT),
        "{verdict:?}"
    );
    assert!(!verdict.is_good());
}

/// A false end of the stream: the destination ends, and its subscriber must not take it for
/// complete.
#[test]
fn a_planted_close_of_the_stream_fails_a_run() {
    let port = free_port();
    let proxy = Proxy::start(port);
    let mut frames = 0;
    proxy.rewrite(
        Way::ToListener,
        by_block(move |block| {
            frames += u64::from(block.kind() == FRAMES);
            if frames > 1 {
                return Block::close(END).sealed();
            }
            block.bytes()
        }),
    );
    let uri = |port: u16, query: &str| format!("tcp://127.0.0.1:{port}/planted?{query}");
    let mut subscriber = Subscriber::open(&uri(port, "role=listen")).unwrap();
    let publish = [uri(proxy.port, "role=connect")];
    let mut publishers = Publishers::start(&publish, 20_000, 64, &mut Random(1));
    let checker = receive_all(&mut publishers, &mut subscriber, &mut NoFaults, HUNG);
    let verdict = checker.verdict();
    assert_eq!(verdict.silent_ends, 1, "{verdict:?}");
}
