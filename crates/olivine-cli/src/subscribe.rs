//! `olivine sub`: received messages to standard output, checked or measured.

mod last;

use crate::args::{Common, OutputForm, Stat, SubArgs};
use crate::awaited::Awaited;
use crate::bench::files;
use crate::failure::{Failure, Outcome, complain, with_id};
use crate::framing::{Written, write_message};
use crate::meter::{Extra, Meter, SubscriberSummary, Summary, Totals};
use crate::stop::{LOOK, Stop};
use crate::{awaited, log, quote, settings, terminal};
use olivine::clock;
use olivine::{
    Config, Fields, LinkError, LinkStage, Message, MessageType, OpenError, ReceiveError, Scheme,
    Subscriber,
};
use olivine_bench::clock::TickClock;
use olivine_bench::latency::Latency;
use olivine_bench::payload;
use olivine_bench::tally::Verifier;
use olivine_bench::worst::Late;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of output collected before a write.
const WRITE_BYTES: usize = 256 << 10;

/// Polls of a spinning subscriber between two checks of the clock and of requests to stop.
const BARE_LOOKS: u32 = 10_000;

/// Runs the command.
pub(crate) fn run(args: &SubArgs, common: Common) -> Outcome {
    let config = args.channel.config(&args.uri)?;
    let reports = args.verify || !args.report.stats.is_empty();
    let form = output_form(args, reports, common)?;
    if matches!(form, OutputForm::Raw | OutputForm::Frames) {
        terminal::confirm_binary(form.word())?;
    }
    if args.last {
        return last::run(args, form);
    }
    let ends = args.count.is_some() || args.duration.is_some() || args.once;
    let endless = !ends && !settings::has_end(&config);
    let timed = args.report.wants(Stat::Latency);
    if args.worst.is_some() && !timed {
        return Err(Failure::usage(
            "--worst lists messages by their latency: add --stats latency",
        ));
    }
    if let Some(path) = &args.save {
        if !timed {
            return Err(Failure::usage(
                "--save writes the histogram of latencies: add --stats latency",
            ));
        }
        let path = std::slice::from_ref(path);
        files::only(path, &["hlog"], "the latencies of a stream")?;
        files::check(path)?;
    }
    let stop = Stop::install()?;
    if args.report.tied {
        stop.follow_stdin();
    }
    // First, so that the reported time is not shorter than the limit.
    let begun_ns = clock::monotonic_ns();
    let stop = stop.with_time_limit(args.duration);
    // Statistics and messages in JSON share one stream.
    let stdout_taken = match form {
        OutputForm::None => false,
        OutputForm::Json => !common.json,
        _ => true,
    };
    let meter = Meter::start(&args.report, common.json, stdout_taken)?;
    let unread = awaited::unread(&config, |uri| {
        format!(
            "'olivine sub {uri} --from oldest{}'",
            quote::dir(config.get_dir())
        )
    });
    let quiet = form != OutputForm::None && !reports && !common.json;
    let Some(subscriber) = open(&config, args.stated.as_ref(), &stop)? else {
        finish_unopened(&config, &stop, &meter, endless, quiet, begun_ns)?;
        return match args.verify {
            true => Err(nothing_to_verify()),
            false => Ok(()),
        };
    };
    if let Some(line) = unread {
        log::info(&line);
    }
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
            escape: terminal::is_stdout(),
            out: BufWriter::with_capacity(WRITE_BYTES, io::stdout().lock()),
            failed: None,
            fields: args
                .stated
                .as_ref()
                .map_or_else(Fields::default, |stated| stated.fields().clone()),
            asks: form == OutputForm::Json && args.stated.is_none(),
            totals: Totals::default(),
            verifier: args.verify.then(Verifier::new),
            latency: timed.then(Latencies::default),
            late: args.worst.map(|count| late(count, &config)).transpose()?,
        },
        left: args.count.unwrap_or(u64::MAX),
        batch: u64::from(args.batch),
        bare_looks: if settings::spins(&config) {
            BARE_LOOKS
        } else {
            0
        },
        begun_ns,
        first_ns: None,
        last_ns: 0,
        overrun_bytes: 0,
        said_waiting: false,
        awaited: Awaited::default(),
        cut: false,
        once: args.once,
        failure: None,
        has_complained: false,
        short_uri: settings::short(&config),
        first_find: FirstFind::default(),
        one_by_one: form != OutputForm::None && settings::is_durable(&config),
    };
    // After a failure the position stays before the unwritten message: dropping does not release
    // it.
    receiver.stream()?;
    receiver.finish(quiet, endless, args.save.as_deref())
}

