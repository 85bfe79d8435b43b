//! `olivine sub`: what is published, to standard output, checked or measured.

use crate::args::{Common, OutputForm, Stat, SubArgs};
use crate::failure::{Failure, Outcome};
use crate::framing::{Written, write_message};
use crate::meter::{Extra, Meter, SubscriberSummary, Summary, Totals};
use crate::stop::{LOOK, Stop};
use crate::{log, settings};
use olivine::clock::{self, TickClock};
use olivine::{Message, ReceiveError, Subscriber};
use olivine_bench::latency::Latency;
use olivine_bench::payload;
use olivine_bench::tally::Verifier;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::ControlFlow;

/// Bytes of output gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// Looks of a spinning subscriber between two glances at the clock and at requests to stop.
const BARE_LOOKS: u32 = 10_000;

/// Runs the command.
pub(crate) fn run(args: &SubArgs, common: Common) -> Outcome {
    let config = args.channel.config(&args.uri)?;
    let reports = args.verify || !args.report.stats.is_empty();
    let form = args.out.unwrap_or(if reports {
        OutputForm::None
    } else {
        OutputForm::Lines
    });
    let timed = args.report.wants(Stat::Latency);
    let stop = Stop::install()?;
    if args.report.tied {
        stop.follow_stdin();
    }
    let stop = stop.with_time_limit(args.duration);
    let meter = Meter::start(&args.report, common.json, form != OutputForm::None)?;
    let subscriber = Subscriber::open_with(&config)?;
    log::debug(&format!(
        "subscribed to {} at position {}",
        subscriber.uri(),
        subscriber.position()
    ));
    let mut receiver = Receiver {
        subscriber,
        stop,
        meter,
        sink: Sink {
            form,
            out: BufWriter::with_capacity(WRITE_BYTES, io::stdout().lock()),
            failed: None,
            totals: Totals::default(),
            verifier: args.verify.then(Verifier::new),
            latency: timed.then(Latencies::default),
        },
        left: args.count.unwrap_or(u64::MAX),
        batch: u64::from(args.batch),
        bare_looks: if settings::spins(&config) {
            BARE_LOOKS
        } else {
            0
        },
        first_ns: None,
        last_ns: 0,
        overrun_bytes: 0,
        said_waiting: false,
        short_uri: settings::short(&config),
        one_by_one: form != OutputForm::None && settings::is_durable(&config),
    };
    // After a failure the position stays before a message that could not be written: dropping does not go past it.
    receiver.stream()?;
    let quiet = form != OutputForm::None && !reports && !common.json;
    receiver.finish(quiet)
}

/// What is done with a message.
struct Sink<'a> {
    form: OutputForm,
    out: BufWriter<StdoutLock<'a>>,
    /// The first error of writing; what comes after it is not written.
    failed: Option<io::Error>,
    totals: Totals,
    verifier: Option<Verifier>,
    latency: Option<Latencies>,
}

/// Latencies of everything and of the interval that runs.
#[derive(Default)]
struct Latencies {
    all: Latency,
    interval: Latency,
}

impl Sink<'_> {
    #[inline]
    fn take(&mut self, message: &Message<'_>) {
        self.totals.add(message.len());
        if self.form != OutputForm::None && self.failed.is_none() {
            let written = Written {
                tag: message.tag(),
                topic: message.topic(),
                payload: message,
            };
            self.failed = write_message(&mut self.out, self.form, &written).err();
        }
        let stamp = match &mut self.verifier {
            Some(verifier) => verifier.receive(message.lane(), message),
            None if self.latency.is_some() => payload::check(message),
            None => None,
        };
        if let (Some(latency), Some(stamp)) = (&mut self.latency, stamp) {
            // Ticks of two CPUs may differ by a hair: not below zero.
            latency
                .interval
                .record(TickClock::ticks().saturating_sub(stamp.ticks));
        }
    }

    /// Takes a message and writes it out before anything else happens.
    fn take_through(&mut self, message: &Message<'_>) {
        self.take(message);
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
    }

    fn write_error(&mut self) -> Outcome {
        self.failed
            .take()
            .map_or(Ok(()), |error| Err(Failure::stdout(error)))
    }

    /// The figures of an interval that ends now.
    fn interval(&mut self, lag_bytes: u64) -> Extra {
        let latency = self.latency.as_mut().and_then(|latency| {
            let table = latency.interval.percentiles(&TickClock::calibrate());
            latency.all.merge(&latency.interval);
            latency.interval.clear();
            table
        });
        let lost = self
            .verifier
            .as_ref()
            .map(|verifier| verifier.counts().lost);
        Extra {
            lag_bytes: Some(lag_bytes),
            lost,
            latency,
        }
    }
}

