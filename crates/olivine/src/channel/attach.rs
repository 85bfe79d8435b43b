//! Coming: finding or making a channel, agreeing with its settings, and joining under its lock.
//!
//! Every step can be interrupted by a death and done again by the next comer: locks are dropped by the
//! kernel, a half-removed channel says so, a half-cleared slot is cleared again by whoever claims it.

use super::attached::{
    Attached, holds_unseen, is_abandoned, is_current, lock_membership, remove_files,
};
use super::place::{Inside, Place, memory_file, to_bytes};
use super::slots;
use crate::error::OpenError;
use crate::liveness::Locks;
use crate::region::Words;
use crate::ring::layout::{
    CONTROL_MAGIC, Geometry, LAYOUT_VERSION, NO_POSITION, control, lock_byte,
};
use crate::segment::{self, CONTROL, ChannelFolder, Folder, map_control};
use crate::sync::Ordering;
use crate::uri::{CAPACITY_DEFAULT, Config, Scheme, Slow};
use std::borrow::Cow;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long joining waits for others to finish joining or leaving.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(10);

/// The type of a channel's messages as an opener sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeTag {
    pub(crate) hash: u64,
    pub(crate) name: Cow<'static, str>,
    /// Takes the channel as it is: for bridges, which do not look into messages.
    pub(crate) any: bool,
}

/// What a new channel would look like under these settings.
pub(crate) fn wanted(config: &Config, typed: &TypeTag) -> Geometry {
    Geometry {
        capacity: config.capacity.unwrap_or(CAPACITY_DEFAULT),
        align: config.align.unwrap_or(8),
        publishers_max: match config.scheme() {
            Scheme::Sealed => 1,
            _ => u64::from(config.publishers_max.unwrap_or(16)),
        },
        subscribers_max: u64::from(
            config
                .subscribers_max
                .unwrap_or_else(|| config.subscribers.max(64)),
        ),
        origin: config.origin,
        evict_after_ns: match config.slow {
            Some(Slow::Evict(after)) => u64::try_from(after.as_nanos()).unwrap_or(u64::MAX),
            _ => 0,
        },
        type_hash: typed.hash,
        type_name: typed.name.clone().into_owned(),
    }
}

/// Finds or makes the channel and runs `join` while its membership lock is held.
///
/// # Errors
///
/// [`OpenError`]; nothing that was made on the way stays behind, except what others already use.
pub(crate) fn open<T>(
    config: &Config,
    typed: TypeTag,
    mut join: impl FnMut(&mut Attached) -> Result<T, OpenError>,
) -> Result<(Attached, T), OpenError> {
    config.validate()?;
    let wanted = wanted(config, &typed);
    if wanted.align * 2 > wanted.capacity {
        let rule = "the ring must hold at least two frames of 'align' bytes";
        return Err(crate::uri::UriError::Pair {
            first: "align",
            second: "capacity",
            rule,
        }
        .into());
    }
    let started = Instant::now();
    // Others come and go meanwhile; each round of theirs takes microseconds.
    while started.elapsed() <= BUSY_MAX {
        let found = match config.scheme() {
            Scheme::Inproc => Some(find_inside(config, &wanted)?),
            Scheme::Sealed => Some(make_unnamed(config, &wanted)?),
            // Those that this build can reach never come here: see `open.rs`.
            elsewhere @ (Scheme::Tcp | Scheme::Nats | Scheme::File) => {
                return Err(OpenError::NoBridge {
                    scheme: elsewhere.word(),
                });
            }
            Scheme::Shm => find_files(config, &wanted)?,
        };
        let Some(mut attached) = found else { continue };
        lock_membership(&attached, started)?;
        let joined = is_usable(config, &attached, &wanted, typed.any).and_then(|usable| {
            if !usable {
                return Ok(None);
            }
            slots::note_absences(&attached);
            let joined = join(&mut attached);
            if joined.is_err() && is_abandoned(&attached) && !holds_unseen(&attached) {
                let _ = remove_files(&attached);
            }
            let joined = joined?;
            // Removed as a damaged one meanwhile, which asks for no lock: a lane that we made belongs to whoever makes
            // the next channel here.
            Ok(is_current(&attached).then_some(joined))
        });
        attached.locks.unlock(lock_byte::MEMBERSHIP);
        if let Some(joined) = joined? {
            return Ok((attached, joined));
        }
    }
    Err(OpenError::Restless {
        channel: config.channel().to_owned(),
        waited: BUSY_MAX,
    })
}

