//! The receiving end.

use crate::argument::{config, fill, give, message_type, place, timeout};
use crate::failure::{Failure, guard};
use crate::handle::{self, Handle, Opaque, guard_of, take, with};
use crate::status::Status;
use crate::structs::{Detail, Message, Setting, Type};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null;
use olivine::{Durable as RustDurable, ReceiveError, Subscriber as RustSubscriber};
use std::os::fd::AsRawFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// Receives messages of a channel from all its publishers, in order for each publisher.
#[derive(Debug)]
pub struct Subscriber(Handle<RustSubscriber>);

impl Opaque for Subscriber {
    type Value = RustSubscriber;
    const WHAT: &'static str = "subscriber";

    fn new(handle: Handle<RustSubscriber>) -> Self {
        Self(handle)
    }

    fn handle(&self) -> &Handle<RustSubscriber> {
        &self.0
    }

    fn into_handle(self) -> Handle<RustSubscriber> {
        self.0
    }

    fn forked(subscriber: &RustSubscriber) -> Option<Failure> {
        of_this_process(subscriber).err()
    }
}

/// What `olivine_subscriber_poll` hands messages to, one after the other. 0 goes on; anything else
/// stops the poll, and the same message comes again first in the next call. It must not throw, jump
/// out, or use the subscriber.
pub type Handler =
    Option<unsafe extern "C" fn(context: *mut c_void, message: *const Message) -> c_int>;

/// What a handler that stops unwinds the walk with: the message stays unread, as for a handler of
/// Rust that panics.
struct Stopped;

/// Opens the channel that `uri` names as a subscriber, making it if need be. `*subscriber` is the
/// new handle, to be given back to `olivine_subscriber_close`; untouched where this fails, and then
/// nothing stays behind.
///
/// A reliable subscriber (the default) gets every message published from now until it is closed;
/// publishers wait for it. It may be opened before any publisher is, and then waits for one: a
/// misspelt name makes a new channel, which stays empty.
///
/// `uri`, blocking and answers: as for `olivine_publisher_open`.
///
/// # Safety
///
/// `uri` is a text, `subscriber` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_open(
    uri: *const c_char,
    subscriber: *mut *mut Subscriber,
) -> Status {
    // SAFETY: the contract is the same; there are no settings.
    unsafe { olivine_subscriber_open_with(uri, null(), 0, subscriber) }
}

/// As `olivine_subscriber_open`, with `count` settings as if they stood at the end of `uri`.
///
/// # Safety
///
/// As for `olivine_subscriber_open`; `settings` has `count` elements with texts, or is NULL where
/// that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_open_with(
    uri: *const c_char,
    settings: *const Setting,
    count: usize,
    subscriber: *mut *mut Subscriber,
) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        let to = unsafe { place("subscriber", subscriber) }?;
        // SAFETY: the contract is the same.
        let config = unsafe { config(uri, settings, count) }?;
        *to = handle::give(RustSubscriber::open_with(&config)?);
        Ok(())
    })
}

/// As `olivine_subscriber_open_with`, for values of `type`, which is the channel's type. Their
/// messages have `type->size` bytes.
///
/// `BAD_ARGUMENT` for a type that no channel carries; `OPEN_TYPE` if the channel carries another.
/// Over `tcp://`, `nats://` and `file://` the far side or the journal refuses it, perhaps later:
/// then it is `OPEN_LINK`, or `RECEIVE_LINK` of a later call. The text names the first different
/// field.
///
/// # Safety
///
/// As for `olivine_subscriber_open_with`; `type` may be read, its name is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_open_typed(
    uri: *const c_char,
    settings: *const Setting,
    count: usize,
    r#type: *const Type,
    subscriber: *mut *mut Subscriber,
) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        let to = unsafe { place("subscriber", subscriber) }?;
        // SAFETY: the contract is the same.
        let stated = unsafe { message_type(r#type) }?;
        // SAFETY: the contract is the same.
        let config = unsafe { config(uri, settings, count) }?;
        *to = handle::give(RustSubscriber::open_for(&config, &stated)?);
        Ok(())
    })
}

