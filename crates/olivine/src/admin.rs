//! Channels from outside: listing, inspecting and removing them, forgetting a durable subscriber,
//! and collecting unused channels.
//!
//! Inspection maps everything read-only and takes no lock that participants wait for, so it costs
//! them nothing.

mod look;
mod observer;
mod tap;

pub use look::ProcessState;
pub use observer::{Names, Observer};
pub use tap::{Tap, Tapped, TappedMessage};

use crate::channel::attach::{busy, open_control};
use crate::channel::attached::{
    Attached, has_unseen_messages, is_abandoned, is_current, is_empty, remove_files,
};
use crate::channel::behind;
use crate::channel::boot::{self, Earlier};
use crate::channel::slots;
use crate::channel::status::LaneState;
use crate::error::ids::TABLES;
use crate::error::{Explanation, OpenError, holders};
use crate::message::Fields;
use crate::ring::gate::clear_slot;
use crate::ring::layout::lock_byte;
use crate::segment::{ChannelFolder, Folder, default_folder};
use crate::uri::{Config, Delivery, End, Scheme, Slow, WaitStrategy};
use look::{inspect_channel, participants};
use std::path::{Path, PathBuf};

/// Folder of channels if none is named: `$OLIVINE_DIR`, else `/dev/shm/olivine-UID`.
#[must_use]
pub fn default_dir() -> PathBuf {
    default_folder()
}

/// One entry of a folder of channels.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listed {
    /// Name of the channel.
    pub name: String,
    /// The channel, or why it cannot be read.
    pub result: Result<ChannelInfo, OpenError>,
}

/// A channel from outside.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelInfo {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// The end of a channel elsewhere whose ring it is, and the URI of that channel with its
    /// `name=` and no other setting. `None` for another channel, and for a ring whose programs
    /// did not store it.
    pub elsewhere: Option<(End, String)>,
    /// Number drawn when it was made: another one means a new channel of the same name.
    pub incarnation: u64,
    /// Bytes of each publisher's ring. Here and below, 0 means that no publisher has fixed it yet.
    pub capacity_bytes: u64,
    /// Padding of frames in bytes.
    pub align_bytes: u64,
    /// Largest number of publishers.
    pub publishers_max: u64,
    /// Largest number of subscribers.
    pub subscribers_max: u64,
    /// What happens to subscribers that do not keep up.
    pub slow: Slow,
    /// Type of its messages, if it is typed.
    pub type_name: Option<String>,
    /// Fields of the type; empty if no opener has stated them.
    pub fields: Fields,
    /// Bytes of shared memory it occupies.
    pub file_bytes: u64,
    /// Subscribers that ever attached.
    pub subscribers_ever: u64,
    /// Subscribers evicted so far.
    pub evictions: u64,
    /// Dead subscribers reclaimed so far.
    pub reclaims: u64,
    /// Its lanes, in order.
    pub publishers: Vec<PublisherInfo>,
    /// Its subscribers, in order of their slots.
    pub subscribers: Vec<SubscriberInfo>,
}

/// One lane from outside.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PublisherInfo {
    /// Index of the lane.
    pub lane: usize,
    /// Process id of its newest publisher, in that process's PID namespace.
    pub pid: u64,
    /// The state of its publisher.
    pub state: LaneState,
    /// Whether it sleeps now.
    pub parked: bool,
    /// Bytes published.
    pub cursor: u64,
    /// Position up to which it may write.
    pub limit: u64,
    /// Times it found no room.
    pub back_pressure_count: u64,
    /// Nanoseconds without room, up to now.
    pub back_pressure_ns: u64,
    /// Nanoseconds of its current lack of room; 0 once it has found room or closed, and from a
    /// time-out until it finds no room again, which goes on with the time of before. After a
    /// refused `try_publish` it goes on until its next look.
    pub blocked_ns: u64,
    /// Slot of the subscriber that it waits for now.
    pub blocked_by: Option<usize>,
    /// Parked subscribers it woke.
    pub wakes: u64,
    /// Times a publisher continued after a publisher that died.
    pub takeovers: u64,
    /// Its failures, of all its publishers; `None` if there was none.
    pub failures: Option<Failures>,
}

/// The failures of a lane since it was made: ends with a reason, by
/// [`close_failed`](crate::Publisher::close_failed), a panic or a bridge whose source failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// Nanoseconds since the first of them.
    pub since_first_ns: u64,
    /// Nanoseconds since the last of them.
    pub since_last_ns: u64,
    /// Reason of the last of them.
    pub reason: String,
}

