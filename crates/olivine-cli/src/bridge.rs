//! `olivine bridge`: carries messages between channels, in one process for one pair or for a file
//! of pairs.

mod carried;
mod unheard;

use crate::args::Common;
use crate::args::carry::BridgeArgs;
use crate::args::channel::full_uri;
use crate::awaited::{self, Awaited};
use crate::failure::{Failure, Outcome, complain, with_id};
use crate::output::{print, print_json, table};
use crate::stop::{LOOK, Stop};
use crate::{log, progress, quote, settings};
use carried::Carried;
use olivine::small_file::{self, SETTINGS_FILE_MAX};
use olivine::{Bridge, Config, LinkError, LinkStage, LinkStatus, Scheme, Start, admin};
use olivine_bench::text;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use unheard::Unheard;

/// After a request to stop: the longest time without progress.
const STALLED: Duration = Duration::from_secs(5);
/// After a request to stop: the longest total time, even with progress.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Interval of checks of ending bridges.
const DRAIN_LOOK: Duration = Duration::from_millis(5);
/// Time left for an abandoned bridge.
const CUT_SHORT: Duration = Duration::from_millis(1);

/// The file that `--config` names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    bridge: Vec<Pair>,
}

/// One bridge of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    pub(crate) source: String,
    pub(crate) destination: String,
    #[serde(default)]
    pub(crate) keep: bool,
}

struct Running {
    pair: Pair,
    bridge: Bridge,
    note: String,
    /// No other bridge runs here: its failure needs no place.
    is_alone: bool,
    /// Why it failed was printed.
    has_complained: bool,
    /// The source of messages, and its state.
    source: Config,
    awaited: Awaited,
    /// The destination, while it has no subscriber.
    unheard: Unheard,
}

/// Runs bridges until they have ended, or a signal asks to stop.
pub(crate) fn run(args: &BridgeArgs, common: Common) -> Outcome {
    carry(pairs(args)?, common)
}

/// Runs these bridges until they have ended, or a signal asks to stop, and reports. A bridge whose
/// source [has an end](settings::has_end) is complete only there.
pub(crate) fn carry(pairs: Vec<Pair>, common: Common) -> Outcome {
    let stop = Stop::install()?;
    let (mut running, mut all_begun) = (Vec::new(), true);
    let is_alone = pairs.len() == 1;
    let mut not_begun = None;
    for pair in pairs {
        match begin(pair, is_alone, &stop) {
            Ok(Some(one)) => running.push(one),
            Ok(None) => {
                all_begun = false;
                break;
            }
            // Those that run would leave their places behind: they end in order first.
            Err(error) => {
                not_begun = Some(error);
                break;
            }
        }
    }
    if running.is_empty()
        && let Some(error) = not_begun
    {
        return Err(error);
    }
    let mut carried = Carried::new(&running);
    while not_begun.is_none() && !stop.now() && !running.iter().all(|one| one.bridge.has_ended()) {
        for one in &mut running {
            one.tell();
        }
        carried.show(&running);
        #[allow(
            clippy::disallowed_methods,
            reason = "the bridges have their threads; this one only reports"
        )]
        std::thread::sleep(LOOK);
    }
    // Before the request to stop, which ends them, too.
    let ended: Vec<bool> = running.iter().map(|one| one.bridge.has_ended()).collect();
    let leave = stop.by_person() || not_begun.is_some();
    drain(&mut running, leave, &mut carried);
    progress::clear_line();
    let mut complete = all_begun;
    let mut rows = Vec::new();
    let mut failed = false;
    for (mut one, ended) in running.into_iter().zip(ended) {
        one.tell();
        let outcome = if leave {
            one.bridge.leave(CUT_SHORT)
        } else {
            one.bridge.finish(CUT_SHORT)
        };
        if let Some(name) = one.bridge.place() {
            let channel = place(&one.pair.source);
            log::info(&format!(
                "the place '{name}' in {channel} is kept for the next start: publishers wait for \
                 it; 'olivine rm {channel} --name {}{}' gives it up",
                quote::word_or(name, "NAME"),
                quote::dir(one.source.get_dir()),
            ));
        }
        // Messages carried during the stop count, too.
        let control = one.bridge.status();
        one.unheard.tell(&control, true);
        if control.undelivered > 0 {
            failed = true;
            complain(&format!(
                "{}: {} messages were not delivered: they wait for the next bridge of the same \
                 two URIs",
                place(&one.pair.source),
                control.undelivered
            ));
        }
        match outcome {
            Ok(delivered) => {
                if control.abandoned > 0 {
                    failed = true;
                    complain(&format!(
                        "{}: gave up {} of those it serves, with messages that they had not got",
                        place(&one.pair.source),
                        control.abandoned
                    ));
                }
                let has_end = settings::has_end(&one.source);
                // The end of a journal is a part of it.
                let delivered = delivered && (ended || !has_end);
                complete &= delivered || !has_end;
                let left = (!delivered).then(|| one.left_bytes(&control)).flatten();
                if let Some(left) = left {
                    let (to, at) = (place(&one.pair.destination), control.journal_position);
                    // The channel ends with its last participant, and the place in the journal with
                    // it.
                    let ring = config(&one.pair.destination)?;
                    let next = match admin::inspect(&ring) {
                        Ok(_) => format!("the next replay into {to} continues there"),
                        Err(_) => format!("{to} is gone, so go on with 'from=position:{at}'"),
                    };
                    log::info(&format!(
                        "{}: stopped at position {at}, and up to {} of it are left: {next}",
                        place(&one.pair.source),
                        text::bytes(left),
                    ));
                }
                rows.push(Row::new(one.pair, control, delivered, left));
            }
            Err(error) => {
                failed = true;
                one.complain(error);
                rows.push(Row::new(one.pair, control, false, None));
            }
        }
    }
    let reported = match all_begun || !rows.is_empty() {
        true => report(&rows, common),
        false => Ok(()),
    };
    if let Some(error) = not_begun {
        return Err(error);
    }
    reported?;
    if failed {
        return Err(Failure::BadResult);
    }
    if complete { Ok(()) } else { stop.cut_short() }
}