/// Hands up to `limit` messages to `handler`, each with `context`. Never sleeps. `*count`, if
/// `count` is not NULL, is how many were consumed, also where the answer is not `OK`: 0 if there
/// was nothing to read.
///
/// A message that `handler` returns other than 0 for is not consumed: it comes again first in the
/// next call.
///
/// Families 1 and 5; `END_OF_STREAM` once every publisher has closed and everything was read. Calls
/// look for that at the fourth in a row that finds nothing, `olivine_subscriber_wait` at once. It
/// is not final: where a later publisher comes, further calls hand out its messages.
///
/// # Safety
///
/// `subscriber` is open; `handler` may be called with `context`; `count` may be written or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_poll(
    subscriber: *mut Subscriber,
    handler: Handler,
    context: *mut c_void,
    limit: usize,
    count: *mut usize,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        unsafe { give(count, 0) };
        let handler = handler.ok_or_else(|| Failure::Null {
            argument: "handler",
        })?;
        let mut consumed = 0;
        let hand_out = |message: olivine::Message<'_>| {
            let message = Message::of(&message);
            // SAFETY: a function of this type, which may be called by contract.
            let answer = unsafe { handler(context, &raw const message) };
            if answer != 0 {
                resume_unwind(Box::new(Stopped));
            }
            consumed += 1;
        };
        // SAFETY: the contract is the same.
        let done = unsafe {
            walk(subscriber, |subscriber| {
                Ok(subscriber.poll(hand_out, limit)?)
            })
        };
        // SAFETY: the contract is the same.
        unsafe { give(count, consumed) };
        done.unwrap_or_else(|panic| resume_unwind(panic))
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// Polls by `poll`. Where its handler unwinds with [`Stopped`], the message stays; another panic is
/// the outer result.
///
/// # Safety
///
/// As for [`with`].
unsafe fn walk(
    subscriber: *mut Subscriber,
    poll: impl FnOnce(&mut RustSubscriber) -> Result<usize, Failure>,
) -> std::thread::Result<Result<(), Failure>> {
    // SAFETY: the contract is the same.
    let polled = catch_unwind(AssertUnwindSafe(|| unsafe { with(subscriber, poll) }));
    match polled {
        Err(panic) if panic.is::<Stopped>() => Ok(Ok(())),
        polled => polled.map(|polled| polled.map(|_| ())),
    }
}

/// Copies up to `rows` messages of `row_length` bytes each into `array`, one behind the other, and
/// consumes them. Never sleeps. `*count` is how many, also where the answer is not `OK`: 0 if there
/// was nothing to read. `details`, if it is not NULL, gets what came with each.
///
/// A durable subscriber (`name=`) consumes them with its next call that receives, polls, waits or
/// releases, or with `olivine_subscriber_close`. If its program dies before, all come again. Until
/// then they hold publishers back, up to a whole ring.
///
/// A message of another length ends the array before it and is not consumed. If it is the first,
/// the answer is `BAD_ARGUMENT` with its length in the text: receive it by another call.
///
/// Families 1 and 5; `END_OF_STREAM` as for `olivine_subscriber_poll`.
///
/// # Safety
///
/// `subscriber` is open; `array` has room for `rows * row_length` bytes and `details` for `rows`
/// elements, or is NULL; `count` may be written or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_poll_into(
    subscriber: *mut Subscriber,
    array: *mut c_void,
    row_length: usize,
    rows: usize,
    details: *mut Detail,
    count: *mut usize,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        unsafe { give(count, 0) };
        check_array(array, row_length, rows, details)?;
        let array = array.cast::<u8>();
        let mut taken = 0;
        let mut other_length = None;
        let copy = |message: olivine::Message<'_>| {
            if message.len() != row_length {
                other_length = Some(message.len());
                resume_unwind(Box::new(Stopped));
            }
            // SAFETY: within the array: at most `rows` messages come.
            let row = unsafe { array.add(taken * row_length) };
            // SAFETY: a row has as many bytes; the copy allows overlaps.
            unsafe { row.copy_from(message.as_ptr(), row_length) };
            if !details.is_null() {
                // SAFETY: within the details, as above.
                let detail = unsafe { details.add(taken) };
                // SAFETY: aligned, as was checked.
                unsafe { detail.write(Detail::of(&message)) };
            }
            taken += 1;
        };
        // SAFETY: the contract is the same.
        let done = unsafe {
            walk(subscriber, |subscriber| {
                Ok(subscriber.poll_and_hold(copy, rows)?)
            })
        };
        // SAFETY: the contract is the same.
        unsafe { give(count, taken) };
        done.unwrap_or_else(|panic| resume_unwind(panic))?;
        match other_length {
            Some(length) if taken == 0 => Err(Failure::Bad {
                argument: "row_length",
                problem: format!(
                    "is {row_length}, and the next message has {length} bytes: receive it alone, \
                     or with rows of that length"
                )
                .into(),
            }),
            _ => Ok(()),
        }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// Refuses arrays that no memory can be.