/// The output format: given, or derived from the other flags.
fn output_form(args: &SubArgs, reports: bool, common: Common) -> Outcome<OutputForm> {
    match args.out {
        Some(form @ (OutputForm::Json | OutputForm::None)) => Ok(form),
        Some(form) if common.json => Err(Failure::usage(format!(
            "--json and --out {} cannot be combined: standard output is one JSON object a line \
             then; leave --out away, or use --out json or none",
            form.word()
        ))),
        Some(form) => Ok(form),
        None if reports => Ok(OutputForm::None),
        None if common.json => Ok(OutputForm::Json),
        None => Ok(OutputForm::Lines),
    }
}

/// What keeps the `count` worst messages, with their causes.
fn late(count: u16, config: &Config) -> Outcome<Late> {
    let continued = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGCONT, Arc::clone(&continued)).map_err(
        |error| Failure::Failed(anyhow::Error::new(error).context("cannot catch SIGCONT")),
    )?;
    Ok(Late::new(count.into(), continued, config))
}

/// A subscriber of bytes, or of the type that was stated.
fn opened(config: &Config, stated: Option<&MessageType>) -> Result<Subscriber, OpenError> {
    match stated {
        Some(stated) => Subscriber::open_for(config, stated),
        None => Subscriber::open_with(config),
    }
}

/// Opens the channel; `None` if it is time to end before the publisher of a sealed one has come, or
/// the start in a journal is found.
fn open(config: &Config, stated: Option<&MessageType>, stop: &Stop) -> Outcome<Option<Subscriber>> {
    // Opening waits only for a sealed channel, and may read long in a journal.
    let is_sealed = config.scheme() == Scheme::Sealed;
    if !is_sealed && config.scheme() != Scheme::File {
        return Ok(Some(opened(config, stated)?));
    }
    let place = settings::short(config);
    let (asked, stated) = (config.clone(), stated.cloned());
    let mut awaited = Awaited::default();
    let wait = || {
        if is_sealed {
            awaited.goes_on(|| Some(format!("waiting for the publisher of {place}").into()));
        }
    };
    let open = move || opened(&asked, stated.as_ref());
    let Some(subscriber) = stop.opened(&place, open, wait)? else {
        return Ok(None);
    };
    let subscriber = subscriber?;
    // Opening pinned the thread that opened, and refused an invalid CPU.
    if let Some(cpu) = settings::cpu(config) {
        olivine_bench::cpus::pin(cpu).map_err(|error| {
            let context = format!("cannot tie this program to CPU {cpu}");
            Failure::Failed(anyhow::Error::new(error).context(context))
        })?;
    }
    Ok(Some(subscriber))
}

/// Reports that nothing came: there was no publisher, or the start in a journal was not found yet.
fn finish_unopened(
    config: &Config,
    stop: &Stop,
    meter: &Meter,
    endless: bool,
    quiet: bool,
    begun_ns: u64,
) -> Outcome {
    let elapsed_ns = clock::monotonic_ns() - begun_ns;
    let totals = Totals::default();
    let interrupted = stop.interrupted();
    let place = settings::short(config);
    if config.scheme() == Scheme::File {
        log::info(&format!(
            "no message came on {place}: it was still looking for the first one"
        ));
    } else if quiet && !interrupted {
        log::info(&format!("no message came on {place}"));
    }
    if !quiet || interrupted {
        let summary = Summary::new("subscriber", config.uri(), totals, elapsed_ns, interrupted);
        meter.say(&summary.text(), &summary)?;
    }
    if endless { Ok(()) } else { stop.cut_short() }
}