/// Whether the channel can be joined: `false` if it was on its way out, and is gone now. The caller holds the
/// membership lock.
fn is_usable(
    config: &Config,
    attached: &Attached,
    wanted: &Geometry,
    any_type: bool,
) -> Result<bool, OpenError> {
    if !is_current(attached) {
        return Ok(false);
    }
    let state = attached.control.word(control::STATE);
    if state.load(Ordering::Acquire) == control::REMOVED {
        // Whoever removed it died on the way, or its last handle is going: finish, and start over.
        remove_files(attached)?;
        return Ok(false);
    }
    let Err(mismatch) = agree(config, &attached.geometry, wanted, any_type) else {
        return Ok(true);
    };
    if !is_abandoned(attached) || holds_unseen(attached) {
        return Err(mismatch);
    }
    // Nobody lives here and nobody will come back for it: make way for the new shape.
    remove_files(attached)?;
    Ok(false)
}

fn find_inside(config: &Config, wanted: &Geometry) -> Result<Attached, OpenError> {
    let inside = Inside::find(
        config.channel(),
        wanted.control_bytes(),
        &control_bytes(wanted),
    )?;
    attach_inside(config.channel(), inside)
}

/// The memory of a sealed channel's publisher, which nobody else ever finds.
fn make_unnamed(config: &Config, wanted: &Geometry) -> Result<Attached, OpenError> {
    let path = config.socket().unwrap_or_else(|| Path::new(""));
    let (bytes, fill) = (wanted.control_bytes(), control_bytes(wanted));
    let control = memory_file(path, bytes, None, &fill)?;
    let inside = Inside::unnamed(path.to_owned(), control, HashMap::new())?;
    attach_inside(config.channel(), inside)
}

/// Maps a channel in memory without a name.
pub(super) fn attach_inside(channel: &str, inside: Arc<Inside>) -> Result<Attached, OpenError> {
    let (geometry, control) = read_control(inside.control.as_fd(), Path::new(channel), true)?;
    Ok(Attached {
        channel: channel.to_owned(),
        control,
        geometry,
        locks: inside.locks(),
        place: Place::Process(inside),
    })
}

/// `None` where somebody else came or went meanwhile and it has to be looked at again.
fn find_files(config: &Config, wanted: &Geometry) -> Result<Option<Attached>, OpenError> {
    let missing = |folder: &Path| OpenError::Missing {
        channel: config.channel().to_owned(),
        path: folder.to_owned(),
    };
    let folder = Folder::open(config, true)?.ok_or_else(|| missing(&segment::default_folder()))?;
    let Some(files) = folder.channel(config.channel(), true)? else {
        return Ok(None);
    };
    let opened = open_control(files, config.channel(), true).inspect_err(|_| {
        // The folder may be one that we made.
        if let Ok(Some(files)) = folder.channel(config.channel(), false) {
            files.remove_if_empty();
        }
    });
    let Some(attached) = opened? else {
        let Some(files) = folder.channel(config.channel(), false)? else {
            return Ok(None);
        };
        let made = segment::create_file(
            &files,
            CONTROL,
            wanted.control_bytes(),
            None,
            &control_bytes(wanted),
        );
        if let Err(error) = made {
            files.remove_if_empty();
            return Err(error);
        }
        return Ok(None);
    };
    Ok(Some(attached))
}

/// The shape of the channel of files that these settings would join; `None` where they would make one, or it cannot be
/// told. Nothing is made.
#[cfg(feature = "tcp")]
pub(crate) fn look(config: &Config, typed: &TypeTag) -> Option<Geometry> {
    if config.scheme() != Scheme::Shm {
        return None;
    }
    let folder = Folder::open(config, false).ok()??;
    let files = folder.channel(config.channel(), false).ok()??;
    let attached = open_control(files, config.channel(), false).ok()??;
    let state = attached.control.word(control::STATE);
    let live = state.load(Ordering::Acquire) != control::REMOVED;
    let agreed = agree(config, &attached.geometry, &wanted(config, typed), true).is_ok();
    (live && agreed).then_some(attached.geometry)
}