/// One subscriber from outside.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubscriberInfo {
    /// Index of its slot.
    pub slot: usize,
    /// Number of this subscriber, counted over all subscribers of the slot.
    pub ticket: u64,
    /// Process id, in that process's PID namespace.
    pub pid: u64,
    /// Whether its process lives. A stopped process lives.
    pub alive: bool,
    /// The state of its process; [`ProcessState::Unknown`] if it does not live, and in what an
    /// [`Observer`] sees.
    pub process: ProcessState,
    /// Nanoseconds since a durable subscriber was found absent; 0 while it lives.
    pub absent_ns: u64,
    /// Whether publishers keep room for it. Its positions count only then.
    pub gates: bool,
    /// Whether it lost its place: it was evicted and does not know it yet, or its durable name must
    /// report the loss when it returns.
    pub evicted: bool,
    /// Its durable name, if it has one.
    pub name: Option<String>,
    /// Whether publishers wait for it.
    pub delivery: Delivery,
    /// How it waits.
    pub wait: WaitStrategy,
    /// Whether it sleeps now.
    pub parked: bool,
    /// Bytes published but not released by it, over all lanes; 0 for a subscriber that does not
    /// gate.
    pub lag_bytes: u64,
    /// Bytes it lost to overruns, and that its durable name missed before it was opened.
    pub lost_bytes: u64,
    /// Overruns since it was opened.
    pub overruns: u64,
    /// Times it slept in the kernel since it was opened. A nap that ends by time counts as well.
    pub parks: u64,
    /// Its released position in each lane that exists; `u64::MAX` in a lane that it does not gate.
    pub positions: Vec<u64>,
}

/// Why a channel was not removed, or a subscriber not forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// It could not be opened or removed.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Processes use it.
    #[error(
        "channel '{channel}' is in use by process {pids}: stop them first, or use --force (they \
         keep what they have mapped; newcomers start a new channel)"
    )]
    InUse {
        /// The channel.
        channel: String,
        /// Processes that use it.
        pids: String,
    },
    /// Only `shm://` channels have files.
    #[error("'{uri}' has no files: only shm:// channels can be looked after from outside")]
    NoFiles {
        /// The URI.
        uri: String,
    },
    /// A process has the durable subscriber open.
    #[error(
        "durable subscriber '{name}' of channel '{channel}' is open in process {pid}: end it \
         there first"
    )]
    SubscriberInUse {
        /// The channel.
        channel: String,
        /// The name.
        name: String,
        /// Its process.
        pid: u64,
    },
    /// The channel has no durable subscriber of that name.
    #[error(
        "channel '{channel}' has no durable subscriber '{name}': 'olivine inspect' lists those it \
         has"
    )]
    NoSubscriber {
        /// The channel.
        channel: String,
        /// The name.
        name: String,
    },
}

crate::error::ids::ids! {
    ADMIN, AdminError, "admin", inside Open;
    InUse "in-use"
        "processes use the channel",
        "stop them first, or use --force: they keep what they have mapped";
    NoFiles "no-files"
        "only channels in shared memory have files that can be looked at from outside",
        "name a channel shm://NAME";
    SubscriberInUse "subscriber-in-use"
        "a process has the durable subscriber open",
        "end it there first";
    NoSubscriber "no-subscriber"
        "the channel has no durable subscriber of this name",
        "see which it has with 'olivine inspect'";
}

/// Every kind of error of this crate, in groups, with what it means and what to do. The method `id`
/// of each error type returns the name.
///
/// ```
/// let error = olivine::Config::parse("shm://x?capacity=1000").unwrap_err();
/// let found = olivine::explanations().find(|one| one.id == error.id()).unwrap();
/// assert_eq!(found.id, "uri.value");
/// ```
pub fn explanations() -> impl Iterator<Item = &'static Explanation> {
    TABLES.into_iter().chain([ADMIN]).flatten()
}

/// A removed channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Bytes of shared memory that are freed, once the last process has unmapped them.
    pub bytes: u64,
}

/// A durable subscriber that [`forget`] removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forgotten {
    /// Published bytes that it had not released, over all lanes; 0 if it did not gate.
    pub lag_bytes: u64,
    /// Whether the channel was removed as well: no process used it, and no other durable subscriber
    /// may return.
    pub removed: bool,
}

/// A channel that [`collect`] removed, or would remove.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Collected {
    /// Its name.
    pub name: String,
    /// Bytes of shared memory that are freed.
    pub bytes: u64,
    /// Why it is unused.
    pub reason: &'static str,
}