/// Starts one bridge; `None` if a signal stopped it before.
fn begin(mut pair: Pair, is_alone: bool, stop: &Stop) -> Outcome<Option<Running>> {
    for uri in [&mut pair.source, &mut pair.destination] {
        *uri = full_uri(uri)?.into_owned();
    }
    let (source, destination) = (config(&pair.source)?, config(&pair.destination)?);
    let unheard = Unheard::new(&destination);
    let unread = awaited::unread(&source, |_| {
        let oldest = source.clone().from(Start::Oldest).uri();
        format!("{} as the source", quote::word_or(&oldest, "from=oldest"))
    });
    let (from, to, keep) = (source.clone(), destination.clone(), pair.keep);
    let start = move || Bridge::start(&from, &to, !keep);
    // It may read long in a journal.
    let bridge = if settings::has_end(&source) {
        let place = place(&pair.source);
        let Some(bridge) = stop.opened(&place, start, || {})? else {
            complain(&format!(
                "stopped while it looked for the first message in {place}"
            ));
            return Ok(None);
        };
        bridge?
    } else {
        start()?
    };
    // A listening bridge subscribes for its far sides, which say where they begin.
    let subscribes = || admin::inspect(&source).is_ok_and(|info| info.subscribers_ever > 0);
    if let Some(line) = unread.filter(|_| subscribes()) {
        log::info(&line);
    }
    Ok(Some(Running {
        pair,
        bridge,
        note: String::new(),
        is_alone,
        has_complained: false,
        source,
        awaited: Awaited::default(),
        unheard,
    }))
}

/// Lets bridges deliver what was published before the request to stop, while any of them makes
/// progress, for at most [`DRAIN_MAX`]. Replays end at once: their journal keeps the rest.
fn drain(running: &mut [Running], leave: bool, carried: &mut Carried) {
    for one in &*running {
        if leave {
            one.bridge.ask_to_leave();
        } else {
            one.bridge.ask_to_finish();
        }
    }
    for one in &mut *running {
        if one.source.scheme() == Scheme::File {
            // Its failure is reported at the end.
            let _ = one.bridge.finish(CUT_SHORT);
        }
    }
    let mut deadline = DrainDeadline::new(Instant::now());
    while !running.iter().all(|one| one.bridge.has_ended()) {
        let acknowledged = running
            .iter()
            .map(|one| one.bridge.status().acknowledged_bytes);
        if !deadline.is_ahead(acknowledged.sum(), Instant::now()) {
            return;
        }
        carried.show(running);
        #[allow(
            clippy::disallowed_methods,
            reason = "the bridges have their threads; this one only reports"
        )]
        std::thread::sleep(LOOK.min(DRAIN_LOOK));
    }
}

/// Deadline of bridges that were asked to stop.
#[derive(Debug)]
struct DrainDeadline {
    began: Instant,
    /// The last progress, and its time.
    moved: Instant,
    progress: u64,
}

impl DrainDeadline {
    fn new(now: Instant) -> Self {
        Self {
            began: now,
            moved: now,
            progress: 0,
        }
    }