fn check_array(
    array: *mut c_void,
    row_length: usize,
    rows: usize,
    details: *mut Detail,
) -> Result<(), Failure> {
    if array.is_null() && rows > 0 {
        return Err(Failure::Null { argument: "array" });
    }
    let most = isize::MAX as usize;
    if row_length == 0
        || row_length
            .checked_mul(rows)
            .is_none_or(|bytes| bytes > most)
    {
        return Err(Failure::Bad {
            argument: "row_length",
            problem: format!(
                "is {row_length}, for {rows} rows: pass the bytes of one row, at least 1"
            )
            .into(),
        });
    }
    let is_long = rows > most / size_of::<Detail>();
    if !details.is_null() && (!details.is_aligned() || is_long) {
        return Err(Failure::Bad {
            argument: "details",
            problem: format!(
                "cannot be {rows} elements at {details:p}: pass their address and number"
            )
            .into(),
        });
    }
    Ok(())
}

/// Receives within a time.
///
/// # Safety
///
/// As for the functions that call it.
unsafe fn receive(
    subscriber: *mut Subscriber,
    timeout: Option<Duration>,
    message: *mut Message,
) -> Status {
    let call = || {
        // Looked at before a message is taken.
        // SAFETY: the contract is the same.
        unsafe { fill("message", message, Message::NONE) }?;
        // SAFETY: the contract is the same.
        let received = unsafe {
            with(subscriber, |subscriber| {
                let received = match timeout {
                    None => Some(subscriber.receive()?),
                    Some(Duration::ZERO) => subscriber.try_receive()?,
                    Some(timeout) => subscriber.receive_timeout(timeout)?,
                };
                match received.as_ref().map(Message::of) {
                    Some(received) => Ok(received),
                    None if timeout == Some(Duration::ZERO) => Err(Failure::TimedOut { why: None }),
                    None => Err(Failure::timed_out(subscriber.link_status())),
                }
            })
        }?;
        // SAFETY: the contract is the same.
        unsafe { fill("message", message, received) }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// The next message, if there is one: `*message` is a view of the ring, nothing is copied. Never
/// sleeps.
///
/// It lives until the next call with this subscriber that receives, polls, waits, releases or
/// closes, and holds its place in the ring so long.
///
/// `TIMED_OUT` if there is none: its time-out is 0. Families 1 and 5; `END_OF_STREAM` once every
/// publisher has closed and everything was read: calls look for that at the fourth in a row that
/// finds nothing, `olivine_subscriber_receive` at once.
///
/// # Safety
///
/// `subscriber` is open; `message` begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_try_receive(
    subscriber: *mut Subscriber,
    message: *mut Message,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { receive(subscriber, Some(Duration::ZERO), message) }
}

/// As `olivine_subscriber_try_receive`, but waits for a message by the subscriber's wait strategy,
/// as long as it takes.
///
/// # Safety
///
/// As for `olivine_subscriber_try_receive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_receive(
    subscriber: *mut Subscriber,
    message: *mut Message,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { receive(subscriber, None, message) }
}

/// As `olivine_subscriber_receive`, but gives up after `timeout_ms` milliseconds; negative is as
/// long as it takes.
/// `TIMED_OUT` when they are over.
///
/// # Safety
///
/// As for `olivine_subscriber_try_receive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_receive_timeout(
    subscriber: *mut Subscriber,
    timeout_ms: i64,
    message: *mut Message,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { receive(subscriber, timeout(timeout_ms), message) }
}