/// Opens and maps the control file of a channel's folder. `None` if there is none.
pub(crate) fn open_control(
    files: ChannelFolder,
    channel: &str,
    writable: bool,
) -> Result<Option<Attached>, OpenError> {
    let path = files.path().join(CONTROL);
    let Some(file) = segment::open_file(&files, CONTROL, writable)? else {
        return Ok(None);
    };
    let (geometry, control) = read_control(file.as_fd(), &path, writable)?;
    let locks = Locks::file(&file).map_err(io_error("open", &path))?;
    Ok(Some(Attached {
        channel: channel.to_owned(),
        place: Place::Files(files),
        control,
        geometry,
        locks,
    }))
}

/// Checks a control file's header, copies its geometry, and maps the whole.
fn read_control(
    file: std::os::fd::BorrowedFd<'_>,
    path: &Path,
    writable: bool,
) -> Result<(Geometry, Words), OpenError> {
    let damaged = |problem: &str| {
        let problem = format!(
            "{problem}; if it is no channel of yours remove it by hand, else with 'olivine rm --force'"
        );
        OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        }
    };
    let header = map_control(file, path, 4096, writable)?;
    // Relaxed: written before the file had a name, never changed.
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
    let mut words = [0; control::GEOMETRY_WORDS];
    for (n, place) in words.iter_mut().enumerate() {
        *place = word(control::GEOMETRY + n);
    }
    let geometry = Geometry::from_words(&words).map_err(|problem| damaged(&problem))?;
    let control = map_control(file, path, geometry.control_bytes(), writable)?;
    Ok((geometry, control))
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
    words[control::INCARNATION] = draw();
    words[control::ALWAYS] = 1;
    for slot in 0..geometry.slots() {
        for lane in 0..geometry.lanes() {
            words[geometry.position(slot, lane)] = NO_POSITION;
        }
    }
    to_bytes(&words)
}

/// A number that nobody else draws, for all that accident can do; never 0.
pub(crate) fn draw() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library seeds its hashers from the system's random numbers.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u64(crate::clock::monotonic_ns());
    hasher.write_u32(std::process::id());
    hasher.finish().max(1)
}

/// Compares the settings that were asked for with what the channel has.
pub(super) fn agree(
    config: &Config,
    found: &Geometry,
    wanted: &Geometry,
    any_type: bool,
) -> Result<(), OpenError> {
    let channel = config.channel();
    let slow = |ns: u64| {
        if ns == 0 {
            Slow::Wait
        } else {
            Slow::Evict(Duration::from_nanos(ns))
        }
        .to_string()
    };
    let pairs = [
        (
            "capacity",
            config.capacity.is_some(),
            wanted.capacity.to_string(),
            found.capacity.to_string(),
        ),
        (
            "align",
            config.align.is_some(),
            wanted.align.to_string(),
            found.align.to_string(),
        ),
        (
            "publishers_max",
            config.publishers_max.is_some(),
            wanted.publishers_max.to_string(),
            found.publishers_max.to_string(),
        ),
        (
            "subscribers_max",
            config.subscribers_max.is_some(),
            wanted.subscribers_max.to_string(),
            found.subscribers_max.to_string(),
        ),
        (
            "slow",
            config.slow.is_some(),
            slow(wanted.evict_after_ns),
            slow(found.evict_after_ns),
        ),
    ];
    for (key, given, asked, found) in pairs {
        if given && asked != found {
            return Err(OpenError::Mismatch {
                channel: channel.to_owned(),
                key,
                asked,
                found,
            });
        }
    }
    if wanted.type_hash != found.type_hash && !any_type {
        let show = crate::ring::layout::type_shown;
        return Err(OpenError::Type {
            channel: channel.to_owned(),
            asked: show(&wanted.type_name),
            found: show(&found.type_name),
        });
    }
    Ok(())
}

/// Errors of system calls outside `segment`.
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
    crate::probe::pin_to_cpu(cpu).map_err(|source| {
        let allowed: Vec<_> = crate::probe::allowed_cpus()
            .iter()
            .map(u32::to_string)
            .collect();
        OpenError::Cpu {
            cpu,
            allowed: allowed.join(","),
            source,
        }
    })
}
