//! `olivine pub`: messages from arguments, from standard input, or generated.

mod ending;
mod generate;
mod input;

use crate::args::{Common, InputForm, PubArgs, Stat, values::Rate};
use crate::awaited::{self, Awaited};
use crate::failure::{Failure, Outcome};
use crate::meter::{Extra, Meter, Totals};
use crate::stop::{LOOK, Stop};
use crate::{log, settings, typed};
use olivine::{Config, NotSent, Outgoing, Publisher, Scheme, admin};
use olivine_bench::clock::TickClock;
use olivine_bench::pace::{Pacer, Rest};
use olivine_bench::payload::SIZE_MIN;
use olivine_bench::text::plural;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// At full speed: messages between two checks of the clock and of requests to stop.
const BURST: u64 = 256;
/// The largest ring in bytes.
const CAPACITY_MAX: u64 = 1 << 31;

/// Runs the command.
pub(crate) fn run(args: &PubArgs, common: Common) -> Outcome {
    let config = args.channel.config(&args.uri)?;
    let generated = args.stdin.is_none() && args.message.is_empty();
    check_meaning(args, generated)?;
    let stop = Stop::install()?;
    if args.report.tied {
        stop.follow_stdin();
    }
    let meter = Meter::start(&args.report, common.json, false)?;
    let linger = settings::linger(&config);
    // The tool waits instead of the library, so that Ctrl-C ends the wait.
    let unlingering = config.clone().linger(Duration::ZERO);
    let publisher = match &args.stated {
        Some(stated) => Publisher::open_for(&unlingering, stated)?,
        None => Publisher::open_with(&unlingering)?,
    };
    log::debug(&format!(
        "publishing on {} as lane {}",
        publisher.uri(),
        publisher.lane()
    ));
    if config.scheme() == Scheme::File
        && let Some(note) = publisher.link_status().as_ref().and_then(awaited::note)
    {
        // What the recorder found in a journal that was not closed in order, and cut off.
        log::info(&note);
    }
    let mut sender = Sender {
        publisher,
        stop,
        meter,
        totals: Totals::default(),
        count: args.count.unwrap_or(u64::MAX),
        pacer: None,
        rest: if settings::spins(&config) {
            Rest::Spin
        } else {
            Rest::Gentle
        },
        due: None,
        cut: false,
        config: config.clone(),
        awaited: Awaited::default(),
    };
    let uri = settings::short(&config);
    let mut alone = false;
    if sender.wait_for_subscribers(settings::subscribers(&config), &uri)? {
        alone = !is_heard(&sender.publisher, &config);
        // Takes ten milliseconds, which must not count as sending time.
        let paced = match args.rate {
            Rate::PerSecond(per_s) => Some((TickClock::calibrate(), per_s)),
            Rate::Max => None,
        };
        sender.stop = sender.stop.with_time_limit(args.duration);
        sender.meter.restart();
        sender.pacer = paced.map(|(clock, per_s)| Pacer::start(clock, per_s));
        match args.stdin {
            Some(form) => input::send(&mut sender, form, args)?,
            None if generated => generate::send(&mut sender, args)?,
            None => send_arguments(&mut sender, args)?,
        }
    }
    if alone && sender.totals.messages > 0 && !is_heard(&sender.publisher, &config) {
        log::info(&if config.scheme() == Scheme::Shm {
            awaited::unheard(&config, sender.publisher.capacity())
        } else {
            format!(
                "{} has no subscriber, and the messages are lost when this program ends: start \
                 subscribers first, and wait for them with --subscribers 1",
                sender.publisher.uri(),
            )
        });
    }
    let quiet = !generated && args.report.stats.is_empty() && !common.json;
    let endless = generated && args.count.is_none() && args.duration.is_none();
    sender.finish(linger, quiet, endless)
}

/// Whether any subscriber is attached, even if it does not hold the publisher back, or the bridge
/// of a side that connects holds every message.
fn is_heard(publisher: &Publisher, config: &Config) -> bool {
    let link = publisher.link_status();
    publisher.count_subscribers() > 0
        || link.is_some_and(|link| link.address.is_empty())
        || admin::inspect(config)
            .is_ok_and(|info| info.subscribers.iter().any(|subscriber| subscriber.alive))
}