/// All channels in `folder`, sorted by name. A missing folder has none.
///
/// # Errors
///
/// If the folder cannot be read or trusted.
pub fn list(folder: &Path) -> Result<Vec<Listed>, AdminError> {
    let Some(opened) = open_folder(folder)? else {
        return Ok(Vec::new());
    };
    let inspect = |name: String| {
        let result = inspect_channel(&opened, &name)
            .and_then(|found| found.ok_or_else(|| missing(&name, folder)));
        Listed { result, name }
    };
    Ok(opened.names()?.into_iter().map(inspect).collect())
}

/// Names in `folder` that can be channels, sorted. A missing folder has none.
///
/// # Errors
///
/// If the folder cannot be read or trusted.
pub fn names(folder: &Path) -> Result<Vec<String>, AdminError> {
    match open_folder(folder)? {
        Some(opened) => Ok(opened.names()?),
        None => Ok(Vec::new()),
    }
}

/// Inspects one channel.
///
/// # Errors
///
/// [`OpenError`]; `Missing` if there is none.
pub fn inspect(config: &Config) -> Result<ChannelInfo, OpenError> {
    config.validate()?;
    let path = folder_of(config);
    let folder = Folder::open(config, false)?.ok_or_else(|| missing(config.channel(), &path))?;
    inspect_channel(&folder, config.channel())?.ok_or_else(|| missing(config.channel(), &path))
}

/// Removes a channel's files. A channel in use is refused unless `force` is set. Then its
/// participants keep their mappings, and the next opener makes a new channel of the same name. A
/// damaged channel needs `force`.
///
/// # Errors
///
/// [`AdminError`].
pub fn remove(config: &Config, force: bool) -> Result<Removed, AdminError> {
    let (folder, files) = find(config)?;
    let bytes = files.bytes();
    let attached = match open_control(files, config.channel(), true) {
        Ok(Some(attached)) => attached,
        // No control file: an interrupted creation or removal. Or a damaged channel, with `force`.
        Ok(None) if !force => {
            // Only an empty folder: a participant may be making a channel in it.
            if let Some(files) = folder.channel(config.channel(), false)? {
                files.remove_if_empty();
            }
            return Ok(Removed { bytes });
        }
        Ok(None) => return remove_folder(&folder, config.channel(), bytes),
        Err(OpenError::EarlierBoot { .. }) => {
            if let Some(files) = folder.channel(config.channel(), false)?
                && let Earlier::Busy(pid) = boot::remove_earlier(&files)?
            {
                return Err(busy(config.channel(), pid).into());
            }
            return Ok(Removed { bytes });
        }
        // Other errors, such as too few descriptors, do not show whether the channel is in use.
        Err(OpenError::NotAChannel { .. } | OpenError::Layout { .. }) if force => {
            return remove_folder(&folder, config.channel(), bytes);
        }
        Err(error) => return Err(error.into()),
    };
    let _membership = attached.membership()?;
    if !is_current(&attached) {
        // Its last participant removed it meanwhile; the name leads to a new channel now.
        return Ok(Removed { bytes: 0 });
    }
    if !force && !is_empty(&attached) {
        return Err(AdminError::InUse {
            channel: config.channel().to_owned(),
            pids: pids(&attached),
        });
    }
    remove_files(&attached)?;
    Ok(Removed { bytes })
}

/// Forgets the durable subscriber `name` of a channel with its unread messages: publishers no
/// longer wait for it. The subscriber must not be attached. The type of the channel does not
/// matter; of `config` only the name and the folder are used. If no process uses the channel, and
/// no other durable subscriber may return to it, the channel is removed.
///
/// Waits up to 10 s for others that join or leave, which takes microseconds each.
///
/// # Errors
///
/// [`AdminError`]; `NoSubscriber` if no subscriber has that name, `Open` with
/// [`OpenError::NameInUse`] if it is attached.
pub fn forget(config: &Config, name: &str) -> Result<Forgotten, AdminError> {
    let (_, files) = find(config)?;
    let gone = || AdminError::Open(missing(config.channel(), &folder_of(config)));
    let attached = open_control(files, config.channel(), true)?.ok_or_else(gone)?;
    let membership = attached.membership()?;
    if !is_current(&attached) {
        return Err(gone());
    }
    let Attached {
        backing,
        control,
        geometry,
        locks,
        ..
    } = &attached;
    let taken = slots::take_durable(control, geometry, locks, name, backing.path());
    let taken = taken.map_err(|error| match error {
        OpenError::NameInUse { name, pid } => AdminError::SubscriberInUse {
            channel: config.channel().to_owned(),
            name,
            pid,
        },
        other => other.into(),
    })?;
    let slot = taken.ok_or_else(|| AdminError::NoSubscriber {
        channel: config.channel().to_owned(),
        name: name.to_owned(),
    })?;
    let (_, subscribers) = participants(&attached);
    let found = subscribers.into_iter().find(|one| one.slot == slot);
    clear_slot(control, geometry, slot);
    locks.unlock(lock_byte::SLOT + slot as u64);
    let removed = is_abandoned(&attached);
    if removed {
        remove_files(&attached)?;
    }
    drop(membership);
    attached.wake_publishers();
    Ok(Forgotten {
        lag_bytes: found.map_or(0, |one| one.lag_bytes),
        removed,
    })
}