    fn is_ahead(&mut self, progress: u64, now: Instant) -> bool {
        if progress != self.progress {
            (self.progress, self.moved) = (progress, now);
        }
        let since = |then: Instant| now.saturating_duration_since(then);
        since(self.moved) < STALLED && since(self.began) < DRAIN_MAX
    }
}

impl Running {
    /// Reports changes since the last check.
    fn tell(&mut self) {
        let status = self.bridge.status();
        if status.stage == LinkStage::Failed {
            if let Err(error) = self.bridge.finish(CUT_SHORT) {
                self.complain(error);
            }
            return;
        }
        let note = awaited::note(&status).unwrap_or_default();
        if note != self.note && !note.is_empty() {
            log::info(&format!("{}: {note}", place(&self.pair.source)));
        }
        self.note = note;
        self.unheard.tell(&status, status.stage == LinkStage::Ended);
        let begins = status.stage != LinkStage::Ended;
        if begins && status.bytes == 0 && !self.awaited.has_spoken() {
            let source = &self.source;
            self.awaited.goes_on(|| awaited::publisher(source));
        }
    }

    /// Bytes of the journal, of all its channels, behind the last replayed message; `None` if none
    /// was replayed, or if there is no journal.
    fn left_bytes(&self, status: &LinkStatus) -> Option<u64> {
        let path = self.source.get_file().get_path();
        let path = path.filter(|_| self.source.scheme() == Scheme::File);
        let outline = carried::outline(path.filter(|_| status.journal_position > 0)?)?;
        Some(outline.end.saturating_sub(status.journal_position))
    }

    /// Prints why it failed, once: when it is seen, not after the others have ended.
    fn complain(&mut self, error: LinkError) {
        if std::mem::replace(&mut self.has_complained, true) {
            return;
        }
        let reason = with_id(&error.into());
        match self.is_alone {
            true => complain(&reason),
            false => complain(&format!("{}: {reason}", place(&self.pair.source))),
        }
    }
}

fn pairs(args: &BridgeArgs) -> Outcome<Vec<Pair>> {
    match (&args.source, &args.destination, &args.config) {
        (Some(source), Some(destination), None) => Ok(vec![Pair {
            source: source.clone(),
            destination: destination.clone(),
            keep: args.keep,
        }]),
        (None, None, Some(path)) => read(path),
        _ => Err(Failure::usage(
            "name a source and a destination, or a file of them with --config; see --help",
        )),
    }
}

fn read(path: &Path) -> Outcome<Vec<Pair>> {
    let text = small_file::read_text(path, SETTINGS_FILE_MAX).map_err(|error| {
        let error = anyhow::Error::new(error);
        Failure::Failed(error.context(format!("cannot read {}", path.display())))
    })?;
    parse(&text).map_err(|problem| Failure::usage(format!("{}{problem}", path.display())))
}

/// The bridges of a file, or what follows its name in an error.
fn parse(text: &str) -> Result<Vec<Pair>, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map(|before| before.matches('\n').count() + 1);
        let line = line.map_or_else(String::new, |line| format!(", line {line}"));
        format!("{line}: {}", error.message())
    })?;
    if file.bridge.is_empty() {
        return Err(": it names no [[bridge]]".to_owned());
    }
    Ok(file.bridge)
}

fn config(uri: &str) -> Outcome<Config> {
    let config = Config::parse(uri)?;
    if config.scheme() == Scheme::Inproc {
        return Err(Failure::usage(format!(
            "{uri} is memory of one program that the tool cannot reach: use shm://"
        )));
    }
    Ok(config)
}

/// A bridge that is over.
struct Row {
    pair: Pair,
    status: LinkStatus,
    /// Everything was delivered: of a journal also its end, unless it is followed.
    delivered: bool,
    /// Bytes that a stopped replay left in its journal, if they are known.
    left: Option<u64>,
}

impl Row {
    fn new(pair: Pair, status: LinkStatus, delivered: bool, left: Option<u64>) -> Self {
        Self {
            pair,
            status,
            delivered,
            left,
        }
    }
}

