//! The oldest files of the journal, removed before their messages were delivered.
//!
//! A replay into shared memory knows from its stored position that they are missing. No file shows
//! it. So the lane keeps that position until the loss is reported. Beside it, in the number of the
//! journal, it stores up to where the report goes. The next replay continues there, and finds
//! whatever was removed since.

use super::replaying::{Replaying, not_taken};
use super::{JournalInlet, LANE};
use crate::bridge::ingress::Ingress;
use crate::bridge::journal::outlet::link_error;
use crate::bridge::journal::replay::Replay;
use crate::error::{JournalError, LinkError};
use crate::link::Control;

/// Bit in the number of the journal that the lane stores: a replay reports that what is before the
/// position in the lower bits was removed.
const REMOVED: u64 = 1 << 61;

/// Continues behind the removed files that the replay before this one reported. Was it killed
/// before it closed the lane, it has reported nothing: then the loss is found again.
pub(super) fn resume_behind(ingress: &mut Ingress, replay: &Replay) -> Result<(), LinkError> {
    let lane = ingress.positions().find(|known| known.lane == LANE);
    let Some(lane) = lane.filter(|lane| lane.incarnation != 0) else {
        return Ok(());
    };
    let reported = lane.incarnation ^ replay.journal() ^ REMOVED;
    // The number of this journal without a report, or that of another journal, which says nothing
    // about this one. The headers of the files are not needed for the first.
    if reported <= lane.position
        || reported >= REMOVED
        || reported > replay.newest_start().map_err(link_error)?
    {
        return Ok(());
    }
    if !ingress.was_left_open(LANE) {
        let skipped = ingress.skip_to(LANE, reported);
        skipped.map_err(|why| not_taken(why, &replay.path().display().to_string()))?;
    }
    ingress.rename(LANE, replay.journal());
    Ok(())
}

impl Replaying {
    /// Nothing before this position is left to deliver: the lane stores it once it is open, so that
    /// removed files count as lost only from there on.
    pub(super) fn pass_to(&mut self, position: u64) -> Result<(), LinkError> {
        self.passed = self.passed.max(position);
        // Behind a reported hole the position stays, until something is delivered.
        if self.is_open && self.source == self.journal && self.passed > self.position {
            let skipped = self.destination.skip_to(LANE, self.passed);
            skipped.map_err(|why| not_taken(why, &self.path))?;
            self.position = self.passed;
        }
        Ok(())
    }

    /// Fails if the journal now begins at `start`, behind what was delivered.
    pub(super) fn check_removed(&mut self, start: u64, control: &Control) -> Result<(), LinkError> {
        let position = self.position.max(self.passed);
        let bytes = start.saturating_sub(position);
        if bytes == 0 {
            return Ok(());
        }
        if self.accepts_holes {
            self.removed += bytes;
            let note = self.holes_note();
            control.report(|status| status.note = note);
            return self.pass_to(start);
        }
        // The lane is closed with this error. The next replay goes on.
        self.open()?;
        self.source = self.journal ^ REMOVED ^ start;
        self.destination.rename(LANE, self.source);
        Err(link_error(JournalError::Removed {
            path: self.path.clone().into(),
            position,
            start,
            bytes,
        }))
    }
}

impl JournalInlet {
    /// Where `replay` cannot go on: if the file that should follow was removed with all before it,
    /// that is a loss like one before the start. If it is accepted, `replay` continues behind it:
    /// `true`. `false` if that was not the reason.
    ///
    /// # Errors
    ///
    /// That loss.
    pub(super) fn pass_removed(
        &self,
        replay: &mut Replay,
        replaying: &mut Replaying,
        control: &Control,
    ) -> Result<bool, LinkError> {
        let is_started = replaying.is_open || replaying.is_resumed;
        if is_started
            && let Ok(left) = Replay::open(self.path())
            && left.lost_file().is_none()
            && left.journal() == replaying.journal
            && left.position() > replay.position()
        {
            replaying.check_removed(left.position(), control)?;
            *replay = left;
            return Ok(true);
        }
        Ok(false)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Subscriber;
    use crate::bridge::journal::lane::Lane;
    use crate::bridge::journal::{Recorder, RecorderSettings};
    use crate::channel::attach::TypeTag;
    use crate::channel::raw::LaneSource;
    use crate::link::Stop;
    use crate::uri::{Config, Rotation, SyncPolicy};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    /// A journal of several files, of which the oldest were removed.
    fn journal(path: &Path) -> Replay {
        let settings = RecorderSettings::default()
            .sync(SyncPolicy::Never)
            .rotate(Rotation::by_size(4096));
        let mut recorder = Recorder::open(path, &settings).unwrap();
        let lane = recorder.lane(&Lane::new("ticks", 0, 8, 1)).unwrap();
        let mut frame = vec![7; 2048];
        frame[..8].copy_from_slice(&[0, 8, 0, 0, 9, 0, 0, 0]);
        for n in 0..20 {
            recorder.append(lane, n * 2048, n, &frame).unwrap();
            recorder.flush().unwrap();
        }
        recorder.close().unwrap();
        std::fs::remove_file(path).unwrap();
        Replay::open(path).unwrap()
    }

    fn opened(uri: &str) -> (Ingress, Arc<Control>) {
        let typed = TypeTag {
            any: true,
            ..TypeTag::default()
        };
        let control = Control::new().unwrap();
        let source = LaneSource::new("a test", Duration::ZERO);
        let config = Config::parse(uri).unwrap();
        let ingress = Ingress::open(&config, typed, source, "a test", &control).unwrap();
        (ingress, control)
    }

    /// A lane that was not closed as failed has reported nothing: the loss must be found again.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no ring twice")]
    fn removed_files_count_as_reported_only_once_the_lane_has_failed() {
        for is_killed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let replay = journal(&folder.path().join("cut.olv"));
            let (journal, start) = (replay.journal(), replay.position());
            assert!(start > 8 && start < replay.newest_start().unwrap());
            let channels = folder.path().join("channels");
            let uri = format!("shm://ring?dir={}&capacity=4KiB", channels.display());
            let _keeper = Subscriber::open(&uri).unwrap();
            let (mut ingress, control) = opened(&uri);
            ingress.open_from(journal, LANE, 8).unwrap();
            ingress.rename(LANE, journal ^ REMOVED ^ start);
            if is_killed {
                // It leaves the lane as a kill does.
                control.stop(Stop::Now);
            } else {
                control.give_up(&LinkError::Panicked);
            }
            drop(ingress);
            let (mut ingress, control) = opened(&uri);
            resume_behind(&mut ingress, &replay).unwrap();
            let expected = if is_killed { 8 } else { start };
            assert_eq!(ingress.resume(journal), [(LANE, expected)], "{is_killed}");
            control.stop(Stop::Now);
            drop(ingress);
            // What it wrote does not count as a report.
            let (mut ingress, control) = opened(&uri);
            resume_behind(&mut ingress, &replay).unwrap();
            assert_eq!(ingress.resume(journal), [(LANE, expected)], "{is_killed}");
            control.stop(Stop::Now);
        }
    }
}
