//! `olivine tap`: messages of a channel as they pass. It takes no place in the channel, so no
//! publisher waits for it; what is overwritten between two looks is reported as missed.

mod rate;

use crate::admin;
use crate::args::{Common, TapArgs};
use crate::awaited::Awaited;
use crate::failure::{Failure, Outcome};
use crate::framing::{unix_ns, write_tapped};
use crate::stop::Stop;
use crate::terminal;
use olivine::OpenError;
use olivine::admin::{Tap, Tapped, TappedMessage};
use olivine_bench::text;
use rate::Rate;
use serde::Serialize;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::time::{Duration, Instant};

/// Shortest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Runs the command.
pub(crate) fn run(args: &TapArgs, common: Common) -> Outcome {
    if args.interval < INTERVAL_MIN {
        return Err(Failure::usage(format!(
            "--interval {:?} is too short: give {INTERVAL_MIN:?} or more",
            args.interval
        )));
    }
    let config = admin::config(&args.uri, args.dir.as_deref())?;
    let stop = Stop::install()?.with_time_limit(args.duration);
    let mut tap = Tap::new(&config);
    let mut printer = Printer::new(args, common.json);
    let mut awaited = Awaited::default();
    let head_max = if args.hz { 0 } else { args.head.into() };
    loop {
        let next = Instant::now() + args.interval;
        match tap.look(head_max, |seen| printer.take(seen)) {
            Ok(()) => awaited.over(),
            Err(OpenError::Missing { .. }) => awaited.goes_on(|| {
                let channel = config.channel();
                Some(format!("waiting for the channel {channel}").into())
            }),
            Err(error) => return Err(error.into()),
        }
        printer.finish_look()?;
        if printer.left == 0 {
            return Ok(());
        }
        if !stop.wait_until(next) {
            return if args.count.is_some() {
                stop.cut_short()
            } else {
                Ok(())
            };
        }
    }
}

/// Prints what the looks find.
struct Printer {
    json: bool,
    /// Every so many messages are printed.
    sample: u64,
    seen: u64,
    /// Lines still to print.
    left: u64,
    /// Instead of messages.
    rate: Option<Rate>,
    out: BufWriter<StdoutLock<'static>>,
    /// The first write error; nothing is written after it.
    failed: Option<io::Error>,
}

/// Messages that were not seen, as JSON.
#[derive(Serialize)]
struct Gap {
    event: &'static str,
    lane: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
}

impl Printer {
    fn new(args: &TapArgs, json: bool) -> Self {
        Self {
            json,
            sample: args.sample,
            seen: 0,
            left: args.count.unwrap_or(u64::MAX),
            rate: args.hz.then(Rate::new),
            out: BufWriter::new(io::stdout().lock()),
            failed: None,
        }
    }

    fn take(&mut self, seen: Tapped<'_>) {
        if let Some(rate) = &mut self.rate {
            return rate.take(seen);
        }
        if self.left == 0 || self.failed.is_some() {
            return;
        }
        self.failed = match seen {
            Tapped::Message(message) => self.message(&message),
            Tapped::Missed { lane, bytes } => self.gap(
                &Gap {
                    event: "missed",
                    lane,
                    missed_bytes: Some(bytes),
                    position: None,
                },
                &format!("missed {}: overwritten before the look", text::bytes(bytes)),
            ),
            Tapped::Damaged { lane, position } => self.gap(
                &Gap {
                    event: "damaged",
                    lane,
                    missed_bytes: None,
                    position: Some(position),
                },
                &format!(
                    "damaged frame at position {position}: going on behind the newest message"
                ),
            ),
            // Kinds that a later version of the library adds.
            _ => Ok(()),
        }
        .err();
    }

    fn message(&mut self, message: &TappedMessage<'_>) -> io::Result<()> {
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.sample) {
            return Ok(());
        }
        self.left -= 1;
        if self.json {
            return write_tapped(&mut self.out, message);
        }
        let (lane, tag, size) = (message.lane, message.tag, message.payload_bytes);
        let time = time_of_day(unix_ns());
        write!(self.out, "{time}  lane {lane}  tag {tag}  {size} B  ")?;
        let topic = if message.topic.is_empty() {
            b"-"
        } else {
            message.topic
        };
        terminal::write_payload(&mut self.out, topic)?;
        self.out.write_all(b"  ")?;
        terminal::write_payload(&mut self.out, message.head)?;
        let cut = message.head.len() as u64 != size;
        self.out
            .write_all(if cut { "…\n".as_bytes() } else { b"\n" })
    }

    fn gap(&mut self, gap: &Gap, words: &str) -> io::Result<()> {
        if self.json {
            terminal::write_json(&mut self.out, gap)?;
            return self.out.write_all(b"\n");
        }
        let time = time_of_day(unix_ns());
        writeln!(self.out, "{time}  lane {}  {words}", gap.lane)
    }

    /// Prints the row of a period that is over, and what was written so far.
    fn finish_look(&mut self) -> Outcome {
        if let Some(row) = self.rate.as_mut().and_then(Rate::row) {
            self.left -= 1;
            let written = if self.json {
                terminal::write_json(&mut self.out, &row).and_then(|()| self.out.write_all(b"\n"))
            } else {
                writeln!(self.out, "{}", row.text())
            };
            self.failed = written.err();
        }
        let flushed = self.out.flush();
        self.failed
            .take()
            .map_or(flushed, Err)
            .map_err(Failure::stdout)
    }
}

/// The time of day in UTC, to the microsecond.
fn time_of_day(unix_ns: u64) -> String {
    let us = unix_ns / 1_000;
    let s = us / 1_000_000;
    format!(
        "{:02}:{:02}:{:02}.{:06}Z",
        s / 3_600 % 24,
        s / 60 % 60,
        s % 60,
        us % 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_day_is_in_utc() {
        assert_eq!(time_of_day(0), "00:00:00.000000Z");
        // 2026-11-23 16:12:03.000042
        assert_eq!(time_of_day(1_795_450_323_000_042_999), "16:12:03.000042Z");
    }
}
