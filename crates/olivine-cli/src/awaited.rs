//! Reports what a command waits for: after a while, and again when it changes.

use crate::watch::finding::carrying;
use crate::{log, quote, settings};
use olivine::admin::{self, ChannelInfo, ProcessState, SubscriberInfo};
use olivine::{Config, Delivery, LaneState, LaneStatus, LinkStage, LinkStatus, Scheme};
use olivine_bench::text;
use std::time::{Duration, Instant};

/// How long a wait is not reported.
const SILENT_MAX: Duration = Duration::from_millis(700);

/// A wait, and the last report about it.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    since: Option<Instant>,
    /// Subject of the last line.
    said: Option<String>,
    /// Whether the removal of the channel was reported.
    said_unlinked: bool,
}

/// Something that a command waits for.
#[derive(Debug)]
pub(crate) struct What {
    /// Equal as long as nothing has changed that needs another line.
    pub(crate) about: String,
    pub(crate) line: String,
}

impl From<String> for What {
    fn from(line: String) -> Self {
        let about = line.clone();
        Self { about, line }
    }
}

impl Awaited {
    /// The wait is over; the next one is again silent for a while.
    pub(crate) fn over(&mut self) {
        self.since = None;
    }

    /// Reports once that the files of the channel were removed from their folder.
    pub(crate) fn unlinked(&mut self, is_unlinked: bool, uri: &str) {
        if is_unlinked && !self.said_unlinked {
            self.said_unlinked = true;
            log::warn(&format!(
                "{uri} was removed from its folder (by rm, or by systemd-logind with RemoveIPC=yes \
                 at the last logout): programs that open it now get a new channel; start this one \
                 again to join it"
            ));
        }
    }

    /// Whether anything was reported.
    pub(crate) fn has_spoken(&self) -> bool {
        self.said.is_some()
    }

    /// The wait continues: reports it, if it took long enough and was not reported yet.
    pub(crate) fn goes_on(&mut self, what: impl FnOnce() -> Option<What>) {
        if self.since.get_or_insert_with(Instant::now).elapsed() >= SILENT_MAX
            && let Some(what) = what()
        {
            self.say(what);
        }
    }

    /// The state of the bridge behind a handle: which far side does not reply, and when it does.
    pub(crate) fn link(&mut self, status: &LinkStatus) {
        match status.stage {
            LinkStage::Waiting => self.goes_on(|| note(status).map(What::from)),
            LinkStage::Connected => {
                self.over();
                if self.said.take().is_some() {
                    log::info(&status.note);
                }
            }
            _ => self.over(),
        }
    }

    /// Reports it, unless the last line had the same subject.
    fn say(&mut self, what: What) {
        if self.said.as_ref() != Some(&what.about) {
            log::info(&what.line);
            self.said = Some(what.about);
        }
    }
}

/// The note of a bridge. On the side that connects, also that it retries.
pub(crate) fn note(status: &LinkStatus) -> Option<String> {
    let tries = status.stage == LinkStage::Waiting && status.address.is_empty();
    match status.note.as_str() {
        "" => None,
        note if tries && status.failures > 0 => {
            Some(format!("{note}; trying again until it answers"))
        }
        note => Some(note.to_owned()),
    }
}

/// A line if a channel of this machine has no publisher.
pub(crate) fn publisher(config: &Config) -> Option<What> {
    if config.scheme() != Scheme::Shm {
        return None;
    }
    let heard = admin::inspect(config).is_ok_and(|info| {
        let mut publishers = info.publishers.iter();
        publishers.any(|one| one.state == LaneState::Open)
    });
    (!heard).then(|| format!("waiting for a publisher on {}", settings::short(config)).into())
}

/// That messages go into a local channel of this capacity in bytes without a subscriber.
pub(crate) fn unheard(config: &Config, capacity: u64) -> String {
    let uri = settings::short(config);
    format!(
        "{uri} has no subscriber yet: up to {} of it stay for 'olivine sub {uri} --from oldest{}'; \
         when that ends and no other program uses it, the rest is gone",
        text::bytes(capacity),
        quote::dir(config.get_dir()),
    )
}

/// A line for a subscriber of a local channel that begins with the next message: it has messages,
/// and no subscriber ever joined. `remedy` reads them.
pub(crate) fn unread(config: &Config, remedy: impl FnOnce(&str) -> String) -> Option<String> {
    if config.scheme() != Scheme::Shm || settings::from_oldest(config) {
        return None;
    }
    let info = admin::inspect(config).ok()?;
    let lanes = info.publishers.iter();
    let bytes: u64 = lanes.map(|one| one.cursor.min(info.capacity_bytes)).sum();
    let uri = settings::short(config);
    (info.subscribers_ever == 0 && bytes > 0).then(|| {
        format!(
            "{uri} has {} of older messages that no subscriber has read, and this one begins \
             behind them: {} reads them; they are gone when the last program that uses the channel \
             ends",
            text::bytes(bytes),
            remedy(&uri),
        )
    })
}

