//! The sending end.

use crate::argument::{config, fill, give, message_type, place, text, timeout};
use crate::batch::publish_batch;
use crate::failure::{Failure, guard};
use crate::handle::{self, Handle, Opaque, guard_of, take, with};
use crate::message::{self, publish, send};
use crate::sending::{NOT_AT_ALL, Sending};
use crate::status::Status;
use crate::structs::{Claim, Label, Part, PublisherStats, Setting, Type};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null;
use olivine::{NotSent, Publisher as RustPublisher};

/// Sends messages into a channel.
#[derive(Debug)]
pub struct Publisher(Handle<Sending>);

impl Opaque for Publisher {
    type Value = Sending;
    const WHAT: &'static str = "publisher";

    fn new(handle: Handle<Sending>) -> Self {
        Self(handle)
    }

    fn handle(&self) -> &Handle<Sending> {
        &self.0
    }

    fn into_handle(self) -> Handle<Sending> {
        self.0
    }

    fn forked(end: &Sending) -> Option<Failure> {
        end.look().is_forked().then(|| NotSent::Forked.into())
    }
}

/// Runs one call that looks at the publisher. Refused in a forked child, as each call that sends.
///
/// # Safety
///
/// As for [`with`].
pub(crate) unsafe fn look<R>(
    publisher: *const Publisher,
    call: impl FnOnce(&RustPublisher) -> R,
) -> Result<R, Failure> {
    // SAFETY: the contract is the same.
    unsafe {
        with(publisher, |end| match Publisher::forked(end) {
            Some(forked) => Err(forked),
            None => Ok(call(end.look())),
        })
    }
}

/// Writes what a call that looks at the publisher answers.
///
/// # Safety
///
/// As for [`look`]; `to` may be written.
unsafe fn tell<R>(
    publisher: *const Publisher,
    argument: &'static str,
    to: *mut R,
    read: impl FnOnce(&RustPublisher) -> R,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let to = unsafe { place(argument, to) }?;
        // SAFETY: the contract is the same.
        *to = unsafe { look(publisher, read) }?;
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// Opens the channel that `uri` names as a publisher, and creates it if necessary. `*publisher` is
/// the new handle; close it with `olivine_publisher_close`. On failure it is unchanged, and nothing
/// stays behind.
///
/// `uri`: `scheme://[host:port/]channel[?key=value&...]`, such as `shm://ticks?capacity=4MiB`;
/// UTF-8.
///
/// Blocks while another participant opens or closes the same channel: milliseconds. If that
/// participant is stopped meanwhile, opening fails after 10 seconds. A thread of the handle
/// connects to a far side (`tcp://`, `nats://`, `file://`); this call waits up to a second for its
/// first result. A subscriber of `shm+fd://` waits up to `timeout` for its publisher, then fails.
///
/// Families 1, 2 and 3.
///
/// # Safety
///
/// `uri` is a text, `publisher` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_open(
    uri: *const c_char,
    publisher: *mut *mut Publisher,
) -> Status {
    // SAFETY: the contract is the same; there are no settings.
    unsafe { olivine_publisher_open_with(uri, null(), 0, publisher) }
}

/// As `olivine_publisher_open`, with `count` settings as if they stood at the end of `uri`. The
/// keys, their values, ranges, units and defaults are those of URIs; a key that the URI has already
/// is refused.
///
/// # Safety
///
/// As for `olivine_publisher_open`; `settings` has `count` elements with texts, or is NULL where
/// that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_open_with(
    uri: *const c_char,
    settings: *const Setting,
    count: usize,
    publisher: *mut *mut Publisher,
) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        let to = unsafe { place("publisher", publisher) }?;
        // SAFETY: the contract is the same.
        let config = unsafe { config(uri, settings, count) }?;
        let opened = RustPublisher::open_with(&config)?;
        *to = handle::give(Sending::new(opened, None));
        Ok(())
    })
}

