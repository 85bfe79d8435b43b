//! Looking at one channel or at a folder of them again and again, for a fraction of what it costs
//! the first time.

use super::look::Mapped;
use super::{AdminError, ChannelInfo, folder_of, missing, open_folder};
use crate::channel::backing::Backing;
use crate::error::OpenError;
use crate::region::{HEADER_BYTES, Words};
use crate::ring::layout::{Geometry, LANE_HEADER_BYTES, frame_bytes, lane};
use crate::segment::{Folder, FolderState, lane_name, open_file};
use crate::sync::{Ordering, fence};
use crate::uri::Config;
use std::path::{Path, PathBuf};

/// Frames whose headers one estimate reads at most.
const FRAMES_MAX: u64 = 16;

/// The names in a folder that can be channels, as [`names`](super::names) returns them, again and
/// again. A folder that has not changed since the last look is checked, but not listed.
#[derive(Debug)]
pub struct Names {
    folder: PathBuf,
    /// What the folder said before it was listed.
    state: Option<FolderState>,
    listed: Vec<String>,
}

impl Names {
    /// Of this folder, which need not exist yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            state: None,
            listed: Vec::new(),
        }
    }

    /// The names now, sorted. A missing folder has none.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read or trusted.
    pub fn look(&mut self) -> Result<&[String], AdminError> {
        let known = self.state.take();
        let Some(opened) = open_folder(&self.folder)? else {
            self.listed.clear();
            return Ok(&self.listed);
        };
        let state = opened.state();
        if state.is_none() || state != known {
            self.listed = opened.names()?;
        }
        self.state = state;
        Ok(&self.listed)
    }

    /// The names of the last look.
    #[must_use]
    pub fn last(&self) -> &[String] {
        &self.listed
    }
}

/// Looks at one channel again and again.
///
/// It maps the channel read-only and keeps it mapped. It takes no slot and no lock, wakes no
/// participant, and reads of each lane two cache lines that its publisher writes while it
/// publishes. It keeps the memory of a removed channel until the next look.
///
/// Each look finds the channel that has the name then, also if the folder of channels was renamed,
/// or another one was mounted over it or over the folder of the channel. A file mounted over one of
/// the channel's files is found when a name in the channel's folder changes next.
#[derive(Debug)]
pub struct Observer {
    config: Config,
    pub(super) mapped: Option<Mapped>,
}

impl Observer {
    /// An observer of the channel of these settings, which need not exist yet. Of `config` only
    /// the name and the folder are used.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            mapped: None,
        }
    }

    /// The channel now. The states of its processes are not read: each is
    /// [`ProcessState::Unknown`](super::ProcessState::Unknown).
    ///
    /// # Errors
    ///
    /// [`OpenError`]; `Missing` if there is none. The next look tries again.
    pub fn look(&mut self) -> Result<ChannelInfo, OpenError> {
        let stays = self.is_current(None);
        self.look_again(stays)
    }

    /// As [`Observer::look`], just after a look of `names` at the folder of the channel, which is
    /// not looked at again. For another folder it is `look`.
    ///
    /// # Errors
    ///
    /// As [`Observer::look`].
    pub fn look_behind(&mut self, names: &Names) -> Result<ChannelInfo, OpenError> {
        let is_its = self.config.dir.as_ref() == Some(&names.folder);
        let stays = self.is_current(names.state.filter(|_| is_its));
        self.look_again(stays)
    }

    /// Whether the mapped channel is the one of that name. `all` is what the folder of all channels
    /// said a moment ago, if that is known.
    pub(super) fn is_current(&mut self, all: Option<FolderState>) -> bool {
        let stays = |mapped: &mut Mapped| {
            // An open channel has no lanes: the first publisher replaces its geometry.
            !mapped.lanes.is_empty() && mapped.is_current(all)
        };
        self.mapped.as_mut().is_some_and(stays)
    }

    /// The mapped channel if it `stays`, also if it was removed since; else the one of that name.
    pub(super) fn look_again(&mut self, stays: bool) -> Result<ChannelInfo, OpenError> {
        if !stays {
            // Unmapped first, so that memory of a removed channel is free also after an error.
            self.mapped = None;
            self.mapped = Some(self.open()?);
        }
        match &mut self.mapped {
            Some(mapped) => Ok(mapped.look()),
            None => Err(self.missing()),
        }
    }

    fn open(&self) -> Result<Mapped, OpenError> {
        self.config.validate()?;
        let name = self.config.channel();
        let folder = Folder::open(&self.config, false)?.ok_or_else(|| self.missing())?;
        let files = folder.channel(name, false)?.ok_or_else(|| self.missing())?;
        Mapped::open(files, name)?.ok_or_else(|| self.missing())
    }

    fn missing(&self) -> OpenError {
        missing(self.config.channel(), &folder_of(&self.config))
    }

    /// Mean bytes of a frame, its header and padding included, of up to 16 committed frames of
    /// `lane` from position `from`. It must be a position at which a frame starts, such as a
    /// cursor. `None` if there is no such frame, or if it may have been overwritten.
    ///
    /// It reads headers only, and copies them out of the file. An estimate: nothing keeps the
    /// publisher from overwriting them meanwhile.
    #[must_use]
    pub fn mean_frame_bytes(&self, lane: usize, from: u64) -> Option<f64> {
        let Mapped {
            attached, lanes, ..
        } = self.mapped.as_ref()?;
        let words = lanes.get(&lane)?;
        let geometry = &attached.geometry;
        let Backing::Files(folder) = &attached.backing else {
            return None;
        };
        let file = open_file(folder, &lane_name(lane), false).ok()??;
        let cursor = words.word(lane::CURSOR).load(Ordering::Acquire);
        let (mut at, mut frames) = (from, 0_u32);
        while at < cursor && u64::from(frames) < FRAMES_MAX {
            let offset = LANE_HEADER_BYTES + at % geometry.capacity;
            let mut header = [0; 8];
            if rustix::io::pread(&file, &mut header, offset).ok()? < header.len() {
                return None;
            }
            at += padded_bytes(u64::from_le_bytes(header), geometry, cursor - at)?;
            frames += 1;
        }
        if frames == 0 || is_overwritten(words, geometry, from) {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "an estimate")]
        Some((at - from) as f64 / f64::from(frames))
    }
}

/// Bytes of the frame with the header `word`, padding included; `None` for a frame that no
/// publisher writes with `left` bytes before its cursor.
pub(super) fn padded_bytes(word: u64, geometry: &Geometry, left: u64) -> Option<u64> {
    let bytes = frame_bytes(word);
    let padded = bytes.checked_next_multiple_of(geometry.align)?;
    (bytes >= HEADER_BYTES && padded <= left).then_some(padded)
}

/// Whether a publisher may have overwritten bytes from `position` on, which were read before.
pub(super) fn is_overwritten(words: &Words, geometry: &Geometry, position: u64) -> bool {
    // OVERRUN: the bytes are read before the limit. A publisher moves the limit before it
    // overwrites.
    fence(Ordering::Acquire);
    let limit = words.word(lane::LIMIT).load(Ordering::Relaxed);
    position < limit.saturating_sub(geometry.capacity)
}