/// A check that saw no message must not look like a passed one.
fn nothing_to_verify() -> Failure {
    Failure::failed("--verify had nothing to check: no message was received")
}

/// The destination of messages.
struct Sink<'a> {
    form: OutputForm,
    /// For a terminal: control characters in lines are escaped.
    escape: bool,
    out: BufWriter<StdoutLock<'a>>,
    /// The first write error; nothing is written after it.
    failed: Option<io::Error>,
    /// Fields of the channel's type; empty until a participant has stated them.
    fields: Fields,
    /// Whether they are still to be asked for: only JSON has them, and the next publisher may state
    /// them.
    asks: bool,
    totals: Totals,
    verifier: Option<Verifier>,
    latency: Option<Latencies>,
    late: Option<Late>,
}

/// Latencies of the whole stream and of the current interval.
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
                lane: message.lane(),
                tag: message.tag(),
                topic: message.topic(),
                payload: message,
                fields: &self.fields,
                escape: self.escape,
            };
            self.failed = write_message(&mut self.out, self.form, &written).err();
        }
        let stamp = match &mut self.verifier {
            Some(verifier) => verifier.receive(message.lane(), message),
            None if self.latency.is_some() => payload::check(message),
            None => None,
        };
        if let (Some(latency), Some(stamp)) = (&mut self.latency, stamp) {
            // Clocks of two CPUs may differ slightly: never below zero.
            let now = TickClock::ticks();
            latency.interval.record(now.saturating_sub(stamp.ticks));
            if let Some(late) = &mut self.late {
                late.note(stamp.number(), message.lane(), stamp.ticks, now);
            }
        }
    }

    /// Takes a message and writes it out at once.
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
        if self.form == OutputForm::Json && self.failed.is_none() {
            // Its row comes after its messages, between two of them.
            self.failed = self.out.flush().err();
        }
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
    /// Messages still to receive.
    left: u64,
    batch: u64,
    /// Polls between two checks of the clock of a spinning subscriber.
    bare_looks: u32,
    /// Times of opening, of the first message and of the newest one.
    begun_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    overrun_bytes: u64,
    said_waiting: bool,
    awaited: Awaited,
    /// A request to stop came before the count, the time or the end of the stream.
    cut: bool,
    /// End when the last publisher has closed.
    once: bool,
    /// Why the stream failed, or why this subscriber was evicted.
    failure: Option<String>,
    /// That was printed.
    has_complained: bool,
    short_uri: String,
    /// Each message is written before the position moves, so that a kill loses none: at least once.
    one_by_one: bool,
    first_find: FirstFind,
}

/// While the sink asks for the fields: whether there was a message or an end.
#[derive(Debug, Default)]
struct FirstFind(bool);

impl FirstFind {
    /// Whether a poll follows a look that found something, or nothing. The first message is not
    /// taken before a look has found it. Later each poll looks itself: an end that was reported
    /// before does not end a look.
    fn allows_poll(&mut self, found: bool) -> bool {
        self.0 |= found;
        self.0
    }
}