/// As `olivine_publisher_open_with`, for values of `type`: the channel's type. It refuses a message
/// or a claim of another length than `type->size`: `BAD_ARGUMENT`.
///
/// `BAD_ARGUMENT` for a type that no channel carries; `OPEN_TYPE` if the channel carries another.
/// Over `tcp://`, `nats://` and `file://` the far side or the journal refuses it, perhaps later:
/// then it is `OPEN_LINK`, or `LINK_FAILED` of a later call. The text names the first different
/// field.
///
/// # Safety
///
/// As for `olivine_publisher_open_with`; `type` may be read, its name is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_open_typed(
    uri: *const c_char,
    settings: *const Setting,
    count: usize,
    r#type: *const Type,
    publisher: *mut *mut Publisher,
) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        let to = unsafe { place("publisher", publisher) }?;
        // SAFETY: the contract is the same.
        let stated = unsafe { message_type(r#type) }?;
        // SAFETY: the contract is the same.
        let config = unsafe { config(uri, settings, count) }?;
        let opened = RustPublisher::open_for(&config, &stated)?;
        *to = handle::give(Sending::new(opened, Some(stated.size())));
        Ok(())
    })
}

/// Sends a copy of a message if there is room. Never waits. `*position`, if `position` is not NULL,
/// is where the publisher is then, in bytes of its lane.
///
/// `data` may be NULL if `length` is 0. `label`: the message's tag and topic; NULL where none is
/// wanted.
///
/// `BACK_PRESSURED` and `NOT_CONNECTED` are everyday outcomes: try again later, or publish, which
/// waits. Also `TOO_LONG`, `TOPIC`, `FORKED`, `LINK_FAILED`, and family 1. Nothing was sent then.
///
/// # Safety
///
/// `publisher` is open; `data` has `length` bytes; `label` may be read or is NULL, and so for its
/// topic, a text;
/// `position` may be written or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_try_publish(
    publisher: *mut Publisher,
    data: *const c_void,
    length: usize,
    label: *const Label,
    position: *mut u64,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { publish(publisher, (data, length), label, || NOT_AT_ALL, position) }
}

/// As `olivine_publisher_try_publish`, but waits for room by the channel's wait strategy, as long
/// as it takes.
///
/// # Safety
///
/// As for `olivine_publisher_try_publish`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_publish(
    publisher: *mut Publisher,
    data: *const c_void,
    length: usize,
    label: *const Label,
    position: *mut u64,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { publish(publisher, (data, length), label, || None, position) }
}

/// As `olivine_publisher_publish`, but gives up after `timeout_ms` milliseconds; negative is as
/// long as it takes. When
/// they are over the answer is `BACK_PRESSURED` or `NOT_CONNECTED`.
///
/// # Safety
///
/// As for `olivine_publisher_try_publish`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_publish_timeout(
    publisher: *mut Publisher,
    data: *const c_void,
    length: usize,
    label: *const Label,
    timeout_ms: i64,
    position: *mut u64,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe {
        publish(
            publisher,
            (data, length),
            label,
            || timeout(timeout_ms),
            position,
        )
    }
}

/// Sends copies of `count` messages in one batch, as far as there is room: those of a batch become
/// visible together, at
/// the cost of one. Never waits. `*published`, if `published` is not NULL, is how many were sent,
/// also where not all were.
///
/// Answers as `olivine_publisher_try_publish`, for the first message that was not sent.
///
/// # Safety
///
/// `publisher` is open; `messages` has `count` elements with their bytes and topics, or is NULL
/// where that is 0;
/// `published` may be written or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_try_publish_batch(
    publisher: *mut Publisher,
    messages: *const Part,
    count: usize,
    published: *mut usize,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { publish_batch(publisher, (messages, count), NOT_AT_ALL, published) }
}

/// As `olivine_publisher_try_publish_batch`, in batches as large as there is room for; waits for
/// room by the channel's
/// wait strategy, as long as it takes.
///
/// # Safety
///
/// As for `olivine_publisher_try_publish_batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_publish_batch(
    publisher: *mut Publisher,
    messages: *const Part,
    count: usize,
    published: *mut usize,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { publish_batch(publisher, (messages, count), None, published) }
}

/// As `olivine_publisher_publish_batch`, but gives up after `timeout_ms` milliseconds, for all of
/// them together; negative
/// is as long as it takes.
///
/// # Safety
///
/// As for `olivine_publisher_try_publish_batch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_publish_batch_timeout(
    publisher: *mut Publisher,
    messages: *const Part,
    count: usize,
    timeout_ms: i64,
    published: *mut usize,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { publish_batch(publisher, (messages, count), timeout(timeout_ms), published) }
}