/// Refuses flags that have no effect together.
fn check_meaning(args: &PubArgs, generated: bool) -> Outcome {
    if args.report.wants(Stat::Latency) {
        return Err(Failure::usage(
            "--stats latency is measured where messages arrive: use it with 'olivine sub'",
        ));
    }
    if args.tag.is_some() && args.stdin == Some(InputForm::Frames) {
        return Err(Failure::usage(
            "--tag has no meaning for --stdin frames, which carry their own tags: leave it out",
        ));
    }
    if generated && let Some(size) = args.size.iter().find(|size| **size < SIZE_MIN as u64) {
        return Err(Failure::usage(format!(
            "--size {size} is too small: a generated message takes {SIZE_MIN} bytes or more, for \
             its \
             number and time stamp"
        )));
    }
    if args.stdin.is_some_and(|form| form != InputForm::Raw) && !args.size.is_empty() {
        return Err(Failure::usage(
            "--size has no meaning for --stdin lines, frames or json, which know their lengths: \
             leave it out",
        ));
    }
    match (&args.stated, args.stdin) {
        (None, Some(InputForm::Json)) => {
            return Err(Failure::usage(
                "--stdin json needs --type, which says what a line becomes: add --type 'quote v1: \
                 bid i64, ask i64'",
            ));
        }
        (Some(_), None) if !generated => {}
        (None, _) | (Some(_), Some(InputForm::Json)) => {}
        (Some(_), _) => {
            return Err(Failure::usage(
                "--type makes messages of objects in JSON: give them as MESSAGEs, or with --stdin \
                 json",
            ));
        }
    }
    if args.stdin.is_some() && args.report.tied {
        return Err(Failure::usage(
            "--tied and --stdin cannot be combined: both read standard input",
        ));
    }
    Ok(())
}

fn send_arguments(sender: &mut Sender, args: &PubArgs) -> Outcome {
    let given = args.message.len();
    let times = args
        .count
        .map_or(given, |count| usize::try_from(count).unwrap_or(usize::MAX));
    let mut value = Vec::new();
    for (index, message) in args.message.iter().enumerate().cycle().take(times) {
        let mut message = message.as_bytes();
        if let Some(stated) = &args.stated {
            typed::encode(stated, message, &mut value)
                .map_err(|why| Failure::usage(format!("MESSAGE {}: {why}", index + 1)))?;
            message = &value;
        }
        if !sender.send(args.tag(), message)? {
            break;
        }
    }
    Ok(())
}

/// A publisher, and the state that decides when the next message is sent.
struct Sender {
    publisher: Publisher,
    stop: Stop,
    meter: Meter,
    totals: Totals,
    /// Most messages to send.
    count: u64,
    pacer: Option<Pacer>,
    rest: Rest,
    /// Due time of the next message, once it is known.
    due: Option<u64>,
    /// A request to stop came before the end.
    cut: bool,
    /// The configuration of the channel.
    config: Config,
    awaited: Awaited,
}

