//! Standard input as messages. Ctrl-C ends a wait for input.

use super::Sender;
use crate::args::{InputForm, PubArgs};
use crate::failure::{Failure, Outcome};
use crate::framing::{Split, Splitter};
use crate::stop::LOOK;
use crate::typed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Default size of the largest raw chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// Sends standard input to its end, or until the count, the time or a signal ends it.
pub(super) fn send(sender: &mut Sender, form: InputForm, args: &PubArgs) -> Outcome {
    let mut message_max = sender.publisher.message_max();
    if form == InputForm::Raw {
        message_max = chunk_bytes(sender, args)?;
    }
    let splitter = Splitter {
        form,
        tag: args.tag(),
        message_max,
    };
    let mut input = Input {
        held: vec![0; READ_BYTES],
        start: 0,
        end: 0,
        ended: false,
    };
    // Bytes of an unfinished line that contain no newline.
    let mut scanned = 0;
    let by_lines = matches!(form, InputForm::Lines | InputForm::Json);
    let (mut lines, mut value) = (0_u64, Vec::new());
    loop {
        match splitter.next(input.bytes(), scanned, input.ended) {
            Split::Message { tag, payload, used } => {
                lines += 1;
                let is_sent = match (&args.stated, form) {
                    (_, InputForm::Json) if payload.trim_ascii().is_empty() => true,
                    (Some(stated), InputForm::Json) => {
                        typed::encode(stated, payload, &mut value)
                            .map_err(|why| Failure::failed(format!("line {lines}: {why}")))?;
                        sender.send(args.tag(), &value)?
                    }
                    _ => sender.send(tag, payload)?,
                };
                if !is_sent {
                    return Ok(());
                }
                input.start += used;
                scanned = 0;
            }
            Split::More if input.ended => return Ok(()),
            Split::More => {
                scanned = if by_lines { input.bytes().len() } else { 0 };
                if !input.read(sender)? {
                    return Ok(());
                }
            }
            Split::TooLong { bytes } => {
                let seen = if by_lines && !input.ended {
                    "or more "
                } else {
                    ""
                };
                return Err(Failure::failed(format!(
                    "{} {} of {bytes} bytes {seen}is too long: this channel takes up to \
                     {message_max} bytes; {}, or --stdin raw",
                    if by_lines { "line" } else { "frame" },
                    sender.totals.messages + 1,
                    super::remedy_of_length(bytes, sender.publisher.capacity()),
                )));
            }
            Split::Torn { missing } => {
                return Err(Failure::failed(format!(
                    "standard input ends within frame {}: {missing} bytes are missing",
                    sender.totals.messages + 1,
                )));
            }
        }
    }
}

/// The largest raw chunk: as given, or a good part of a small ring.
fn chunk_bytes(sender: &Sender, args: &PubArgs) -> Outcome<usize> {
    let message_max = sender.publisher.message_max();
    match args.size.as_slice() {
        [] => Ok(CHUNK_BYTES.min(message_max / 4).max(1)),
        [size] => match usize::try_from(*size)
            .ok()
            .filter(|size| *size <= message_max)
        {
            Some(size) => Ok(size),
            None => Err(sender.too_long(*size, message_max)),
        },
        _ => Err(Failure::usage(
            "--stdin raw takes one --size, the largest chunk",
        )),
    }
}

/// Bytes of standard input that are not sent yet.
struct Input {
    held: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        &self.held[self.start..self.end]
    }

    /// Waits for more bytes or the end; false if asked to stop.
    fn read(&mut self, sender: &mut Sender) -> Outcome<bool> {
        self.make_room();
        let stdin = io::stdin();
        loop {
            if !sender.look()? {
                return Ok(false);
            }
            let limit = Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(LOOK.subsec_nanos()),
            };
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&limit)) {
                // A signal: check whether it asks to stop.
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(unreadable(error)),
            }
            match rustix::io::read(&stdin, &mut self.held[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(true);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
    }

    /// Moves the held bytes to the front, and grows if a message fills all of it.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.held.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.held.len() - self.end < READ_BYTES / 2 {
            self.held.resize(self.held.len() * 2, 0);
        }
    }
}

fn unreadable(error: Errno) -> Failure {
    Failure::Failed(
        anyhow::Error::new(io::Error::from(error)).context("cannot read standard input"),
    )
}