/// Reserves a message of `length` bytes, to be filled in place, if there is room: `claim->data`.
/// Never waits. It is
/// invisible until `olivine_publisher_commit`; `olivine_publisher_abort` gives it up. Until then
/// this publisher sends
/// nothing else. `label` as for `olivine_publisher_try_publish`.
///
/// Answers as `olivine_publisher_try_publish`, and `CLAIM_OPEN` if there is a claim.
///
/// # Safety
///
/// `publisher` is open; `label` is as for `olivine_publisher_try_publish`; `claim` begins with its
/// size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_try_claim(
    publisher: *mut Publisher,
    length: usize,
    label: *const Label,
    claim: *mut Claim,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { message::claim(publisher, length, label, || NOT_AT_ALL, claim) }
}

/// As `olivine_publisher_try_claim`, but waits for room by the channel's wait strategy, as long as
/// it takes.
///
/// # Safety
///
/// As for `olivine_publisher_try_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_claim(
    publisher: *mut Publisher,
    length: usize,
    label: *const Label,
    claim: *mut Claim,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { message::claim(publisher, length, label, || None, claim) }
}

/// As `olivine_publisher_claim`, but gives up after `timeout_ms` milliseconds; negative is as long
/// as it takes.
///
/// # Safety
///
/// As for `olivine_publisher_try_claim`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_claim_timeout(
    publisher: *mut Publisher,
    length: usize,
    label: *const Label,
    timeout_ms: i64,
    claim: *mut Claim,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { message::claim(publisher, length, label, || timeout(timeout_ms), claim) }
}

/// Makes the claimed message visible. Never waits. `*position`, if `position` is not NULL, is where
/// the
/// publisher is then.
///
/// `NO_CLAIM`, `FORKED` (the claim is given up then), and family 1.
///
/// # Safety
///
/// `publisher` is open; `position` may be written or is NULL. The claim's bytes are not written any
/// more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_commit(
    publisher: *mut Publisher,
    position: *mut u64,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let sent = unsafe { send(publisher, |end| end.commit()) }?;
        // SAFETY: the contract is the same.
        unsafe { give(position, sent) };
        Ok(())
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// Gives the claimed message up; no subscriber sees it. Does nothing without a claim. `FORKED` in a
/// forked child, which gives its copy of the claim up.
///
/// # Safety
///
/// `publisher` is open. The claim's bytes are not written any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_abort(publisher: *mut Publisher) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        unsafe {
            with(publisher, |end| {
                end.publisher.abort();
                Publisher::forked(end).map_or(Ok(()), Err)
            })
        }
    })
}

/// Waits until `count` reliable subscribers are attached; `TIMED_OUT` if `timeout_ms` milliseconds
/// (negative: for ever) were not enough. More than `subscribers_max=` never are.
///
/// # Safety
///
/// `publisher` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_wait_for_subscribers(
    publisher: *mut Publisher,
    count: usize,
    timeout_ms: i64,
) -> Status {
    let call = || {
        let timeout = timeout(timeout_ms);
        // SAFETY: the contract is the same.
        unsafe {
            send(publisher, |end| {
                end.reach(|publisher| publisher.wait_for_subscribers(count, timeout))
            })
        }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// Waits until every live reliable subscriber has read and released everything published here;
/// `TIMED_OUT` if `timeout_ms` milliseconds (negative: for ever) were not enough.
///
/// # Safety
///
/// `publisher` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_wait_drained(
    publisher: *mut Publisher,
    timeout_ms: i64,
) -> Status {
    let call = || {
        let timeout = timeout(timeout_ms);
        // SAFETY: the contract is the same.
        unsafe {
            send(publisher, |end| {
                end.reach(|publisher| publisher.wait_drained(timeout))
            })
        }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// `*position` is where the publisher is: bytes of its lane, headers and padding included. Never
/// waits. A publisher elsewhere with `name=` goes on behind the program that had the name before:
/// until it sends, this is the position behind that program's last message. 0 if
/// that one has closed with everything delivered, and its ring is gone (`tcp://`).
///
/// # Safety
///
/// `publisher` is open; `position` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_cursor(
    publisher: *const Publisher,
    position: *mut u64,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe {
        tell(publisher, "position", position, |publisher| {
            publisher.cursor().0
        })
    }
}

/// `*length` is the longest message in bytes, with the topic that the publisher has now. Never
/// waits.
///
/// # Safety
///
/// `publisher` is open; `length` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_message_max(
    publisher: *const Publisher,
    length: *mut usize,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { tell(publisher, "length", length, RustPublisher::message_max) }
}

/// `*count` is how many reliable subscribers are attached now. Never waits.
///
/// # Safety
///
/// `publisher` is open; `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_count_subscribers(
    publisher: *const Publisher,
    count: *mut usize,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe { tell(publisher, "count", count, RustPublisher::count_subscribers) }
}

