//! Opening a channel: finding or making it, comparing the settings, and joining under its lock.
//!
//! A death can interrupt every step, and the next opener repeats it. The kernel releases the locks.
//! A half-removed channel is marked as removed. The next claimer clears a half-cleared slot again.

use super::attached::{
    Attached, has_unseen_messages, is_abandoned, is_current, lock_membership, remove_files,
};
use super::backing::{Backing, InprocMemory, memory_file, to_bytes};
use super::behind;
use super::boot::{self, Earlier};
use super::dying_holder::HolderWait;
use super::fields;
#[cfg(feature = "tcp")]
use super::shape::DEFAULT_MAX;
use super::shape::{ShapeRequest, map_shape, read_record, settle};
pub(crate) use super::shape::{ShapeRole, TypeTag, least_for};
use super::slots;
use crate::affinity;
use crate::error::OpenError;
use crate::liveness::Locks;
#[cfg(feature = "tcp")]
use crate::message::{Fields, KnownType};
use crate::region::Words;
use crate::ring::layout::{
    CONTROL_MAGIC, Geometry, LAYOUT_VERSION, NO_POSITION, control, fixed, lock_byte,
};
use crate::segment::{self, CONTROL, ChannelFolder, Folder, map_control};
use crate::sync::Ordering;
use crate::uri::{Config, Scheme};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an opener waits for others that join or leave.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 10 });
/// Least number of rounds in which the channel came or went, before opening fails.
const TRIES_MIN: u32 = 100;

/// Descriptors that joining a channel needs beyond those that are open while it is made.
const SPARE_DESCRIPTORS: usize = 4;

/// Finds or makes the channel and runs `join` while its membership lock is held. The settings are
/// valid: see `open.rs`.
///
/// # Errors
///
/// [`OpenError`]. Everything that was made is removed again, except what other participants use
/// already.
pub(crate) fn open<T>(
    config: &Config,
    typed: &TypeTag,
    part: ShapeRole,
    mut join: impl FnMut(&mut Attached) -> Result<T, OpenError>,
) -> Result<(Attached, T), OpenError> {
    let request = ShapeRequest::of(config, typed, part);
    let first = request.first();
    let started = Instant::now();
    let mut holder_wait = HolderWait::default();
    // Another process holds a channel of an earlier boot.
    let mut busy = None;
    // Others may join and leave meanwhile; each of their rounds takes microseconds.
    let mut tries = 0;
    // Rounds count too: if this process was stopped, the elapsed time says nothing about the
    // others.
    while started.elapsed() <= BUSY_MAX || tries < TRIES_MIN {
        tries += 1;
        let found = match config.scheme() {
            Scheme::Inproc => Some(find_inproc(config, &first)?),
            Scheme::Sealed => Some(make_unnamed(config, &first)?),
            // Schemes with a bridge in this build never come here: see `open.rs`.
            elsewhere @ (Scheme::Tcp | Scheme::Nats | Scheme::File) => {
                return Err(OpenError::NoBridge {
                    scheme: elsewhere.word(),
                });
            }
            Scheme::Shm => match find_files(config, &first) {
                Err(refused @ OpenError::Busy { .. }) => {
                    busy = Some(refused);
                    HolderWait::step();
                    None
                }
                found => {
                    busy = None;
                    found?
                }
            },
        };
        let Some(mut attached) = found else { continue };
        lock_membership(&attached, started)?;
        let joined = is_usable(config, &mut attached, &request).and_then(|usable| {
            if !usable {
                return Ok(None);
            }
            slots::note_absences(&attached);
            let joined = settle(&mut attached, &request).and_then(|()| join(&mut attached));
            if joined.is_err() && is_abandoned(&attached) && !has_unseen_messages(&attached) {
                let _ = remove_files(&attached);
            }
            let joined = joined?;
            crate::points::pass("open.joined");
            // Not before: an opener that fails or dies on the way leaves no fields. A new publisher
            // has sent no message yet, so a subscriber that sees one sees the fields.
            request.state_fields(&attached);
            if let (Backing::Files(folder), Some(note)) = (&attached.backing, &config.note) {
                behind::store(folder, note);
            }
            // If the channel was removed meanwhile as damaged, which takes no lock, start again. A
            // lane that we made belongs to the next channel of this name.
            Ok(is_current(&attached).then_some(joined))
        });
        attached.locks.unlock(lock_byte::MEMBERSHIP);
        match joined {
            Ok(Some(joined)) => return Ok((attached, joined)),
            Ok(None) => {}
            Err(refused) if holder_wait.is_worth_a_wait(&attached, &refused) => {
                // Others join and leave meanwhile.
                drop(attached);
                HolderWait::step();
            }
            Err(error) => return Err(error),
        }
    }
    Err(busy.unwrap_or_else(|| OpenError::Restless {
        channel: config.channel().to_owned(),
        waited: BUSY_MAX,
    }))
}