fn report(rows: &[Row], common: Common) -> Outcome {
    if common.json {
        let bridges: Vec<Value> = rows
            .iter()
            .map(|row| {
                let (pair, status) = (&row.pair, &row.status);
                json!({
                    "source": shown(&pair.source),
                    "destination": shown(&pair.destination),
                    "stage": status.stage.word(),
                    "note": status.note,
                    "delivered": row.delivered,
                    "journal_left_bytes": row.left,
                    "messages": status.messages,
                    "carried_bytes": status.bytes,
                    "acknowledged_bytes": status.acknowledged_bytes,
                    "connections": status.connections,
                    "failures": status.failures,
                    "broken": broken(status),
                    "refusals": status.refusals,
                    "abandoned": status.abandoned,
                    "undelivered": status.undelivered,
                })
            })
            .collect();
        return print_json(&json!({ "bridges": bridges }));
    }
    let heads = [
        "SOURCE",
        "DESTINATION",
        "STAGE",
        "MESSAGES",
        "CARRIED",
        "BROKEN",
        "REFUSED",
        "ABANDONED",
        "UNDELIVERED",
    ];
    let cells = rows
        .iter()
        .map(|row| {
            let (pair, status) = (&row.pair, &row.status);
            // Ended, or stopped by us in time: nothing is left.
            let stage = match status.stage {
                LinkStage::Failed => "failed",
                _ if row.delivered => "done",
                _ => "stopped",
            };
            vec![
                place(&pair.source),
                place(&pair.destination),
                stage.to_owned(),
                messages(status),
                text::bytes(status.bytes),
                broken(status).to_string(),
                status.refusals.to_string(),
                status.abandoned.to_string(),
                status.undelivered.to_string(),
            ]
        })
        .collect();
    print(&table(&heads, &[3, 4, 5, 6, 7, 8], cells))
}

/// Messages that were carried, as the table shows them. A side that sends counts bytes only.
fn messages(status: &LinkStatus) -> String {
    match (status.messages, status.bytes) {
        (0, 1..) => "-".to_owned(),
        (messages, _) => messages.to_string(),
    }
}

/// Broken connections. A failed attempt to connect does not count.
fn broken(status: &LinkStatus) -> u64 {
    // A listener's peer leaves or breaks; a connecting side may also fail to connect.
    let stands = status.peers > 0 || status.stage == LinkStage::Ended;
    let over = status.connections.saturating_sub(u64::from(stands));
    if status.address.is_empty() {
        status.failures.min(over)
    } else {
        status.failures
    }
}

/// A URI without its secrets.
fn shown(uri: &str) -> String {
    Config::parse(uri).map_or_else(|_| place(uri), |config| config.uri())
}

/// A URI without its settings, which may be long or secret.
pub(crate) fn place(uri: &str) -> String {
    uri.split('?').next().unwrap_or(uri).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_established_connection_can_break() {
        let mut status = LinkStatus::default();
        status.failures = 3;
        assert_eq!(broken(&status), 0, "no far side was there yet");
        status.connections = 1;
        assert_eq!(broken(&status), 1, "and is gone");
        status.peers = 1;
        assert_eq!(broken(&status), 0, "it stands");
        status.connections = 2;
        assert_eq!(broken(&status), 1, "a second one does");
        (status.peers, status.stage) = (0, LinkStage::Ended);
        assert_eq!(broken(&status), 1, "and ended in order");
    }

    #[test]
    fn stopping_bridge_is_waited_for_while_it_makes_progress() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut deadline = DrainDeadline::new(began);
        assert!(deadline.is_ahead(0, at(4)));
        assert!(!deadline.is_ahead(0, at(5)), "no progress");
        let mut deadline = DrainDeadline::new(began);
        for second in 1..30 {
            assert!(deadline.is_ahead(second, at(second)), "second {second}");
        }
        assert!(!deadline.is_ahead(30, at(30)), "progress, and too long");
    }

    #[test]
    fn a_file_names_any_number_of_bridges() {
        let text = "[[bridge]]\nsource = \"shm://a\"\ndestination = \"tcp://0.0.0.0:9000/a\"\n\
                    [[bridge]]\nsource = \"shm://b\"\n\
                    destination = \"file:///data/b.olv\"\nkeep = true\n";
        let pairs = parse(text).unwrap();
        assert_eq!(pairs.len(), 2);
        assert!(!pairs[0].keep && pairs[1].keep);
        assert_eq!(pairs[1].destination, "file:///data/b.olv");
    }

    #[test]
    fn a_file_with_a_mistake_is_refused() {
        for (text, expected) in [
            ("", "bridge"),
            ("bridge = []", "no [[bridge]]"),
            ("[[bridge]]\nsource = \"shm://a\"\n", "destination"),
            ("[[bridge]]\nsource = 1\ndestination = \"x\"\n", "string"),
            (
                "[[bridge]]\nsource = \"a\"\ndestination = \"b\"\nspeed = 1\n",
                ", line 4: unknown field `speed`",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{text:?}: {error}");
        }
    }
}
