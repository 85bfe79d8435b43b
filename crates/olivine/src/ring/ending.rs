//! How a lane ends: closed by its publisher, or closed with a reason because its source failed.
//!
//! The reason is stored in the lane's header page, before the state word says "closed" (**END**).
//! It contains the state that it belongs to. The next publisher of the lane has another state, so
//! nothing is cleared.

use super::layout::{checksum, lane, pack, unpack};
use super::publish::add_to_counter;
use crate::clock::monotonic_ns;
use crate::region::Words;
use crate::sync::{Ordering, mutant, unless};

/// Replaces a reason that was overwritten.
const UNREADABLE: &str =
    "its reason cannot be read: start the bridge again, and look at what it says";
/// Replaces a reason without a word.
const NO_REASON: &str = "no reason was given";
/// Longest reason in bytes.
pub(crate) const TEXT_MAX: usize = lane::FAILURE_TEXT_WORDS * 8;

/// The newest failure of a lane's source, from the lane's header page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The state word of the lane that was closed with it.
    pub(crate) state: u64,
    /// End of the last frame before it.
    pub(crate) position: u64,
    /// Why.
    pub(crate) reason: String,
}

/// Closes a lane whose last frame ends at `position`, with the reason `failure` if there is one.
/// The caller holds its lock.
pub(crate) fn close(words: &Words, position: u64, failure: Option<&str>) {
    if failure.is_some() {
        count_failure(words);
    }
    // Relaxed: only the lock's holder writes it.
    let closed = words.word(lane::STATE).load(Ordering::Relaxed) & !1;
    close_as(words, closed, position, failure);
}

/// Closes a lane in which nothing was sent since its last opening, which found it closed: its state
/// is that of before, and its last end no new one. A failed one is closed as a new end: subscribers
/// that joined meanwhile would get that failure. The caller holds its lock.
pub(crate) fn close_unused(words: &Words) {
    // Relaxed: only the lock's holder writes it. Opening a closed lane adds three.
    let before = words
        .word(lane::STATE)
        .load(Ordering::Relaxed)
        .wrapping_sub(3);
    if failed_state(words) == before {
        return close(words, 0, None);
    }
    close_as(words, before & !1, 0, None);
}

/// [`close`] with a given state word, for models. loom does not explore every order of a load and a
/// store of two threads if the storing thread has loaded the word just before.
pub(super) fn close_as(words: &Words, closed: u64, position: u64, failure: Option<&str>) {
    if let Some(reason) = failure {
        write(words, closed, position, reason);
    }
    // END (release): a thread that sees the lane closed sees every frame and the failure.
    words.word(lane::STATE).store(
        closed,
        unless(mutant("end_state_relaxed"), Ordering::Release),
    );
}

/// Counts a failure and stores its time. The caller holds the lane's lock.
fn count_failure(words: &Words) {
    let now = monotonic_ns();
    // Relaxed, all of it: for display, and released by END.
    if words.word(lane::FAILURE_COUNT).load(Ordering::Relaxed) == 0 {
        words
            .word(lane::FAILURE_FIRST)
            .store(now, Ordering::Relaxed);
    }
    words.word(lane::FAILURE_LAST).store(now, Ordering::Relaxed);
    add_to_counter(words, lane::FAILURE_COUNT, 1);
}

fn write(words: &Words, closed: u64, position: u64, reason: &str) {
    let text = kept(reason);
    let mut packed = [0; lane::FAILURE_TEXT_WORDS];
    pack(text.as_bytes(), &mut packed);
    for (n, word) in packed.iter().enumerate() {
        // Relaxed, as below: released by END, and checked by the reader.
        words
            .word(lane::FAILURE_TEXT + n)
            .store(*word, Ordering::Relaxed);
    }
    words
        .word(lane::FAILURE_LENGTH)
        .store(text.len() as u64, Ordering::Relaxed);
    words
        .word(lane::FAILURE_CHECK)
        .store(checksum(&packed), Ordering::Relaxed);
    words
        .word(lane::FAILURE_POSITION)
        .store(position, Ordering::Relaxed);
    // END (release): a thread that sees this state sees the whole failure, also after a reopening.
    words
        .word(lane::FAILURE_STATE)
        .store(closed, Ordering::Release);
}

/// The state word of the lane when it was closed with a failure last; 0 if it never was.
#[inline]
pub(crate) fn failed_state(words: &Words) -> u64 {
    // END (acquire).
    words.word(lane::FAILURE_STATE).load(Ordering::Acquire)
}