/// Process `pid` held the membership lock for longer than an opener waits.
pub(crate) fn busy(channel: &str, pid: u64) -> OpenError {
    OpenError::Busy {
        channel: channel.to_owned(),
        pid,
        waited: BUSY_MAX,
    }
}

/// Whether the channel can be joined: `false` if it was being removed, and is gone now. The caller
/// holds the membership lock.
fn is_usable(
    config: &Config,
    attached: &mut Attached,
    request: &ShapeRequest,
) -> Result<bool, OpenError> {
    if !is_current(attached) {
        return Ok(false);
    }
    let state = attached.control.word(control::STATE);
    if state.load(Ordering::Acquire) == control::REMOVED {
        // The participant that removed it died half way, or its last handle is closing: finish the
        // removal, and start again.
        remove_files(attached)?;
        return Ok(false);
    }
    // The shape was read before the lock was taken.
    attached.refresh()?;
    let stored = fields::stored(&attached.control, attached.geometry.type_hash);
    let Err(mismatch) = request.agree(config.channel(), &attached.geometry, &stored) else {
        return Ok(true);
    };
    if !is_abandoned(attached) || has_unseen_messages(attached) {
        return Err(mismatch);
    }
    // No participant lives and no durable subscriber may return: remove the channel, so that it is
    // made again with the new shape.
    remove_files(attached)?;
    Ok(false)
}

fn find_inproc(config: &Config, first: &Geometry) -> Result<Attached, OpenError> {
    let memory = InprocMemory::find(
        config.channel(),
        first.control_bytes(),
        &control_bytes(first),
    )?;
    attach_inproc(config.channel(), memory)
}

/// The memory of a sealed channel's publisher. It has no name.
fn make_unnamed(config: &Config, first: &Geometry) -> Result<Attached, OpenError> {
    let path = config.path().unwrap_or_else(|| Path::new(""));
    let (bytes, fill) = (first.control_bytes(), control_bytes(first));
    let control = memory_file(path, bytes, None, &fill)?;
    let memory = InprocMemory::unnamed(path.to_owned(), control, HashMap::new())?;
    attach_inproc(config.channel(), memory)
}

/// Maps a channel in memory without a name.
pub(super) fn attach_inproc(
    channel: &str,
    memory: Arc<InprocMemory>,
) -> Result<Attached, OpenError> {
    let (geometry, control) = read_control(memory.control.as_fd(), Path::new(channel), true)?;
    Ok(Attached {
        channel: channel.to_owned(),
        control,
        geometry,
        locks: memory.locks(),
        backing: Backing::Process(memory),
        slot: None,
    })
}

