//! Methods with wrong replies, for the self-check.

use super::olivine_shm::{ADAPTIVE, Channels};
use super::{Driven, End, Method, Rendezvous, Side, drive};
use crate::payload::SIZE_MIN;
use olivine_arena::error::Result;

/// The wrong reply: not the first, which a careless check might only look at.
const WRONG_ANSWER: u64 = 77;

/// Olivine, but one bit of a later reply is wrong.
pub(super) const WRONG_ECHO: Method = Method::new(
    "wrong-echo",
    "must fail: one bit of a reply is wrong",
    ADAPTIVE.wait,
    |side, rendezvous, size, settings| open(Lie::WrongBit, side, rendezvous, size, settings),
);

/// Olivine, but a later reply is too short.
pub(super) const SHORT_ECHO: Method = Method::new(
    "short-echo",
    "must fail: a reply is too short",
    ADAPTIVE.wait,
    |side, rendezvous, size, settings| open(Lie::Short, side, rendezvous, size, settings),
);

/// The error of the reply.
#[derive(Clone, Copy)]
enum Lie {
    /// Its last bit.
    WrongBit,
    /// Its length; every present byte is correct.
    Short,
}

fn open(lie: Lie, side: Side, rendezvous: &mut Rendezvous, size: usize, settings: &str) -> Driven {
    let end = Channels::open(ADAPTIVE.wait, side, rendezvous, size, settings)?;
    let faulty = |end| FaultyEnd {
        end,
        lie,
        size,
        sent: 0,
    };
    Ok(match side {
        Side::Client => drive(end, size),
        Side::Server => drive(faulty(end), size),
    })
}

/// An end with one wrong reply.
struct FaultyEnd {
    end: Channels,
    lie: Lie,
    size: usize,
    sent: u64,
}

impl End for FaultyEnd {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        self.sent += 1;
        if self.sent != WRONG_ANSWER {
            return self.end.send(fill);
        }
        let mut message = vec![0; self.size];
        fill(&mut message);
        match self.lie {
            Lie::WrongBit => {
                if let Some(last) = message.last_mut() {
                    *last ^= 1;
                }
            }
            Lie::Short => message.truncate((self.size / 2).max(SIZE_MIN)),
        }
        self.end.resize(message.len());
        let sent = self.end.send(|place| place.copy_from_slice(&message));
        self.end.resize(self.size);
        sent
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.end.receive(handle)
    }
}
