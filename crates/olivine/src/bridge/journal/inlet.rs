//! Replaying into a ring.
//!
//! Everything goes through one lane, in the order of the recording. Its positions at the source are
//! those of the journal: after a killed replay into shared memory, the next one continues exactly
//! where it ended.

mod awaited;
mod failed;
mod removed;
mod replaying;

use super::lane::Lane;
use super::outlet::link_error;
use super::pace::Pacer;
use super::replay::{PASSES_MAX, Replay, ReplayState};
use super::search::Search;
use super::stop_when::StopWhen;
use crate::bridge::{Destination, Inlet};
use crate::error::{JournalError, LinkError, OpenError};
use crate::link::{Control, LinkStage};
use crate::uri::{Config, Start, Unfinished};
use awaited::AwaitedChannel;
use failed::Failures;
use replaying::{Replaying, resumed_at};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The only lane.
const LANE: u32 = 0;
/// Bit in the number of the journal that the lane stores: the replay stopped at a hole.
const AT_HOLE: u64 = 1 << 63;
/// As [`AT_HOLE`]: the hole there was reported, and nothing behind it was delivered yet.
const PAST_HOLE: u64 = 1 << 62;
/// Pause between two checks for a missing journal.
const MISSING_NAP: Duration = Duration::from_millis(100);
/// Longest wait for a journal to grow.
const GROW_NAP: Duration = Duration::from_secs(1);

/// Replays the journal of a `file://` channel.
#[derive(Debug)]
pub(crate) struct JournalInlet {
    config: Config,
    /// The first selected lane, found when the ring got its geometry; it may be far behind the
    /// start of the journal.
    first: Option<Lane>,
    /// What was found behind damage when the ring got its geometry is not searched again.
    search: Search,
}