/// `None` if another participant created or removed the channel meanwhile: try again.
fn find_files(config: &Config, first: &Geometry) -> Result<Option<Attached>, OpenError> {
    let missing = |folder: &Path| OpenError::Missing {
        channel: config.channel().to_owned(),
        path: folder.to_owned(),
    };
    let folder = Folder::open(config, true)?.ok_or_else(|| missing(&segment::default_folder()))?;
    let Some(files) = folder.channel(config.channel(), true)? else {
        return Ok(None);
    };
    // We may have made the folder.
    let opened = open_control(files, config.channel(), true)
        .inspect_err(|_| folder.remove_if_empty(config.channel()));
    if let Err(OpenError::EarlierBoot { .. }) = &opened {
        if let Some(files) = folder.channel(config.channel(), false)?
            && let Earlier::Busy(pid) = boot::remove_earlier(&files)?
        {
            return Err(busy(config.channel(), pid));
        }
        return Ok(None);
    }
    let Some(attached) = opened? else {
        let files = folder
            .channel(config.channel(), false)
            .inspect_err(|_| folder.remove_if_empty(config.channel()));
        let Some(files) = files? else {
            return Ok(None);
        };
        // Removing a channel needs its locks, and locks need descriptors. So reserve those before
        // the channel exists.
        let spare = segment::spare_descriptors(&files, SPARE_DESCRIPTORS)
            .inspect_err(|_| files.remove_if_empty())?;
        let made = segment::create_file(
            &files,
            CONTROL,
            first.control_bytes(),
            None,
            &control_bytes(first),
        );
        if let Err(error) = made {
            files.remove_if_empty();
            return Err(error);
        }
        drop(spare);
        return Ok(None);
    };
    Ok(Some(attached))
}

/// What an opener gets: see [`planned_shape`].
#[cfg(feature = "tcp")]
#[derive(Debug)]
pub(crate) struct PlannedShape {
    pub(crate) geometry: Geometry,
    /// With the fields that are stored, else with those of the opener.
    pub(crate) known: KnownType,
    /// A participant has fixed the type.
    pub(crate) is_typed: bool,
}

/// The shape that an opener gets with these settings. Makes nothing.
#[cfg(feature = "tcp")]
pub(crate) fn planned_shape(config: &Config, typed: &TypeTag) -> PlannedShape {
    let any = TypeTag {
        any: true,
        ..typed.clone()
    };
    let request = ShapeRequest::of(config, &any, ShapeRole::Fixes);
    let found = find_open(config).map(|attached| {
        let known = fields::known_type(&attached.control, &attached.geometry);
        (attached.geometry, known)
    });
    // It compares no types, so no fields.
    let agrees = |found: &Geometry| request.agree(config.channel(), found, &Fields::default());
    let found = found.filter(|(found, _)| agrees(found).is_ok());
    let (found, stored) = found.unwrap_or_else(|| (request.first(), KnownType::default()));
    let is_typed = found.is_fixed(fixed::TYPE);
    let mut shape = request.merged(&found, None);
    let mut known = KnownType {
        hash: shape.type_hash,
        name: shape.type_name.clone(),
        fields: Fields::default(),
    };
    known.take_fields(&stored);
    known.take_fields(&typed.known);
    if config.capacity.is_none() && !found.is_fixed(fixed::CAPACITY) {
        // Its capacity becomes that of the source, up to the largest default: see `least_for`.
        shape.capacity = DEFAULT_MAX;
    }
    PlannedShape {
        geometry: shape,
        known,
        is_typed,
    }
}

/// A channel of files that is in use, as a process sees it that does not take part.
#[cfg(feature = "tcp")]
pub(crate) fn find_open(config: &Config) -> Option<Attached> {
    if config.scheme() != Scheme::Shm {
        return None;
    }
    let folder = Folder::open(config, false).ok()??;
    let files = folder.channel(config.channel(), false).ok()??;
    let attached = open_control(files, config.channel(), false).ok()??;
    let state = attached.control.word(control::STATE);
    let is_live = state.load(Ordering::Acquire) != control::REMOVED;
    is_live.then_some(attached)
}

