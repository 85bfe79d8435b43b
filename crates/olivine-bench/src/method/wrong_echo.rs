//! A method that sends wrong bytes back, so that the suite can show that it notices.

use super::olivine_shm::{ADAPTIVE, Channels};
use super::player::{End, Player, play};
use super::{Described, Door, Side};
use crate::error::Result;
use crate::peer::Patience;

/// The answer with the wrong bit: not the first, which a careless suite might look at alone.
const WRONG_ANSWER: u64 = 77;

/// Olivine, but one bit of a later answer is wrong.
pub(super) const WRONG_ECHO: Described = Described {
    name: "wrong-echo",
    about: "a method that must fail: one bit of an answer is wrong",
    wait: ADAPTIVE.wait,
    streams: false,
    lacks: "",
    open,
};

fn open(side: Side, door: &mut Door, size: usize, settings: &str) -> Result<Box<dyn Player>> {
    let end = ADAPTIVE.channels(side, door, size, settings)?;
    Ok(match side {
        Side::Asks => play(end, size),
        Side::Answers => play(Liar { end, sent: 0 }, size),
    })
}

/// An end that lies once.
struct Liar {
    end: Channels,
    sent: u64,
}

impl End for Liar {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]), patience: &mut Patience<'_>) -> Result<()> {
        self.sent += 1;
        let lies = self.sent == WRONG_ANSWER;
        let wrong = |message: &mut [u8]| {
            fill(message);
            if let Some(last) = message.last_mut().filter(|_| lies) {
                *last ^= 1;
            }
        };
        self.end.send(wrong, patience)
    }

    fn receive<T>(
        &mut self,
        handle: impl FnOnce(&[u8]) -> T,
        patience: &mut Patience<'_>,
    ) -> Result<T> {
        self.end.receive(handle, patience)
    }
}