/// Waits until a poll would find something (a message, or the end of the stream). `timeout_ms` as
/// for `olivine_subscriber_receive_timeout`; `TIMED_OUT` when it is over. Families 1 and 5.
///
/// # Safety
///
/// `subscriber` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_wait(
    subscriber: *mut Subscriber,
    timeout_ms: i64,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        unsafe {
            with(subscriber, |subscriber| {
                if subscriber.wait(timeout(timeout_ms).unwrap_or(Duration::MAX))? {
                    return Ok(());
                }
                Err(Failure::timed_out(subscriber.link_status()))
            })
        }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// Ends the life of the message received last, and gives the room of everything read back to the
/// publishers now, rather than in steps of an eighth of the ring. Never waits.
///
/// # Safety
///
/// `subscriber` is open. The message received last is not looked at any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_release(subscriber: *mut Subscriber) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        unsafe {
            with(subscriber, |subscriber| {
                // Consumes what was handed out, and hands out nothing.
                subscriber.poll(|_| (), 0)?;
                subscriber.release();
                Ok(())
            })
        }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// `*position` is how many bytes of frames were read, over all lanes; with one publisher, where it
/// was then. Never waits.
///
/// # Safety
///
/// `subscriber` is open; `position` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_position(
    subscriber: *const Subscriber,
    position: *mut u64,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe {
        number(subscriber, "position", position, |subscriber| {
            subscriber.position().0
        })
    }
}

/// `*lag` is how many bytes of frames are published and not read, over all lanes seen at the last
/// call that received. Never waits.
///
/// # Safety
///
/// `subscriber` is open; `lag` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_lag(
    subscriber: *const Subscriber,
    lag: *mut u64,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { number(subscriber, "lag", lag, |subscriber| subscriber.lag()) }
}

/// `*lost_bytes` is how many bytes of frames this subscriber missed: by overruns and evictions, or
/// while its durable name had lost its place; 0 for a reliable subscriber that kept its place.
/// Never waits.
///
/// # Safety
///
/// `subscriber` is open; `lost_bytes` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_lost_bytes(
    subscriber: *const Subscriber,
    lost_bytes: *mut u64,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe {
        number(subscriber, "lost_bytes", lost_bytes, |subscriber| {
            subscriber.lost_bytes()
        })
    }
}

/// What a durable subscriber found of its name when it was opened. Later versions may add values.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durable {
    /// The subscriber has no name.
    None = 0,
    /// The channel did not know the name: it starts where `from=` says.
    Created = 1,
    /// It goes on where the name was. Nothing was missed.
    Resumed = 2,
    /// The place of the name was taken, because it was in the way of a publisher that had no room
    /// for longer than `slow=evict:` allows, or was absent for longer than `expire=`. It goes on
    /// with the oldest message that is still there; `olivine_subscriber_lost_bytes` says how much
    /// it missed, and the first call that receives answers `EVICTED` once, unless the subscriber
    /// that lost the place got this report before it left.
    LostPlace = 3,
}

impl From<Option<RustDurable>> for Durable {
    fn from(found: Option<RustDurable>) -> Self {
        match found {
            None => Self::None,
            Some(RustDurable::Created) => Self::Created,
            Some(RustDurable::LostPlace { .. }) => Self::LostPlace,
            Some(_) => Self::Resumed,
        }
    }
}

/// `*durable` is what a subscriber with a name (`name=`) found of it when it was opened: `NONE`
/// without a name. Never waits.
///
/// # Safety
///
/// `subscriber` is open; `durable` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_durable(
    subscriber: *const Subscriber,
    durable: *mut Durable,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let to = unsafe { place("durable", durable) }?;
        // SAFETY: the contract is the same.
        *to = unsafe { look(subscriber, |subscriber| subscriber.durable().into()) }?;
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// `*is_unlinked` is 1 if the channel's files were removed from their folder while it was open (by
/// `rm`, by `olivine rm --force`, or by systemd-logind at the last logout of their user), else 0.
///
/// Those who have the channel open go on with each other. A program that opens its name now gets
/// a new channel: close this subscriber and open it again to join it. Makes one system call.
///
/// # Safety
///
/// `subscriber` is open; `is_unlinked` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_check_unlinked(
    subscriber: *const Subscriber,
    is_unlinked: *mut c_int,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let to = unsafe { place("is_unlinked", is_unlinked) }?;
        // SAFETY: the contract is the same.
        *to = unsafe { look(subscriber, |subscriber| subscriber.check_unlinked().into()) }?;
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// Runs one call that looks at the subscriber. Refused in a forked child, as each call that
/// receives.
///
/// # Safety
///
/// As for [`with`].
pub(crate) unsafe fn look<R>(
    subscriber: *const Subscriber,
    call: impl FnOnce(&RustSubscriber) -> R,
) -> Result<R, Failure> {
    // SAFETY: the contract is the same.
    unsafe {
        with(subscriber, |subscriber| {
            of_this_process(subscriber)?;
            Ok(call(subscriber))
        })
    }
}