/// Opens and maps the control file of a channel's folder. `None` if there is none.
pub(crate) fn open_control(
    files: ChannelFolder,
    channel: &str,
    writable: bool,
) -> Result<Option<Attached>, OpenError> {
    let path = files.path().join(CONTROL);
    let (file, locks) = loop {
        let Some(file) = segment::open_file(&files, CONTROL, writable)? else {
            return Ok(None);
        };
        // The file was replaced in between. That happens once for each removal of the channel.
        if let Some(locks) =
            Locks::named(files.as_fd(), CONTROL, &file).map_err(io_error("open", &path))?
        {
            break (file, locks);
        }
    };
    boot::check(file.as_fd(), &path)?;
    let (geometry, control) = read_control(file.as_fd(), &path, writable)?;
    Ok(Some(Attached {
        channel: channel.to_owned(),
        backing: Backing::Files(files),
        control,
        geometry,
        locks,
        slot: None,
    }))
}

/// Checks the header of a control file, copies its geometry, and maps the whole file.
fn read_control(
    file: std::os::fd::BorrowedFd<'_>,
    path: &Path,
    writable: bool,
) -> Result<(Geometry, Words), OpenError> {
    let damaged = |problem: &str| {
        let problem = format!(
            "{problem}; if it is not a channel of yours remove it by hand, else with \
             'olivine rm --force'"
        );
        OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        }
    };
    let header = map_control(file, path, 4096, writable)?;
    // Relaxed: written before the file had a name, and never changed.
    let word = |index: usize| header.word(index).load(Ordering::Relaxed);
    if word(control::MAGIC) != CONTROL_MAGIC {
        return Err(damaged("it does not start with the mark of a channel"));
    }
    if word(control::VERSION) != LAYOUT_VERSION {
        return Err(OpenError::Layout {
            path: path.to_owned(),
            found: word(control::VERSION),
            expected: LAYOUT_VERSION,
        });
    }
    let record = read_record(&header).map_err(|problem| damaged(&problem))?;
    map_shape(file, path, record, writable)
}

/// The control file of a new channel, as bytes.
pub(crate) fn control_bytes(geometry: &Geometry) -> Vec<u8> {
    let mut words = vec![0_u64; usize::try_from(geometry.control_bytes() / 8).unwrap_or(0)];
    words[control::MAGIC] = CONTROL_MAGIC;
    words[control::VERSION] = LAYOUT_VERSION;
    words[control::STATE] = control::LIVE;
    words[control::GEOMETRY..control::GEOMETRY + control::GEOMETRY_WORDS]
        .copy_from_slice(&geometry.to_words());
    words[control::CREATOR_PID] = u64::from(std::process::id());
    words[control::INCARNATION] = random_id();
    words[control::BOOT..control::BOOT + control::BOOT_WORDS].copy_from_slice(&segment::boot());
    words[control::ALWAYS] = 1;
    for slot in 0..geometry.slots() {
        for lane in 0..geometry.lanes() {
            words[geometry.position(slot, lane)] = NO_POSITION;
        }
    }
    to_bytes(&words)
}

/// A random number, never 0. Two draws are different, except by accident.
#[must_use]
pub fn random_id() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds its hashers from the system's random numbers.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u64(crate::clock::monotonic_ns());
    hasher.write_u32(std::process::id());
    hasher.finish().max(1)
}

/// The error of a system call outside `segment`.
pub(crate) fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(std::io::Error) -> OpenError + 'a {
    move |source| OpenError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Pins the calling thread if the settings say so.
pub(crate) fn pin(config: &Config) -> Result<(), OpenError> {
    let Some(cpu) = config.cpu else { return Ok(()) };
    affinity::pin(cpu).map_err(|source| {
        let allowed: Vec<_> = affinity::allowed().iter().map(u32::to_string).collect();
        OpenError::Cpu {
            cpu,
            allowed: allowed.join(","),
            source,
        }
    })
}
