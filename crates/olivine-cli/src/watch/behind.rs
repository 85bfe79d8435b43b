//! How far a subscriber is behind: bytes, messages and the age of the oldest one.

use super::tracker::float;
use std::collections::VecDeque;

/// How far a subscriber is behind, over all lanes.
#[derive(Debug, Default)]
pub(super) struct Behind {
    pub(super) bytes: u64,
    messages: f64,
    /// A lane with bytes behind has no known frame size.
    unknown: bool,
    /// And whether it is a minimum.
    pub(super) age: Option<(u64, bool)>,
}

impl Behind {
    /// Adds a lane whose cursor and position these are, with its mean frame and where its cursor
    /// was when.
    pub(super) fn add(
        &mut self,
        frame_bytes: Option<f64>,
        cursors: &VecDeque<(u64, u64)>,
        at_ns: u64,
        (cursor, position): (u64, u64),
    ) {
        let bytes = cursor.saturating_sub(position);
        if bytes == 0 {
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        match frame_bytes {
            Some(frame) => self.messages += float(bytes) / frame,
            None => self.unknown = true,
        }
        self.age = self.age.max(age(cursors, at_ns, position));
    }

    /// What holds a publisher back is at least as old as the hold.
    pub(super) fn held(&mut self, for_ns: u64) {
        if for_ns > 0 {
            self.age = self.age.max(Some((for_ns, true)));
        }
    }

    /// Estimated messages behind; `None` if a frame's size is not known.
    pub(super) fn messages(&self) -> Option<f64> {
        (self.bytes > 0 && !self.unknown).then_some(self.messages)
    }
}

/// How long ago the cursor left `position`, between two looks in proportion; `true` if it was
/// before the first look.
fn age(cursors: &VecDeque<(u64, u64)>, at_ns: u64, position: u64) -> Option<(u64, bool)> {
    let passed = cursors.partition_point(|(_, cursor)| *cursor <= position);
    let (late_ns, late) = *cursors.get(passed)?;
    let Some(before) = passed.checked_sub(1).and_then(|at| cursors.get(at)) else {
        let ns = at_ns.saturating_sub(late_ns);
        return (ns > 0).then_some((ns, true));
    };
    let moved = late.saturating_sub(before.1).max(1);
    let part = float(position.saturating_sub(before.1)) / float(moved);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two times"
    )]
    let after = (part * float(late_ns.saturating_sub(before.0))) as u64;
    Some((at_ns.saturating_sub(before.0.saturating_add(after)), false))
}