/// A line if the last publisher of a local channel is gone and has not closed.
pub(crate) fn killed(lanes: &[LaneStatus], uri: &str) -> Option<What> {
    if lanes.iter().any(|lane| lane.state == LaneState::Open) {
        return None;
    }
    let mut lanes = lanes.iter();
    let lane = lanes.rfind(|lane| lane.state == LaneState::Dead)?;
    let (index, pid) = (lane.index, lane.publisher_pid);
    let line = format!(
        "the publisher of lane {index} of {uri} (process {pid}) is gone without closing: it was \
         killed, or is a bridge that was stopped; waiting for the next publisher"
    );
    Some(line.into())
}

/// The subscriber that holds back the publisher in `lane` of a local channel, and the remedy.
pub(crate) fn holder(config: &Config, lane: usize) -> Option<What> {
    if config.scheme() != Scheme::Shm {
        return None;
    }
    let info = admin::inspect(config).ok()?;
    let (slowest, lag_bytes) = slowest(&info, lane)?;
    Some(held_by(slowest, lag_bytes, config))
}

/// The subscriber that the publisher in `lane` waits for, and its lag behind the cursor.
fn slowest(info: &ChannelInfo, lane: usize) -> Option<(&SubscriberInfo, u64)> {
    let place = info.publishers.iter().position(|one| one.lane == lane)?;
    let cursor = info.publishers[place].cursor;
    let gating = info.subscribers.iter().filter(|one| {
        one.delivery == Delivery::Reliable && !one.evicted && (one.alive || one.name.is_some())
    });
    gating
        .filter_map(|one| Some((one, cursor.saturating_sub(*one.positions.get(place)?))))
        .max_by_key(|(_, lag_bytes)| *lag_bytes)
}

fn held_by(slowest: &SubscriberInfo, lag_bytes: u64, config: &Config) -> What {
    let uri = settings::short(config);
    let dir = quote::dir(config.get_dir());
    let lag = text::bytes(lag_bytes);
    // The pid in its PID namespace: another container has other numbers.
    let (pid, is_stopped) = (slowest.pid, slowest.process == ProcessState::Stopped);
    let name = slowest.name.as_deref();
    let carrier = name.and_then(carrying);
    let what = match (carrier, slowest.alive) {
        (Some(carrier), _) => carrier,
        (None, true) => "subscriber",
        (None, false) => "durable subscriber",
    };
    let named = name.map_or_else(String::new, |name| format!(" '{name}'"));
    let remedy = match name {
        Some(name) => format!(
            "start it again, or forget it and what it has not read with \
             'olivine rm {uri} --name {}{dir}'",
            quote::word_or(name, "NAME")
        ),
        None => "its end frees the publisher, --slow evict:TIME on a new channel does without it"
            .to_owned(),
    };
    let line = if slowest.alive {
        let comma = name.map_or("", |_| ",");
        let does = match (is_stopped, carrier) {
            (true, _) => format!(
                "it is stopped, and '{}' lets it go on",
                quote::resume([pid])
            ),
            (_, Some(_)) => {
                "its log says why, as a full disk or a far side that is away".to_owned()
            }
            _ => "it reads slowly or not at all".to_owned(),
        };
        let stays = name.map_or("", |_| "it keeps its place after its end: then ");
        format!(
            "{uri} waits for its {what}{named}{comma} process {pid}, which is {lag} behind: \
             {does}; {stays}{remedy}"
        )
    } else {
        format!("{uri} waits for its {what}{named}, which is gone and {lag} behind: {remedy}")
    };
    let about = format!("{} {pid} {} {is_stopped}", slowest.slot, slowest.alive);
    What { about, line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_wait_is_silent_and_a_change_is_reported_again() {
        let mut awaited = Awaited::default();
        awaited.goes_on(|| panic!("too early to look"));
        assert!(!awaited.has_spoken());
        let long_ago = Instant::now().checked_sub(SILENT_MAX);
        let mut told = |about: &str| {
            awaited.since = long_ago;
            let before = awaited.said.clone();
            let what = What {
                about: about.into(),
                line: String::new(),
            };
            awaited.goes_on(|| Some(what));
            awaited.said != before
        };
        assert!(told("a"));
        assert!(!told("a"));
        assert!(told("b"));
    }

    #[test]
    fn connection_ends_the_wait() {
        let mut awaited = Awaited {
            said_unlinked: false,
            since: Some(Instant::now()),
            said: Some("waiting".into()),
        };
        let mut status = LinkStatus::default();
        assert_eq!(note(&status), None);
        status.stage = LinkStage::Connected;
        awaited.link(&status);
        assert!(awaited.since.is_none() && !awaited.has_spoken());
    }
}