/// End of the last frame before the newest failure.
pub(crate) fn failed_position(words: &Words) -> u64 {
    // Relaxed: before END, by which the failure was found.
    words.word(lane::FAILURE_POSITION).load(Ordering::Relaxed)
}

/// The lane's state word: even after its publisher has closed it.
#[inline]
pub(crate) fn state(words: &Words) -> u64 {
    // END (acquire): if it is closed, every frame and its failure are visible.
    let look = unless(mutant("end_look_relaxed"), Ordering::Acquire);
    words.word(lane::STATE).load(look)
}

/// Whether the lane is closed with a failure now.
pub(crate) fn is_failed(words: &Words) -> bool {
    has_failed_as(words, state(words))
}

/// Whether the lane was closed with a failure when its state word was `state`. `false` also if a
/// later publisher of the lane has failed since.
pub(crate) fn has_failed_as(words: &Words, state: u64) -> bool {
    state & 1 == 0 && state != 0 && failed_state(words) == state
}

/// The newest failure.
pub(crate) fn failure(words: &Words) -> Option<Failure> {
    let state = failed_state(words);
    if state == 0 {
        return None;
    }
    // Relaxed, all of it: before END. The check finds a mixture with a newer failure.
    let word = |at: usize| words.word(at).load(Ordering::Relaxed);
    let mut packed = [0; lane::FAILURE_TEXT_WORDS];
    for (n, part) in packed.iter_mut().enumerate() {
        *part = word(lane::FAILURE_TEXT + n);
    }
    let whole = word(lane::FAILURE_CHECK) == checksum(&packed);
    let text = unpack(&packed, word(lane::FAILURE_LENGTH)).filter(|_| whole);
    Some(Failure {
        state,
        position: failed_position(words),
        reason: text.unwrap_or_else(|| UNREADABLE.to_owned()),
    })
}

/// What a lane keeps of a reason: [`printable`], or [`NO_REASON`] if that is blank.
pub(crate) fn kept(reason: &str) -> String {
    let text = printable(reason);
    match text.trim() {
        "" => NO_REASON.to_owned(),
        _ => text,
    }
}

/// The beginning of a reason that fits, in one line.
pub(crate) fn printable(reason: &str) -> String {
    let mut text = String::new();
    for c in reason.chars() {
        let c = if c.is_control() { ' ' } else { c };
        if text.len() + c.len_utf8() > TEXT_MAX {
            break;
        }
        text.push(c);
    }
    text
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::region::Memory;

    fn header() -> Words {
        let words = Words::new(&Memory::heap(lane::WORDS * 8), 0, lane::WORDS);
        words.word(lane::STATE).store(3, Ordering::Relaxed);
        words
    }

    #[test]
    fn closed_lane_has_no_failure_and_failed_lane_has_reason() {
        let words = header();
        close(&words, 64, None);
        assert_eq!((is_failed(&words), failure(&words)), (false, None));
        words.word(lane::STATE).store(5, Ordering::Relaxed);
        close(&words, 128, Some("the disk\nis gone"));
        assert!(is_failed(&words));
        let found = failure(&words).unwrap();
        assert_eq!((found.state, found.position), (4, 128));
        assert_eq!(found.reason, "the disk is gone");
        // The next publisher: the lane is open, the failure stays readable.
        words.word(lane::STATE).store(7, Ordering::Relaxed);
        assert!(!is_failed(&words));
        assert_eq!(failure(&words).unwrap().state, 4);
        close(&words, 256, None);
        assert!(!is_failed(&words), "it closed in order");
    }

    #[test]
    fn blank_reason_says_that_there_is_none() {
        let words = header();
        for blank in ["", " \n\0"] {
            close(&words, 0, Some(blank));
            assert_eq!(failure(&words).unwrap().reason, NO_REASON);
        }
    }

    #[test]
    fn reason_of_any_length_fits_and_damaged_reason_is_replaced() {
        let words = header();
        let long = "ä".repeat(400);
        close(&words, 0, Some(&long));
        let reason = failure(&words).unwrap().reason;
        assert_eq!(reason.len(), TEXT_MAX);
        assert!(long.starts_with(&reason));
        for at in [
            lane::FAILURE_TEXT,
            lane::FAILURE_TEXT + lane::FAILURE_TEXT_WORDS - 1,
            lane::FAILURE_CHECK,
            lane::FAILURE_LENGTH,
        ] {
            let before = words.word(at).load(Ordering::Relaxed);
            words.word(at).store(!before, Ordering::Relaxed);
            let reason = failure(&words).unwrap().reason;
            assert_eq!(reason, UNREADABLE, "word {at}");
            words.word(at).store(before, Ordering::Relaxed);
        }
    }
}