struct Receiver<'a> {
    subscriber: Subscriber,
    stop: Stop,
    meter: Meter,
    sink: Sink<'a>,
    /// Messages to receive at most from now on.
    left: u64,
    batch: u64,
    /// Looks in a row before a spinning subscriber glances at the clock.
    bare_looks: u32,
    /// When the first and the newest message were seen.
    first_ns: Option<u64>,
    last_ns: u64,
    overrun_bytes: u64,
    said_waiting: bool,
    short_uri: String,
    /// Each message is written before the position goes past it, so that none is lost with us: at least once.
    one_by_one: bool,
}

impl Receiver<'_> {
    /// Receives until the end of the stream, the count, the time or the person says stop.
    fn stream(&mut self) -> Outcome {
        while self.left > 0 && !self.stop.now() {
            if self.poll()?.is_break() {
                break;
            }
            let (sink, subscriber) = (&mut self.sink, &self.subscriber);
            self.meter
                .tick(sink.totals, || sink.interval(subscriber.lag()))?;
        }
        Ok(())
    }

    /// Takes what is there; returns how many messages that was.
    #[inline]
    fn look(&mut self) -> Result<usize, ReceiveError> {
        let sink = &mut self.sink;
        if self.one_by_one {
            // The position goes past a message with the next call, or with an orderly end.
            let message = self.subscriber.try_receive()?;
            return Ok(message.map_or(0, |message| {
                sink.take_through(&message);
                1
            }));
        }
        let limit = usize::try_from(self.left.min(self.batch)).unwrap_or(usize::MAX);
        self.subscriber.poll(|message| sink.take(&message), limit)
    }

    fn poll(&mut self) -> Outcome<ControlFlow<()>> {
        let mut polled = self.look();
        let mut looks = self.bare_looks;
        while looks > 0 && matches!(polled, Ok(0)) {
            polled = self.look();
            looks -= 1;
        }
        match polled {
            Ok(0) => return self.idle(),
            Ok(taken) => {
                self.left -= taken as u64;
                self.last_ns = clock::monotonic_ns();
                if self.first_ns.is_none() {
                    self.first_ns = Some(self.last_ns);
                    self.meter.restart();
                }
                self.sink.write_error()?;
            }
            Err(ReceiveError::Closed) => return Ok(ControlFlow::Break(())),
            Err(ReceiveError::Overrun { lost_bytes }) => {
                log::debug(&format!("overrun: {lost_bytes} bytes were not read"));
                self.overrun_bytes += lost_bytes;
            }
            Err(error) => {
                // What came before the error is still worth having.
                let _ = self.sink.out.flush();
                return Err(error.into());
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Nothing to read: hand on what was read, then wait.
    fn idle(&mut self) -> Outcome<ControlFlow<()>> {
        self.sink.out.flush().map_err(Failure::stdout)?;
        match self.subscriber.wait(LOOK) {
            Ok(true) => {}
            Ok(false) => self.say_what_is_awaited(),
            // The next poll says so again, after everything was read.
            Err(ReceiveError::Closed | ReceiveError::Overrun { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn say_what_is_awaited(&mut self) {
        if !self.said_waiting && self.first_ns.is_none() {
            self.said_waiting = true;
            if self.subscriber.lanes().is_empty() {
                log::info(&format!("waiting for a publisher on {}", self.short_uri));
            }
        }
    }

    fn finish(mut self, quiet: bool) -> Outcome {
        self.sink.out.flush().map_err(Failure::stdout)?;
        let extra = self.sink.interval(self.subscriber.lag());
        self.meter.finish(self.sink.totals, extra)?;
        let interrupted = self.stop.interrupted();
        let elapsed_ns = self.first_ns.map_or(0, |first| self.last_ns - first);
        let mut summary = Summary::new(
            "subscriber",
            self.subscriber.uri(),
            self.sink.totals,
            elapsed_ns,
            interrupted,
        );
        let verified = self.sink.verifier.as_ref().map(Verifier::counts);
        summary.subscriber = Some(SubscriberSummary {
            overrun_bytes: self.overrun_bytes,
            verified,
            latency: self
                .sink
                .latency
                .as_ref()
                .and_then(|latency| latency.all.percentiles(&TickClock::calibrate())),
        });
        self.subscriber.close();
        // The lock on standard output goes before the summary is printed there.
        drop(self.sink);
        if !quiet || interrupted {
            self.meter.say(&summary.text(), &summary)?;
        }
        match verified {
            Some(counts) if !counts.is_clean() => Err(Failure::BadResult),
            _ => Ok(()),
        }
    }
}