/// The folder of channels of these settings, and the channel's own files in it.
fn find(config: &Config) -> Result<(Folder, ChannelFolder), AdminError> {
    if config.scheme() != Scheme::Shm {
        return Err(AdminError::NoFiles { uri: config.uri() });
    }
    config.validate().map_err(OpenError::from)?;
    let gone = || AdminError::Open(missing(config.channel(), &folder_of(config)));
    let folder = Folder::open(config, false)?.ok_or_else(gone)?;
    let files = folder.channel(config.channel(), false)?.ok_or_else(gone)?;
    Ok((folder, files))
}

/// The folder of channels of these settings.
fn folder_of(config: &Config) -> PathBuf {
    config.get_dir().map_or_else(default_folder, Path::to_owned)
}

fn remove_folder(folder: &Folder, name: &str, bytes: u64) -> Result<Removed, AdminError> {
    if let Some(files) = folder.channel(name, false)? {
        files.remove_damaged()?;
    }
    Ok(Removed { bytes })
}

/// Removes the channels in `folder` that no process uses and no durable subscriber may return to.
/// The ring of a publisher elsewhere with `name=` (`link.…`) stays, too, if it has messages and its
/// far side never came. With `dry_run` it only returns them. It never removes a channel in use,
/// also under races.
///
/// # Errors
///
/// If the folder cannot be read or trusted, or a channel cannot be removed. Damaged channels stay.
pub fn collect(folder: &Path, dry_run: bool) -> Result<Vec<Collected>, AdminError> {
    let Some(opened) = open_folder(folder)? else {
        return Ok(Vec::new());
    };
    let mut collected = Vec::new();
    for name in opened.names()? {
        let Ok(Some(files)) = opened.channel(&name, false) else {
            continue;
        };
        let bytes = files.bytes();
        match open_control(files, &name, true) {
            Ok(Some(attached)) => {
                // A participant that joins or leaves now uses it.
                if !is_abandoned(&attached) || is_kept_for_a_publisher(&name, &attached) {
                    continue;
                }
                let membership = attached.membership()?;
                if !is_current(&attached) || !is_abandoned(&attached) {
                    continue;
                }
                if !dry_run {
                    remove_files(&attached)?;
                }
                drop(membership);
                collected.push(Collected {
                    name,
                    bytes,
                    reason: "no process uses it",
                });
            }
            Ok(None) => {
                if !dry_run && let Some(files) = opened.channel(&name, false)? {
                    // Only if it is still empty: a participant may be making a channel in it.
                    files.remove_if_empty();
                }
                collected.push(Collected {
                    name,
                    bytes,
                    reason: "an interrupted creation",
                });
            }
            Err(OpenError::EarlierBoot { .. }) => {
                if !dry_run
                    && let Some(files) = opened.channel(&name, false)?
                    && boot::remove_earlier(&files)? != Earlier::Removed
                {
                    continue;
                }
                collected.push(Collected {
                    name,
                    bytes,
                    reason: "it was made before this system was started last",
                });
            }
            Err(_) => {}
        }
    }
    if !dry_run {
        opened.remove_temporaries();
    }
    Ok(collected)
}

/// Whether it is the ring of a publisher elsewhere with a `name=` whose far side never came: the
/// next publisher of the name delivers what is in it.
fn is_kept_for_a_publisher(name: &str, attached: &Attached) -> bool {
    behind::is_ring(name) && has_unseen_messages(attached)
}

fn open_folder(folder: &Path) -> Result<Option<Folder>, AdminError> {
    let config = Config::new(Scheme::Shm, "any").dir(folder);
    Ok(Folder::open(&config, false)?)
}

fn missing(channel: &str, path: &Path) -> OpenError {
    OpenError::Missing {
        channel: channel.to_owned(),
        path: path.to_owned(),
    }
}

fn pids(attached: &Attached) -> String {
    let (publishers, subscribers) = participants(attached);
    let publishers = publishers
        .into_iter()
        .filter(|p| p.state == LaneState::Open)
        .map(|p| p.pid);
    let subscribers = subscribers.into_iter().filter(|s| s.alive).map(|s| s.pid);
    let mut pids: Vec<u64> = publishers.chain(subscribers).collect();
    pids.sort_unstable();
    pids.dedup();
    holders(pids.iter().map(u64::to_string))
}
