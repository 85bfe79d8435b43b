//! Methods that work only between threads: two workers of one participant.
//!
//! Everything else is as for other methods: the same orders, the same payload, the same checks.
//! Such a method saves the other process, so its rows have the setting `threads`.

use crate::error::{ArenaError, Result};
use crate::harness::{Driven, Driver, End, drive};
use crate::protocol::Side;
use crate::rendezvous::Rendezvous;
use std::sync::{Mutex, PoisonError};

/// Makes the driver of the server's end, in the server's thread.
type Make = Box<dyn FnOnce() -> Box<dyn Driver> + Send>;

/// The server's end, between its making by the client and its use. One pair is opened at a time.
static MADE: Mutex<Option<Make>> = Mutex::new(None);

/// Drives an end of a method between threads. `make` returns both ends, the client first; it is
/// called only on the client side.
///
/// # Errors
///
/// [`ArenaError`] if `make` fails, here or on the other side.
pub fn drive_in_threads<A, B>(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    make: impl FnOnce() -> Result<(A, B)>,
) -> Driven
where
    A: End + 'static,
    B: End + Send + 'static,
{
    let place = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if side == Side::Client {
        let (client, server) = make()?;
        *place() = Some(Box::new(move || drive(server, size)));
        rendezvous.tell("made")?;
        return Ok(drive(client, size));
    }
    rendezvous.hear()?;
    let made = place().take();
    made.map(|made| made()).ok_or(ArenaError::EndClosed)
}
