//! Several messages of C at once.

use crate::argument::{bytes, give, labelled, row};
use crate::failure::Failure;
use crate::handle::{Opaque as _, guard_of};
use crate::message::send;
use crate::publisher::Publisher;
use crate::sending::NOT_AT_ALL;
use crate::status::Status;
use crate::structs::Part;
use olivine::{BatchNotSent, NotSent, Outgoing};
use std::time::Duration;

/// Sends copies of messages within a time.
///
/// # Safety
///
/// As for the functions that call it.
pub(crate) unsafe fn publish_batch(
    publisher: *mut Publisher,
    (messages, count): (*const Part, usize),
    timeout: Option<Duration>,
    published: *mut usize,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        unsafe { give(published, 0) };
        // SAFETY: the contract is the same.
        let parts = unsafe { row("messages", messages, count) }?;
        let mut messages = Vec::with_capacity(count);
        for (index, part) in parts.iter().enumerate() {
            // SAFETY: the contract is the same.
            let message = unsafe { outgoing(part) };
            messages.push(message.map_err(|why| of_batch(index, why))?);
        }
        // SAFETY: the contract is the same.
        let (sent, outcome) = unsafe {
            send(publisher, |end| {
                // Also for no messages at all.
                if let Some(forked) = Publisher::forked(end) {
                    return Err(forked);
                }
                for (index, part) in parts.iter().enumerate() {
                    let checked = end.check("length", part.length);
                    checked.map_err(|why| of_batch(index, why))?;
                }
                let publisher = end.idle()?;
                let done = match timeout {
                    None => publisher.publish_batch(messages),
                    Some(timeout) => publisher.publish_batch_timeout(messages, timeout),
                };
                Ok(match done {
                    Ok(all) => (all, Ok(())),
                    Err(BatchNotSent { published, reason }) => {
                        let why = match (timeout, reason) {
                            // An everyday outcome.
                            (NOT_AT_ALL, NotSent::BackPressured) => reason.into(),
                            _ => end.look().describe(reason).of_batch(published).into(),
                        };
                        (published, Err(why))
                    }
                })
            })
        }?;
        // SAFETY: the contract is the same.
        unsafe { give(published, sent) };
        outcome
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// A message of a batch.
///
/// # Safety
///
/// The part's bytes and topic are as for the functions that call it.
unsafe fn outgoing<'m>(part: &Part) -> Result<Outgoing<'m>, Failure> {
    // SAFETY: the contract is the same.
    let message = Outgoing::new(unsafe { bytes(part.data, part.length) }?);
    // SAFETY: the contract is the same.
    Ok(message.label(unsafe { labelled(part.tag, part.topic) }?))
}

#[cold]
fn of_batch(index: usize, why: Failure) -> Failure {
    let why = Box::new(why);
    Failure::OfBatch { index, why }
}
