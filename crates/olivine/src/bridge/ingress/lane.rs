//! A lane of the source, and the frames that it takes.

use super::NotTaken;
use crate::channel::publisher::Publisher;
use crate::channel::raw::Origin;
use crate::error::NotSent;
use crate::region::HEADER_BYTES;
use crate::ring::layout::frame_bytes;

#[derive(Debug)]
pub(super) struct Lane {
    /// Index at the source.
    pub(super) index: u32,
    /// `None` while the lane is closed at the source.
    pub(super) publisher: Option<Publisher>,
    pub(super) origin: Origin,
    /// Position here after the last committed frame; kept while the publisher is `None`.
    pub(super) position: u64,
    /// A partly received message.
    pub(super) partial: Option<Partial>,
    /// Payload bytes of a message that has no room at the source.
    pub(super) wanted: Option<usize>,
    /// `Some` if the lane was opened here only because it is reserved, and the source has not
    /// announced it since: whether the bridge before this one left it without an end.
    pub(super) kept: Option<bool>,
    /// It is closed, because its publisher at the source failed.
    pub(super) is_failed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    header: u64,
    /// Bytes of the frame that have arrived, its header included.
    pub(super) come: u64,
}

impl Lane {
    /// An open lane.
    pub(super) fn of(index: u32, publisher: Publisher) -> Self {
        Self {
            index,
            origin: publisher.origin(),
            position: publisher.cursor().0,
            publisher: Some(publisher),
            partial: None,
            wanted: None,
            kept: None,
            is_failed: false,
        }
    }

    /// A lane that is closed with a failure of the source.
    pub(super) fn failed(index: u32, position: u64, origin: Origin) -> Self {
        Self {
            index,
            publisher: None,
            origin,
            position,
            partial: None,
            wanted: None,
            kept: None,
            is_failed: true,
        }
    }

    /// Closes it if it is open. A lane that had ended before this bridge gets its old end back.
    pub(super) fn close_as_found(&mut self) {
        match self.publisher.take() {
            Some(publisher) if self.kept == Some(false) => publisher.close_unused(),
            _ => {}
        }
    }

    /// Whether it is open here without an end. Lanes that had ended before this bridge are open,
    /// too.
    pub(super) fn is_unfinished(&self) -> bool {
        self.publisher.is_some() && self.kept != Some(false)
    }

    /// A position of ours in positions of the source.
    pub(super) fn there(&self, here: u64) -> u64 {
        here.wrapping_add(self.origin.shift)
    }

    pub(super) fn take(&mut self, mut bytes: &[u8], messages: &mut u64) -> Result<(), NotTaken> {
        let Some(publisher) = &mut self.publisher else {
            return Err(NotTaken::wrong(format!(
                "bytes for lane {}, which is closed",
                self.index
            )));
        };
        let align = publisher.attached().geometry.align;
        let frame_max = publisher.message_max() as u64 + HEADER_BYTES;
        let all = bytes.len();
        let wrong = |header: u64| {
            let length = frame_bytes(header);
            NotTaken::wrong(format!(
                "a frame of {length} bytes, where 8 to {frame_max} are possible"
            ))
        };
        // First the rest of a partly received message.
        if let Some(partial) = &mut self.partial {
            let frame = frame_bytes(partial.header);
            let padded = frame.next_multiple_of(align);
            let part = usize_of((padded - partial.come).min(bytes.len() as u64));
            let payload = usize_of((frame.saturating_sub(partial.come)).min(part as u64));
            let length = usize_of(frame - HEADER_BYTES);
            let at = usize_of((partial.come - HEADER_BYTES).min(length as u64));
            let end = publisher
                .write_part(length, at, &bytes[..payload])
                .map_err(|why| refused(why, 0))?;
            partial.come += part as u64;
            bytes = &bytes[part..];
            if partial.come < padded {
                return Ok(());
            }
            publisher.publish_parts(end, partial.header);
            self.position = publisher.cursor().0;
            self.partial = None;
            *messages += 1;
        }
        // Then whole messages, unchanged, as many at once as have room.
        let mut rest = bytes;
        let mut outcome = Ok(());
        while let Some((header, _)) = rest.split_first_chunk::<8>() {
            let header = u64::from_le_bytes(*header);
            let Some(padded) = padded_frame(header, align, frame_max) else {
                outcome = Err(wrong(header));
                break;
            };
            if padded > rest.len() as u64 {
                break;
            }
            // Reads the gate if necessary; the code below uses the result.
            if let Err(why) = publisher.ask_room(usize_of(frame_bytes(header) - HEADER_BYTES)) {
                outcome = Err(refused(why, all - rest.len()));
                break;
            }
            let most = publisher.room_left().min(rest.len() as u64);
            let (run, count) = whole_frames(rest, align, frame_max, most);
            if run == 0 {
                // The bytes are another process's memory and changed in the meantime.
                outcome = Err(wrong(header));
                break;
            }
            let (frames, behind) = rest.split_at(run);
            publisher.publish_frames(frames);
            *messages += count;
            rest = behind;
        }
        self.position = publisher.cursor().0;
        outcome?;
        // Last the first part of the next message.
        if let Some((header, part)) = rest.split_first_chunk::<8>() {
            let header = u64::from_le_bytes(*header);
            let frame = frame_bytes(header);
            let length = usize_of(frame - HEADER_BYTES);
            let payload = part.len().min(length);
            let taken = all - rest.len();
            let _end = publisher
                .write_part(length, 0, &part[..payload])
                .map_err(|why| refused(why, taken))?;
            let come = rest.len() as u64;
            self.partial = Some(Partial { header, come });
        }
        Ok(())
    }
}

/// Bytes of the frame with this `header`, padding included; `None` if no message here has this
/// length.
#[inline]
fn padded_frame(header: u64, align: u64, frame_max: u64) -> Option<u64> {
    let frame = frame_bytes(header);
    (HEADER_BYTES..=frame_max)
        .contains(&frame)
        .then(|| frame.next_multiple_of(align))
}

/// Bytes and number of the whole frames at the start of `bytes`, at most `most` bytes. Stops before
/// a frame of an invalid length.
fn whole_frames(bytes: &[u8], align: u64, frame_max: u64, most: u64) -> (usize, u64) {
    let (mut end, mut count) = (0, 0);
    while let Some(header) = bytes.get(end..).and_then(|rest| rest.first_chunk::<8>()) {
        let header = u64::from_le_bytes(*header);
        let Some(padded) = padded_frame(header, align, frame_max) else {
            break;
        };
        if end as u64 + padded > most {
            break;
        }
        end += usize_of(padded);
        count += 1;
    }
    (end, count)
}

/// Converts the answer of a lane's publisher after `taken` bytes.
fn refused(why: NotSent, taken: usize) -> NotTaken {
    match why {
        NotSent::BackPressured | NotSent::NotConnected => NotTaken::NoRoom { taken },
        NotSent::TooLong { max } => NotTaken::wrong(format!(
            "a message longer than the {max} bytes that this ring takes"
        )),
        _ => NotTaken::Closed,
    }
}

/// A number of bytes that one of our rings holds.
fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
