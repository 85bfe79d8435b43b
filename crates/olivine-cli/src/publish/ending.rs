//! The end of a stream: the rest is read or acknowledged first, as long as there is progress.

use super::Sender;
use crate::failure::{Failure, Outcome};
use crate::meter::{Extra, PublisherSummary, Summary};
use crate::stop::LOOK;
use crate::{log, settings};
use olivine::{Config, LinkStage, LinkStatus, NotSent, Publisher};
use std::mem::ManuallyDrop;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a connected far side may acknowledge nothing before the library decides whether a
/// receiver still comes; after a request to stop, before the publisher leaves it.
const STILL_MAX: Duration = Duration::from_secs(3);

/// The result of waiting before the close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Everything was read or acknowledged, or there is no subscriber to wait for.
    Whole,
    /// The wait is over, and messages are left.
    Rest,
    /// A far side is connected, without progress.
    Still,
}

/// How long a remote channel has made no progress.
#[derive(Debug)]
struct Standstill {
    acknowledged_bytes: u64,
    since: Instant,
}

impl Standstill {
    fn new() -> Self {
        Self {
            acknowledged_bytes: 0,
            since: Instant::now(),
        }
    }

    /// How long `status` has shown no progress.
    fn lasts(&mut self, status: Option<&LinkStatus>) -> Duration {
        let bytes = status.map_or(0, |status| status.acknowledged_bytes);
        if bytes != self.acknowledged_bytes {
            *self = Self {
                acknowledged_bytes: bytes,
                since: Instant::now(),
            };
        }
        self.since.elapsed()
    }
}

impl Sender {
    /// Waits up to `linger` until everything is read, or acknowledged by a remote channel. Without
    /// `linger` there is no limit.
    fn linger(&mut self, linger: Option<Duration>) -> Outcome<End> {
        let elsewhere = settings::is_elsewhere(&self.config);
        if linger.is_none() && !elsewhere {
            return Ok(End::Whole);
        }
        let close_timeout = settings::close_timeout(&self.config);
        let begun = Instant::now();
        let mut connected = begun;
        let mut standstill = Standstill::new();
        while !self
            .publisher
            .wait_drained(Some(linger.map_or(LOOK, |linger| LOOK.min(linger))))?
        {
            let status = self.publisher.link_status();
            let still = standstill.lasts(status.as_ref());
            let is_away = status.is_some_and(|status| status.stage == LinkStage::Waiting);
            if elsewhere && !is_away {
                connected = Instant::now();
                self.awaited.goes_on(|| Some(rest(&self.config).into()));
            } else {
                self.tell_who_holds();
            }
            let interrupted = self.stop.interrupted();
            // A connected far side may take its time while it makes progress.
            let stops = interrupted && (is_away || !elsewhere || still >= STILL_MAX);
            let too_long = linger.is_some_and(|linger| begun.elapsed() >= linger);
            let is_gone = close_timeout.is_some_and(|limit| connected.elapsed() >= limit);
            if stops || too_long || is_gone {
                // It may have been read since.
                if self.publisher.wait_drained(Some(Duration::ZERO))? {
                    break;
                }
                self.cut |= interrupted;
                return Ok(End::Rest);
            }
            if elsewhere && !is_away && still >= STILL_MAX {
                return Ok(End::Still);
            }
        }
        Ok(End::Whole)
    }

    /// Lets subscribers read the rest, closes, and prints the summary.
    /// An `endless` stream is complete whenever it is stopped.
    pub(super) fn finish(mut self, linger: Duration, quiet: bool, endless: bool) -> Outcome {
        let elapsed_ns = self.meter.elapsed_ns();
        let linger = (!linger.is_zero()).then_some(linger);
        let until = linger.and_then(|linger| Instant::now().checked_add(linger));
        let end = self.linger(linger)?;
        self.meter.finish(self.totals, Extra::default())?;
        let stats = self.publisher.stats();
        let uri = self.publisher.uri();
        let left = match end {
            End::Whole => close(self.publisher)?,
            End::Rest if settings::is_elsewhere(&self.config) => {
                // A close would wait longer; the end of the process releases everything.
                let _undelivered = ManuallyDrop::new(self.publisher);
                true
            }
            End::Rest => {
                log::warn(
                    "some subscribers have not read everything yet; it stays in the ring for them",
                );
                close(self.publisher)?
            }
            End::Still => {
                let stop = &self.stop;
                let must_end =
                    || stop.interrupted() || until.is_some_and(|until| Instant::now() >= until);
                let left = close_watched(self.publisher, must_end)?;
                self.cut |= left && self.stop.interrupted();
                left
            }
        };
        let interrupted = self.stop.interrupted();
        let mut summary = Summary::new("publisher", uri, self.totals, elapsed_ns, interrupted);
        summary.publisher = Some(PublisherSummary {
            back_pressure_count: stats.back_pressure_count,
            back_pressure_ns: stats.back_pressure_ns,
            wakes_count: stats.wakes,
            evicted_count: stats.evicted,
            reclaimed_count: stats.reclaimed,
        });
        if !quiet || interrupted {
            self.meter.say(&summary.text(), &summary)?;
        }
        match left.then(|| undelivered(&self.config)) {
            Some(line) if self.cut => {
                log::warn(&line);
                self.stop.cut_short()
            }
            Some(line) => Err(Failure::named(line, "send.unacknowledged")),
            None if self.cut && !endless => self.stop.cut_short(),
            None => Ok(()),
        }
    }
}

/// What the command waits for while a far side is connected.
fn rest(config: &Config) -> String {
    format!(
        "waiting until {} has acknowledged everything that was published",
        settings::short(config)
    )
}

/// What happens to undelivered messages of a remote channel.
fn undelivered(config: &Config) -> String {
    let place = settings::short(config);
    let rest = if settings::is_durable(config) {
        "the next publisher of this name goes on with it"
    } else {
        "it goes with this program"
    };
    format!("{place} has not acknowledged everything that was published: {rest}")
}

/// Ends the stream; returns whether messages were not delivered.
fn close(publisher: Publisher) -> Outcome<bool> {
    match publisher.close() {
        Ok(_) => Ok(false),
        Err(NotSent::BackPressured | NotSent::Unacknowledged { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Ends the stream by the library's rules: a connected far side gets the rest, an absent one may
/// come back within `expire`. Once `must_end` returns true, it waits no longer.
fn close_watched(publisher: Publisher, must_end: impl Fn() -> bool) -> Outcome<bool> {
    let (closed, outcome) = mpsc::channel();
    let closing = std::thread::Builder::new()
        .name("olivine-closing".into())
        // If nothing waits any more, the end of the process does it.
        .spawn(move || closed.send(close(publisher)).ok());
    closing.map_err(|error| {
        Failure::Failed(anyhow::Error::new(error).context("cannot start a thread"))
    })?;
    loop {
        match outcome.recv_timeout(LOOK) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if must_end() => return Ok(true),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::failed("closing the channel panicked"));
            }
        }
    }
}