/// `*is_unlinked` is 1 if the channel's files were removed from their folder while it was open,
/// else 0: as for `olivine_subscriber_check_unlinked`.
///
/// # Safety
///
/// `publisher` is open; `is_unlinked` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_check_unlinked(
    publisher: *const Publisher,
    is_unlinked: *mut c_int,
) -> Status {
    // SAFETY: the contract is the same.
    unsafe {
        tell(publisher, "is_unlinked", is_unlinked, |publisher| {
            publisher.check_unlinked().into()
        })
    }
}

/// Fills `*stats`. Never waits.
///
/// # Safety
///
/// `publisher` is open; `stats` begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_stats(
    publisher: *const Publisher,
    stats: *mut PublisherStats,
) -> Status {
    let call = || {
        // SAFETY: the contract is the same.
        let now = unsafe { look(publisher, |publisher| publisher.stats().into()) }?;
        // SAFETY: the contract is the same.
        unsafe { fill("stats", stats, now) }
    };
    // SAFETY: the contract is the same.
    unsafe { guard_of(publisher, call) }
}

/// Ends the stream and gives the handle back, whatever it answers, except on
/// `NULL_ARGUMENT`, `BAD_ARGUMENT` and `IN_USE`; an open claim is given up. After `PANICKED`, too,
/// the handle must not be used again.
///
/// Waits up to `linger` (default 0: not at all) for reliable subscribers to read everything:
/// `BACK_PRESSURED` if some had not when that was over. Subscribers that are attached lose nothing
/// either way.
///
/// For a channel elsewhere (`tcp://`, `nats://`, `file://`) it waits until the far side has
/// everything. A listening `tcp://` publisher to which no far side has connected does not wait: its
/// messages are gone, and the answer is `OK`. Otherwise the default 0 waits without bound for a far
/// side that is connected; an absent one of `tcp://` or `nats://` is given up after `expire`, or 30
/// s if that is never. `BACK_PRESSURED` if that was over before the far side had everything:
/// `olivine_last_error` says how many messages it has not acknowledged. `LINK_FAILED` if the link
/// failed; `FORKED` in a forked child, whose parent's publisher goes on.
///
/// Over `tcp://` the far side also confirms the end of the stream. If the connection breaks before
/// it does, closing waits for it to come back: twice `timeout` plus 1 s, so 11 s by default, at
/// least 2 s and at most `expire`. A far side that does not answer adds one `timeout`: 16 s in all.
/// Then the end counts as received: `OK`. `linger` bounds all of that.
/// A listening publisher without `name` waits for named subscribers that are away and do not have
/// the end: for their `expire` or its own, whichever is shorter. Its own counts as 30 s if it is
/// never. Then the status is `BACK_PRESSURED`.
///
/// # Safety
///
/// `publisher` is open, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_close(publisher: *mut Publisher) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        unsafe { take(publisher) }?
            .into_publisher()
            .close_described(None)?;
        Ok(())
    })
}

/// As `olivine_publisher_close`, but ends the stream as failed: after the last message subscribers
/// get `RECEIVE_LINK` with `reason` instead of `END_OF_STREAM`.
///
/// `reason` is a text of at most 480 bytes; the rest is cut, and a blank one is replaced by "no
/// reason was given". On `NULL_ARGUMENT`, `BAD_ARGUMENT` and `IN_USE` the handle is unchanged. For
/// a channel elsewhere `OK` says that every far side has confirmed the reason, if there is one: a
/// listener to which none has connected does not wait. The reason is awaited as the end of the
/// stream is, but does not count as received without a confirmation: `BACK_PRESSURED`, whose text
/// calls the reason the end of the stream. A journal keeps the reason. In a forked child the answer
/// is `FORKED` and the handle is given back, also if `reason` is NULL.
///
/// # Safety
///
/// As for `olivine_publisher_close`; `reason` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn olivine_publisher_close_failed(
    publisher: *mut Publisher,
    reason: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: the contract is the same.
        let is_forked = unsafe { with(publisher, |end| Ok(end.look().is_forked())) }?;
        // SAFETY: the contract is the same.
        let reason = match unsafe { text("reason", reason) } {
            // The child's copy goes in any case.
            Err(_) if is_forked => "",
            reason => reason?,
        };
        // SAFETY: the contract is the same.
        let publisher = unsafe { take(publisher) }?.into_publisher();
        publisher.close_described(Some(reason))?;
        Ok(())
    })
}