impl Sender {
    /// Waits until `wanted` subscribers are attached; false if asked to stop before.
    fn wait_for_subscribers(&mut self, wanted: usize, uri: &str) -> Outcome<bool> {
        let mut said = false;
        while wanted > 0 && !self.publisher.wait_for_subscribers(wanted, Some(LOOK))? {
            if !said {
                let subscribers = plural(wanted as u64, "subscriber");
                log::info(&format!("waiting for {subscribers} on {uri}"));
                said = true;
            }
            self.tell_if_unlinked();
            self.tell_of_link();
            if self.must_end() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether to stop before the end.
    fn must_end(&mut self) -> bool {
        let ends = self.stop.now();
        self.cut |= ends && self.stop.interrupted();
        ends
    }

    /// Sends one message when it is due; false if it is time to end, with the message unsent.
    fn send(&mut self, tag: u32, message: &[u8]) -> Outcome<bool> {
        if !self.wait_until_due()? {
            return Ok(false);
        }
        match self.publisher.try_publish(Outgoing::new(message).tag(tag)) {
            Ok(_) => {}
            Err(error) => {
                if !self.send_waiting(tag, message, error)? {
                    return Ok(false);
                }
            }
        }
        self.sent(message.len());
        Ok(true)
    }

    /// Counts a sent message.
    #[inline]
    fn sent(&mut self, bytes: usize) {
        self.totals.add(bytes);
        self.due = None;
    }

    /// Waits until the next message is due, with periodic checks; false if it is time to end.
    #[inline]
    fn wait_until_due(&mut self) -> Outcome<bool> {
        if self.totals.messages >= self.count {
            return Ok(false);
        }
        let Some(pacer) = &self.pacer else {
            return if self.totals.messages.is_multiple_of(BURST) {
                self.look()
            } else {
                Ok(true)
            };
        };
        let due = pacer.due(self.totals.messages);
        self.due = Some(due);
        if !self.pause_until(due) {
            return Ok(false);
        }
        self.look()
    }

    /// Waits for this time of the pacer; false if it is time to end.
    #[inline]
    fn pause_until(&mut self, due: u64) -> bool {
        let stop = &self.stop;
        let reached = self
            .pacer
            .is_none_or(|pacer| pacer.wait(due, self.rest, || stop.now()));
        reached || !self.must_end()
    }

    /// Writes a due row; false if it is time to end.
    fn look(&mut self) -> Outcome<bool> {
        self.meter.tick(self.totals, Extra::default)?;
        Ok(!self.must_end())
    }

    /// Sends a message that was refused with `error` as soon as there is room; false if asked to
    /// stop.
    #[cold]
    fn send_waiting(&mut self, tag: u32, message: &[u8], error: NotSent) -> Outcome<bool> {
        if !self.wait_for_room(message.len(), error)? {
            return Ok(false);
        }
        self.publisher
            .try_publish(Outgoing::new(message).tag(tag))?;
        Ok(true)
    }

    /// Waits for room for a message of `length` bytes after a refusal with `error`; false if asked
    /// to stop.
    #[cold]
    fn wait_for_room(&mut self, length: usize, error: NotSent) -> Outcome<bool> {
        let mut error = error;
        loop {
            match error {
                NotSent::BackPressured | NotSent::NotConnected => {}
                NotSent::TooLong { max } => return Err(self.too_long(length as u64, max)),
                other => return Err(self.publisher.describe(other).into()),
            }
            if !self.look()? {
                return Ok(false);
            }
            match self.publisher.wait_for_room(length, Some(LOOK)) {
                Ok(()) => {
                    self.awaited.over();
                    return Ok(true);
                }
                Err(refused) => error = refused,
            }
            self.tell_who_holds();
        }
    }

    /// Reports which subscriber or far side holds this publisher back.
    fn tell_who_holds(&mut self) {
        self.tell_if_unlinked();
        if !self.tell_of_link() {
            let config = &self.config;
            let lane = self.publisher.lane();
            self.awaited.goes_on(|| awaited::holder(config, lane));
        }
    }

    /// Reports that new processes no longer find this channel, if its files were removed.
    fn tell_if_unlinked(&mut self) {
        let uri = settings::short(&self.config);
        self.awaited.unlinked(self.publisher.check_unlinked(), &uri);
    }

    /// Reports what the bridge of a remote channel waits for; false if there is none.
    fn tell_of_link(&mut self) -> bool {
        let status = self.publisher.link_status();
        if let Some(status) = &status {
            self.awaited.link(status);
        }
        status.is_some()
    }

    /// The error for a message that the ring cannot take.
    fn too_long(&self, bytes: u64, max: usize) -> Failure {
        let text = format!(
            "message {} of {bytes} bytes is too long: this channel takes up to {max} bytes; {}",
            self.totals.messages + 1,
            remedy_of_length(bytes, self.publisher.capacity()),
        );
        Failure::named(text, NotSent::TooLong { max }.id())
    }
}

/// What helps with a message of `bytes` that a ring of `capacity` cannot take.
fn remedy_of_length(bytes: u64, capacity: u64) -> String {
    if bytes >= CAPACITY_MAX {
        return "split it: the largest --capacity is 2GiB".to_owned();
    }
    format!("use a larger --capacity (now {capacity} bytes) on a new channel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_no_ring_takes_is_to_be_split() {
        let is_usable = |capacity: u64| {
            let uri = format!("shm://x?capacity={capacity}");
            Config::parse(&uri).is_ok()
        };
        assert!(is_usable(CAPACITY_MAX) && !is_usable(2 * CAPACITY_MAX));
        assert!(remedy_of_length(CAPACITY_MAX - 1, 4096).contains("larger --capacity"));
        assert!(remedy_of_length(CAPACITY_MAX, 4096).contains("split it"));
    }
}