impl Receiver<'_> {
    /// Receives until the end of the stream, the count, the time or a signal ends it.
    fn stream(&mut self) -> Outcome {
        while self.left > 0 {
            if self.stop.now() {
                self.cut = self.stop.interrupted();
                break;
            }
            if self.poll()?.is_break() {
                break;
            }
            let (sink, subscriber) = (&mut self.sink, &self.subscriber);
            self.meter
                .tick(sink.totals, || sink.interval(subscriber.lag()))?;
        }
        Ok(())
    }

    /// Takes the available messages; returns their number.
    #[inline]
    fn look(&mut self) -> Result<usize, ReceiveError> {
        let sink = &mut self.sink;
        if sink.asks {
            let found = self.subscriber.wait(Duration::ZERO)?;
            if found {
                // There is a message, so its publisher has stated its fields, if it states any.
                sink.fields = self.subscriber.fields();
                sink.asks = sink.fields.is_empty();
            }
            if !self.first_find.allows_poll(found) {
                return Ok(0);
            }
        }
        let begun = sink.late.is_some().then(TickClock::ticks);
        let polled = if self.one_by_one {
            // The next call, or an orderly end, releases a message.
            self.subscriber.try_receive().map(|message| {
                message.map_or(0, |message| {
                    sink.take_through(&message);
                    1
                })
            })
        } else {
            let limit = usize::try_from(self.left.min(self.batch)).unwrap_or(usize::MAX);
            self.subscriber.poll(|message| sink.take(&message), limit)
        };
        if let (Some(late), Some(begun), Ok(0)) = (&mut sink.late, begun, &polled) {
            late.empty(begun);
        }
        polled
    }

    fn poll(&mut self) -> Outcome<ControlFlow<()>> {
        // The poll that finds the first message is part of the total time.
        let looked_ns = self.first_ns.unwrap_or_else(clock::monotonic_ns);
        let before = self.sink.totals.messages;
        let mut polled = self.look();
        let mut looks = self.bare_looks;
        while looks > 0 && matches!(polled, Ok(0)) {
            polled = self.look();
            looks -= 1;
        }
        // Also those before an error.
        let taken = self.sink.totals.messages - before;
        if taken > 0 {
            self.left -= taken;
            self.last_ns = clock::monotonic_ns();
            if self.first_ns.is_none() {
                self.first_ns = Some(looked_ns);
                self.meter.restart();
            }
            self.sink.write_error()?;
        }
        match polled {
            Ok(0) => self.idle(),
            Ok(_) => Ok(ControlFlow::Continue(())),
            Err(ReceiveError::Closed) if self.is_over() => Ok(ControlFlow::Break(())),
            Err(ReceiveError::Closed) => self.idle(),
            Err(error) => self.fails(error),
        }
    }

    /// A call has reported an error that is not the end of the stream.
    fn fails(&mut self, error: ReceiveError) -> Outcome<ControlFlow<()>> {
        match error {
            ReceiveError::Overrun { lost_bytes } => {
                log::debug(&format!("overrun: {lost_bytes} bytes were not read"));
                self.overrun_bytes += lost_bytes;
                Ok(ControlFlow::Continue(()))
            }
            // The next call goes on behind a recording that failed.
            ReceiveError::Failed(LinkError::Upstream { .. }) if self.is_journal() => {
                self.sink.out.flush().map_err(Failure::stdout)?;
                let reason = with_id(&error.into());
                complain(&reason);
                (self.failure, self.has_complained) = (Some(reason), true);
                Ok(ControlFlow::Continue(()))
            }
            error if error.is_final() => {
                // Messages before the error count, and so do their sums.
                (self.failure, self.has_complained) = (Some(with_id(&error.into())), false);
                Ok(ControlFlow::Break(()))
            }
            error => Err(error.into()),
        }
    }

    fn is_journal(&self) -> bool {
        self.subscriber.uri().starts_with("file:")
    }

    /// Whether the end of the stream ends the command: on request, or because nothing can follow,
    /// as after a journal.
    fn is_over(&self) -> bool {
        let link = self.subscriber.link_status();
        self.once || link.is_some_and(|link| link.stage == LinkStage::Ended)
    }

    /// Nothing to read: write what was read, then wait.
    fn idle(&mut self) -> Outcome<ControlFlow<()>> {
        self.sink.out.flush().map_err(Failure::stdout)?;
        let waited = match &mut self.sink.late {
            Some(late) => late.wait(&mut self.subscriber, LOOK),
            None => self.subscriber.wait(LOOK),
        };
        match waited {
            // The next poll repeats the end.
            Ok(true) | Err(ReceiveError::Closed) => {}
            Ok(false) => self.say_what_is_awaited(),
            // A failure of a lane is reported once.
            Err(error) => return self.fails(error),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn say_what_is_awaited(&mut self) {
        self.awaited
            .unlinked(self.subscriber.check_unlinked(), &self.short_uri);
        let lanes = self.subscriber.inspect_lanes();
        match self.subscriber.link_status() {
            Some(status) => {
                self.awaited.link(&status);
                if status.stage == LinkStage::Waiting {
                    return;
                }
            }
            // For a while only: the next publisher may come at once.
            None => match awaited::killed(&lanes, &self.short_uri) {
                Some(killed) => self.awaited.goes_on(|| Some(killed)),
                None => self.awaited.over(),
            },
        }
        if !self.said_waiting && self.first_ns.is_none() {
            self.said_waiting = true;
            if lanes.is_empty() {
                log::info(&format!("waiting for a publisher on {}", self.short_uri));
            }
        }
    }

    /// Writes the rest and prints the summary; latencies also to `save`. An `endless` stream is
    /// complete whenever it is stopped.
    fn finish(mut self, quiet: bool, endless: bool, save: Option<&Path>) -> Outcome {
        let elapsed_ns = match self.first_ns {
            Some(first) => self.last_ns - first,
            None => clock::monotonic_ns() - self.begun_ns,
        };
        // The last interval's latencies are in `all` from here on.
        let extra = self.sink.interval(self.subscriber.lag());
        // Before standard output, whose reader may be gone; if it fails, the summary is still
        // printed.
        let saved = save.zip(self.sink.latency.as_ref()).map(|(path, latency)| {
            let length = Duration::from_nanos(elapsed_ns);
            files::save_latencies(path, &self.subscriber.uri(), length, &latency.all)
        });
        self.sink.out.flush().map_err(Failure::stdout)?;
        self.meter.finish(self.sink.totals, extra)?;
        let interrupted = self.stop.interrupted();
        let mut summary = Summary::new(
            "subscriber",
            self.subscriber.uri(),
            self.sink.totals,
            elapsed_ns,
            interrupted,
        );
        let verified = self.sink.verifier.as_ref().map(Verifier::counts);
        let timed = self.sink.latency.as_ref();
        let latency = timed.map(|latency| latency.all.percentiles(&TickClock::calibrate()));
        if matches!(latency, Some(None)) && self.sink.totals.messages > 0 {
            log::warn(
                "no latency: only messages that 'olivine pub' generates (without arguments and \
                 --stdin) say when they were sent",
            );
        }
        summary.subscriber = Some(SubscriberSummary {
            overrun_bytes: self.overrun_bytes,
            failure: self.failure.clone(),
            verified,
            latency: latency.flatten(),
            worst: self.sink.late.as_mut().map(|late| {
                let latency = self.sink.latency.take().unwrap_or_default();
                late.take().report(&latency.all, &TickClock::calibrate())
            }),
        });
        let nothing = self.sink.totals.messages == 0;
        self.subscriber.close();
        // Release the lock on standard output before the summary is printed there.
        drop(self.sink);
        if !quiet || interrupted && self.failure.is_none() {
            self.meter.say(&summary.text(), &summary)?;
        } else if nothing && self.failure.is_none() {
            log::info(&format!("no message came on {}", self.short_uri));
        }
        saved.transpose()?;
        if let Some(failure) = self.failure {
            if self.has_complained {
                return Err(Failure::BadResult);
            }
            return Err(Failure::failed(failure));
        }
        match verified {
            Some(counts) if !counts.is_clean() => Err(Failure::BadResult),
            _ if self.cut && !endless => self.stop.cut_short(),
            Some(_) if nothing => Err(nothing_to_verify()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FirstFind;

    #[test]
    fn polls_go_on_after_the_first_find_although_a_look_finds_nothing() {
        let mut first_find = FirstFind::default();
        let looks = [false, false, true, false, true, false];
        let polls = looks.map(|found| first_find.allows_poll(found));
        assert_eq!(polls, [false, false, true, true, true, true]);
    }
}