impl JournalInlet {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            first: None,
            search: Search::default(),
        }
    }

    fn path(&self) -> &Path {
        self.config.path().unwrap_or_else(|| Path::new(""))
    }

    /// Whether `lane` belongs to the selected channel.
    fn wants(&self, lane: &Lane) -> bool {
        !self.config.groups.file.named || lane.channel == self.config.channel()
    }

    /// The first recorded lane of the selected channel from the start that the settings name on,
    /// else of the whole journal; reads up to there. The replay reports errors of the journal.
    fn first_lane(&self, search: &Search) -> Option<Lane> {
        let from = |start| self.find_lane(start, search).ok()?.ok();
        match self.config.from {
            Start::Oldest | Start::Now => from(Start::Oldest),
            start => from(start).or_else(|| from(Start::Oldest)),
        }
    }

    /// The first recorded lane of the selected channel from `start` on, also behind damage, or the
    /// names of the channels recorded there.
    fn find_lane(
        &self,
        start: Start,
        search: &Search,
    ) -> Result<Result<Lane, BTreeSet<String>>, JournalError> {
        let mut replay = self.replay_by(search)?;
        match start {
            Start::Time(time) => replay.seek_time(time)?,
            Start::Position(position) => replay.seek_position(position)?,
            Start::Oldest | Start::Now => {}
        }
        let (mut names, mut passes) = (BTreeSet::new(), 0);
        loop {
            let run = match replay.next_run() {
                Ok(Some(run)) => run,
                Ok(None) => break,
                Err(error @ JournalError::Damaged { .. }) if passes < PASSES_MAX => {
                    passes += 1;
                    match replay.skip_damage()? {
                        Some(_) => continue,
                        None => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            };
            if self.wants(run.lane) {
                return Ok(Ok(run.lane.clone()));
            }
            if !names.contains(&run.lane.channel) {
                names.insert(run.lane.channel.clone());
            }
        }
        Ok(Err(names))
    }

    /// The journal at its oldest message; reading ends early if that is asked for.
    fn replay_by(&self, search: &Search) -> Result<Replay, JournalError> {
        let mut replay = Replay::open(self.path())?;
        replay.search_by(search);
        Ok(replay)
    }

    /// Refuses a channel that was never recorded if others were: its name is wrong.
    fn check_known(&self, search: &Search) -> Result<(), LinkError> {
        crate::points::look("journal.sought");
        let found = self.find_lane(Start::Oldest, search).map_err(link_error)?;
        let Some(names) = found.err().filter(|names| !names.is_empty()) else {
            return Ok(());
        };
        let names: Vec<_> = names.into_iter().collect();
        Err(link_error(JournalError::NoChannel {
            path: self.path().to_owned(),
            channel: self.config.channel().to_owned(),
            held: names.join(", "),
        }))
    }

    /// Refuses a start behind the end, unless the journal may grow up to it.
    fn check_position(&self, position: u64, search: &Search) -> Result<(), JournalError> {
        let replay = self.replay_by(search)?;
        if self.config.groups.file.follow || replay.is_recorded_into()? {
            return Ok(());
        }
        self.check_end(&replay, position)
    }

    /// Refuses a position behind the end. Of a place of a name: what was read before it is not in
    /// the journal any more, and what was recorded there since would be passed in silence.
    fn check_end(&self, replay: &Replay, position: u64) -> Result<(), JournalError> {
        let may_be_behind = replay.newest_start().is_ok_and(|start| position >= start);
        // Damage before the end is found, and reported, where the replay comes to it.
        let end = may_be_behind.then(|| self.end(replay.search())).flatten();
        match end.filter(|end| position > *end) {
            Some(end) => Err(JournalError::NoPosition {
                path: self.path().to_owned(),
                position,
                end,
            }),
            None => Ok(()),
        }
    }

    /// Opens the journal; with `follow` it may not exist yet.
    fn open(&self, control: &Arc<Control>, search: &Search) -> Result<Option<Replay>, LinkError> {
        loop {
            match self.replay_by(search) {
                Ok(replay) => return Ok(Some(replay)),
                Err(JournalError::Missing { .. }) if self.config.groups.file.follow => {
                    control.report(|status| {
                        status.note =
                            format!("waiting for {} to be recorded", self.path().display());
                    });
                    control.tried();
                    control.pause(MISSING_NAP);
                    if control.stopping().is_some() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(link_error(error)),
            }
        }
    }

    /// Seeks to the position where the ring continues, or to the start that the settings name.
    /// Returns the position that the lane stores until the first delivery.
    fn seek(&self, replay: &mut Replay, resumed: Option<u64>) -> Result<u64, JournalError> {
        if let Some(position) = resumed {
            replay.seek_resumed(position)?;
            self.check_end(replay, position)?;
            return Ok(position);
        }
        match self.config.from {
            Start::Oldest => {}
            Start::Now => {
                replay.seek_end()?;
                replay.forget_failures();
            }
            Start::Time(time) => {
                replay.seek_time(time)?;
                // The replay finds the same error again, and reports it.
                let first = match replay.next_run() {
                    Ok(Some(run)) => Some(run.journal_position),
                    Ok(None) => Some(replay.position()),
                    Err(_) => None,
                };
                replay.seek_time(time)?;
                return Ok(first.unwrap_or_else(|| replay.position()));
            }
            Start::Position(position) => {
                self.check_position(position, replay.search())?;
                replay.seek_position(position)?;
                // Runs before it in its block are skipped.
                return Ok(position.max(replay.position()));
            }
        }
        Ok(replay.position())
    }
}

impl Inlet for JournalInlet {
    fn shape(&mut self, ring: &mut Config) -> Result<(), OpenError> {
        self.first = self.first_lane(&self.search);
        if let (Some(lane), None) = (&self.first, ring.align) {
            ring.align = Some(lane.align.into());
        }
        Ok(())
    }

    fn run(
        mut self: Box<Self>,
        mut destination: Destination,
        control: &Arc<Control>,
        _until_end: bool,
    ) -> Result<(), LinkError> {
        let was_there = self.path().exists();
        let asked = Arc::clone(control);
        let stop = StopWhen::new(move || asked.must_stop());
        let search = self.search.with(stop.clone());
        let Some(mut replay) = self.open(control, &search)? else {
            return Ok(());
        };
        // A lane that was missing then may exist now.
        let first = self.first.take().or_else(|| self.first_lane(&search));
        // The first recording decides the type, if the ring accepts any.
        let is_typed = first.is_some() || !destination.typed().any;
        if let Some(lane) = first {
            destination.adopt(&lane.message_type, 0);
        }
        let mut ingress = destination.unchecked_ingress(&self.who())?;
        ingress.keep_unread_failures();
        // From here on a failure is reported before the lanes close.
        let failed = |error: LinkError| {
            control.give_up(&error);
            error
        };
        let unread = |error: JournalError| failed(link_error(error));
        let (journal, begin) = (replay.journal(), replay.position());
        let resumed_at_hole = resumed_at(&ingress, journal ^ AT_HOLE);
        // A replay that was killed before it closed the lane has reported nothing.
        let is_reported = !ingress.was_left_open(LANE);
        let reported_hole = resumed_at_hole
            .filter(|_| is_reported)
            .or_else(|| resumed_at(&ingress, journal ^ PAST_HOLE));
        removed::resume_behind(&mut ingress, &replay).map_err(failed)?;
        // It is kept until something behind the hole is delivered.
        let source = match reported_hole {
            Some(_) => journal ^ PAST_HOLE,
            None => journal,
        };
        if resumed_at_hole.is_some() {
            ingress.rename(LANE, source);
        }
        // A replay of another journal of this path may have left the lane open.
        let problem = |problem| LinkError::Damaged {
            place: self.path().display().to_string(),
            problem,
        };
        let followed = ingress.follow(source).map_err(problem);
        followed.map_err(failed)?;
        let resumed = resumed_at(&ingress, source);
        let position = match self.seek(&mut replay, resumed) {
            Err(error) if stop.is_why(&error) => {
                control.leave_undelivered(0);
                return Ok(());
            }
            position => position.map_err(unread)?,
        };
        // An earlier replay may have delivered everything, and was killed before it reported the
        // end.
        let is_resumed = resumed.is_some();
        let is_owed = ingress.was_left_open(LANE) && is_resumed;
        let continues = match resumed.filter(|position| *position > begin) {
            Some(position) => format!(
                "continues at position {position} of {}, where an earlier replay into this \
                 channel stopped",
                self.path().display()
            ),
            None => String::new(),
        };
        let mut replaying = Replaying {
            path: self.path().display().to_string(),
            position,
            journal,
            source,
            pacer: Pacer::new(self.config.groups.file.pace.unwrap_or_default()),
            channel: None,
            checked: None,
            is_open: false,
            is_resumed,
            is_live: !was_there || is_owed || replay.is_recorded_into().map_err(unread)?,
            saw_end: false,
            failures: Failures::new(is_resumed.then(|| ingress.kept_failure(LANE)).flatten()),
            holes: (0, 0),
            removed: 0,
            passed: 0,
            accepts_holes: self.accepts_unfinished(),
            reported_hole,
            continues,
            destination: ingress,
            bytes: 0,
        };
        // A lane that has ended stays closed until something follows: opened and left, it would
        // end a second time.
        if is_typed && (!is_resumed || is_owed) {
            replaying.open().map_err(failed)?;
        }
        control.report(|status| {
            status.stage = LinkStage::Connected;
            status.peers = 1;
            status.connections = 1;
            status.note.clone_from(&replaying.continues);
        });
        control.tried();
        // A file that cannot be read was not removed: the replay reports it.
        if is_resumed && replay.lost_file().is_none() {
            let start = replay.position();
            if let Err(error) = replaying.check_removed(start, control) {
                return replaying.end_with(error, control);
            }
        }
        match self.replay(&mut replay, &mut replaying, control) {
            // The next replay continues here.
            Err(error) if stop.has_ended(&error) => {
                control.leave_undelivered(0);
                Ok(())
            }
            Err(error) => replaying.end_with(error, control),
            ended => ended,
        }
    }
}

impl JournalInlet {
    /// Identifies this source of messages.
    fn who(&self) -> String {
        let channel = if self.config.groups.file.named {
            self.config.channel()
        } else {
            ""
        };
        format!("journal {} {channel}", self.path().display())
    }

    /// Whether an incomplete recording is replayed like a complete one.
    fn accepts_unfinished(&self) -> bool {
        self.config.groups.file.unfinished == Some(Unfinished::Accept)
    }

    /// Whether the stream ends where the replay found no recorder; `false` if one has come.
    fn is_over(&self, replay: &Replay, replaying: &Replaying) -> Result<bool, LinkError> {
        if replaying.channel.is_none() && !replaying.is_resumed {
            self.check_known(replay.search())?;
        }
        if self.accepts_unfinished() {
            return Ok(true);
        }
        replay.is_finished().map_err(link_error)
    }

    /// Where the journal ends now; `None` if that cannot be found. What is wrong there is reported
    /// where the replay comes to it.
    fn end(&self, search: &Search) -> Option<u64> {
        let mut replay = self.replay_by(search).ok()?;
        replay.seek_end().ok()?;
        Some(replay.position())
    }

    fn replay(
        &self,
        replay: &mut Replay,
        replaying: &mut Replaying,
        control: &Arc<Control>,
    ) -> Result<(), LinkError> {
        let mut note = String::new();
        let search = replay.search().clone();
        let stop = &search.stop;
        let mut looked_again = false;
        let mut awaited =
            AwaitedChannel::new(self.config.groups.file.named && !replaying.is_resumed);
        // End of the journal when the end was requested: a recorder that continues cannot delay the
        // end.
        let mut goal = None;
        loop {
            if control.stopping().is_some() {
                let goal = match goal {
                    Some(goal) => goal,
                    None => *goal.insert(self.end(&search).unwrap_or(u64::MAX)),
                };
                if control.must_stop() || replay.position() >= goal {
                    if replay.position() < goal {
                        // The next replay continues here.
                        control.leave_undelivered(0);
                    }
                    return Ok(());
                }
            }
            let run = match replay.next_run() {
                Ok(run) => run,
                Err(error) if stop.is_why(&error) => return Err(link_error(error)),
                Err(error) => {
                    let is_damaged = matches!(error, JournalError::Damaged { .. });
                    if is_damaged && self.pass_removed(replay, replaying, control)? {
                        continue;
                    }
                    let position = replay.position();
                    replaying.failures.come_to(replay.take_failures(), position);
                    return Err(link_error(error));
                }
            };
            if let Some(run) = run {
                let reasons = run.failed_before.to_vec();
                replaying.failures.come_to(reasons, run.journal_position);
                if self.wants(run.lane) {
                    replaying.check(run.lane)?;
                    looked_again = false;
                    awaited.has_come(self, control);
                    if !replaying.pass_failures(control)? {
                        control.leave_undelivered(0);
                        return Ok(());
                    }
                    replaying.check_hole(&run, control)?;
                    let (position, time) = (run.journal_position, run.time_ns);
                    if !replaying.deliver(position, time, run.frames, control)? {
                        control.leave_undelivered(0);
                        return Ok(());
                    }
                } else {
                    awaited.saw(&run.lane.channel);
                    // The position that the lane stores does not pass a failure.
                    if replaying.has_lane() && !replaying.pass_failures(control)? {
                        control.leave_undelivered(0);
                        return Ok(());
                    }
                    if !replaying.has_failure_ahead() {
                        replaying.pass_to(run.journal_position + run.frames.len() as u64)?;
                    }
                }
                continue;
            }
            let (state, position) = (replay.state(), replay.position());
            let reasons = match &state {
                // What is torn belongs to a later recording.
                ReplayState::Torn(_) => replay.take_failures(),
                _ => replay.take_failed_before(),
            };
            replaying.failures.come_to(reasons, position);
            if let ReplayState::Torn(torn) = &state {
                note = format!(
                    "the last {} bytes of {} are not a whole block and were not replayed: its \
                    recorder was killed during a write, or the file was cut",
                    torn.bytes,
                    torn.path.display()
                );
                control.report(|status| status.note.clone_from(&note));
            }
            if let ReplayState::Failed { reason } = &state
                && (self.config.groups.file.follow || self.accepts_unfinished())
            {
                note = format!("the recording failed: {reason}");
                control.report(|status| status.note.clone_from(&note));
            }
            if control.stopping().is_some() {
                // The next replay continues here.
                return Ok(());
            }
            if !self.config.groups.file.follow && state != ReplayState::Growing {
                let is_cut = matches!(state, ReplayState::NextMissing { .. });
                if looked_again && is_cut && self.pass_removed(replay, replaying, control)? {
                    continue;
                }
                if looked_again && self.is_over(replay, replaying)? {
                    break;
                }
                // A recorder may have appended before it was seen to have left.
                looked_again = true;
                continue;
            }
            if self.config.groups.file.follow && replaying.looks_again(&state, control)? {
                continue;
            }
            looked_again = false;
            if self.config.groups.file.follow {
                awaited.report(self, &search, control)?;
            }
            let wake = control.wake_fd();
            replay.wait_or(GROW_NAP, Some(wake)).map_err(link_error)?;
        }
        if !replaying.pass_failures(control)? {
            control.leave_undelivered(0);
            return Ok(());
        }
        // Also if nothing was recorded: a lane must report the end.
        replaying.open()?;
        // As before a first message, if an earlier replay has delivered all of them.
        while replaying.is_resumed
            && replaying.bytes == 0
            && replaying.destination.lacks_subscribers(LANE)
        {
            if control.must_stop() {
                // The end was not reported: the next replay does that.
                control.leave_undelivered(0);
                return Ok(());
            }
            control.pause(MISSING_NAP);
        }
        if self.config.name.is_some() {
            // A later replay of this name continues behind what it delivered.
            replaying.destination.close_lane(LANE);
        } else {
            replaying.destination.end();
        }
        if note.is_empty() {
            note = replaying.holes_note();
        }
        if note.is_empty() {
            note = std::mem::take(&mut replaying.continues);
        }
        control.report(|status| {
            status.stage = LinkStage::Ended;
            status.note = note;
        });
        Ok(())
    }
}