/// Refuses a forked child.
fn of_this_process(subscriber: &RustSubscriber) -> Result<(), Failure> {
    match subscriber.is_forked() {
        true => Err(ReceiveError::Forked.into()),
        false => Ok(()),
    }
}

/// A number of a subscriber, to look at.
///
/// # Safety
///
/// `subscriber` is open or NULL; `to` may be written or is NULL.
unsafe fn number(
    subscriber: *const Subscriber,
    argument: &'static str,
    to: *mut u64,
    read: impl FnOnce(&RustSubscriber) -> u64,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let to = unsafe { place(argument, to) }?;
        // SAFETY: the contract is the same.
        *to = unsafe { look(subscriber, read) }?;
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// `*descriptor` becomes readable when there is a message or the end of the stream, and at times
/// without either: for `poll`, `epoll` (also edge-triggered) and event loops. It belongs to the
/// subscriber: neither read nor close it.
///
/// Each time, read until a poll consumes nothing, `olivine_subscriber_try_receive` answers
/// `TIMED_OUT`, or the stream has ended: that arms it again. Call no function that waits besides.
/// The first call starts a thread that parks on behalf of the loop. `SYSTEM` if there is no
/// descriptor or thread left.
///
/// # Safety
///
/// `subscriber` is open; `descriptor` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_event_fd(
    subscriber: *mut Subscriber,
    descriptor: *mut c_int,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let to = unsafe { place("descriptor", descriptor) }?;
        // SAFETY: the contract is the same.
        *to = unsafe {
            with(subscriber, |subscriber| {
                of_this_process(subscriber)?;
                let descriptor = subscriber.event_fd().map_err(|source| Failure::System {
                    action: "make a descriptor for event loops",
                    source,
                })?;
                Ok(descriptor.as_raw_fd())
            })
        }?;
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(subscriber, call) }
}

/// Leaves the channel and gives the handle back, whatever it answers, except on
/// `NULL_ARGUMENT`, `BAD_ARGUMENT` and `IN_USE`: after `PANICKED`, too, the handle must not be used
/// again. `OK` in a forked child, which lets go of its copy: its parent's subscriber goes on.
/// A durable subscriber (`name=`) keeps its place, behind the message received last: closing says
/// that it was dealt with, as the next call that receives, polls, waits or releases does. A message
/// that a handler stopped at was not, and comes again. Closed behind `END_OF_STREAM`, the name has
/// read that stream: opened again, it waits for the next publisher.
///
/// # Safety
///
/// `subscriber` is open, and neither it nor a message of it is used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_close(subscriber: *mut Subscriber) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        unsafe { take(subscriber) }?.close();
        Ok(())
    })
}

/// As `olivine_subscriber_close`, but a durable subscriber keeps its place before the message
/// received last: it was not dealt with, and comes again, first, to the next subscriber of that
/// name. For leaving because of an error; a process that dies leaves the channel in the same way.
///
/// # Safety
///
/// As for `olivine_subscriber_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_drop(subscriber: *mut Subscriber) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        drop(unsafe { take(subscriber) }?);
        Ok(())
    })
}

/// As `olivine_subscriber_close`, and forgets a durable name: publishers no longer wait for it.
/// `RECEIVE_FORKED` in a forked child, whose parent keeps the name.
///
/// # Safety
///
/// As for `olivine_subscriber_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_subscriber_unsubscribe(subscriber: *mut Subscriber) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        let subscriber = unsafe { take(subscriber) }?;
        let ours = of_this_process(&subscriber);
        subscriber.unsubscribe();
        ours
    })
}
