//! The memory of a channel: files of a folder, or memory without a name that this process holds.

use crate::error::OpenError;
use crate::fork::{self, ForkPage};
use crate::liveness::Locks;
use crate::region::{Ring, Words};
use crate::ring::layout::{Geometry, LANE_MAGIC, LAYOUT_VERSION, lane};
use crate::segment::{self, ChannelFolder, lane_name, refused};
use crate::uri::HugePages;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The memory of a channel.
#[derive(Debug)]
pub(crate) enum Backing {
    /// `shm://`: files.
    Files(ChannelFolder),
    /// `inproc://`: memory that is freed with the last participant. Also each end of `shm+fd://`.
    Process(Arc<InprocMemory>),
}

/// An `inproc://` channel: the same memory as that of files, without names.
#[derive(Debug)]
pub(crate) struct InprocMemory {
    path: PathBuf,
    pub(super) control: OwnedFd,
    lanes: Mutex<HashMap<usize, OwnedFd>>,
    locks: Arc<Mutex<HashMap<u64, u64>>>,
    /// Whether this is the process that made the memory. A forked child shares the memory but not
    /// the table of locks. So the name is free in the child.
    page: ForkPage,
}

/// The page that says whether this process is a forked child, for an end or memory at `path`.
pub(super) fn private_page(path: impl AsRef<Path>) -> Result<ForkPage, OpenError> {
    ForkPage::new().map_err(|source| OpenError::Io {
        action: "map a private page for",
        path: path.as_ref().to_owned(),
        source,
    })
}

/// The channels of this process.
///
/// A `BTreeMap`: its memory is reachable from its first byte, so leak checkers find it.
static CHANNELS: Mutex<BTreeMap<String, Weak<InprocMemory>>> = Mutex::new(BTreeMap::new());

impl InprocMemory {
    /// The channel of this name. If there is none, makes one: its control memory begins with
    /// `fill`.
    pub(super) fn find(name: &str, bytes: u64, fill: &[u8]) -> Result<Arc<Self>, OpenError> {
        let path = PathBuf::from(format!("inproc://{name}"));
        // Before forks are blocked: making a page may block them as well.
        let page = private_page(&path)?;
        let _still = fork::block_forks();
        let mut channels = CHANNELS.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, channel| channel.strong_count() > 0);
        if let Some(channel) = channels.get(name).and_then(Weak::upgrade)
            && channel.page.is_ours()
        {
            return Ok(channel);
        }
        let control = memory_file(&path, bytes, None, fill)?;
        let memory = Arc::new(Self {
            path,
            control,
            lanes: Mutex::default(),
            locks: Arc::default(),
            page,
        });
        channels.insert(name.to_owned(), Arc::downgrade(&memory));
        Ok(memory)
    }

    /// A channel that no name leads to. `path` is for messages.
    pub(super) fn unnamed(
        path: PathBuf,
        control: OwnedFd,
        lanes: HashMap<usize, OwnedFd>,
    ) -> Result<Arc<Self>, OpenError> {
        let page = private_page(&path)?;
        Ok(Arc::new(Self {
            path,
            control,
            lanes: Mutex::new(lanes),
            locks: Arc::default(),
            page,
        }))
    }

    /// Passes the memory of lane `index` to `take`, if it exists.
    pub(super) fn with_lane<T>(
        &self,
        index: usize,
        take: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> Option<T> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(&index).map(|file| take(file.as_fd()))
    }

    /// Frees the name: the next opener gets a new channel.
    pub(super) fn forget(self: &Arc<Self>) {
        let _still = fork::block_forks();
        let mut channels = CHANNELS.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, channel| !std::ptr::eq(channel.as_ptr(), Arc::as_ptr(self)));
    }

    /// Locks for another participant.
    pub(super) fn locks(&self) -> Locks {
        Locks::table(&self.locks)
    }
}

/// Memory without a name, `bytes` long and allocated. It begins with `fill`.
pub(super) fn memory_file(
    path: &Path,
    bytes: u64,
    numa: Option<u32>,
    fill: &[u8],
) -> Result<OwnedFd, OpenError> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let file =
        rustix::fs::memfd_create("olivine", flags).map_err(refused("make memory for", path))?;
    segment::allocate(file.as_fd(), path, 0, bytes, numa)?;
    segment::write_all(file.as_fd(), fill).map_err(refused("write", path))?;
    Ok(file)
}

impl Backing {
    /// Path for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Files(folder) => folder.path(),
            Self::Process(memory) => &memory.path,
        }
    }

    /// Bytes that are free for the rings; `None` if no file system limits them.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        match self {
            Self::Files(folder) => {
                let found = rustix::fs::fstatvfs(folder.as_fd()).ok()?;
                Some(found.f_bavail.saturating_mul(found.f_frsize))
            }
            Self::Process(_) => None,
        }
    }

    /// Makes lane `index` if it is missing; `true` if it did. The caller holds its lock.
    ///
    /// A file that exists although the channel has no such lane (`present`) was made for an earlier
    /// channel of this folder. It is removed, and the lane is made again.
    pub(crate) fn ensure_lane(
        &self,
        shape: &LaneShape<'_>,
        present: bool,
        numa: Option<u32>,
    ) -> Result<bool, OpenError> {
        let LaneShape {
            geometry, index, ..
        } = *shape;
        match self {
            Self::Files(folder) => {
                if let Some(found) = segment::open_file(folder, &lane_name(index), true)? {
                    if present || is_made_for(found.as_fd(), shape) {
                        return Ok(false);
                    }
                    folder.unlink(&lane_name(index))?;
                }
                segment::create_file(
                    folder,
                    &lane_name(index),
                    geometry.lane_bytes(),
                    numa,
                    &lane_header(shape),
                )
            }
            Self::Process(memory) => {
                let mut lanes = memory.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                let Entry::Vacant(entry) = lanes.entry(index) else {
                    return Ok(false);
                };
                entry.insert(memory_file(
                    &memory.path,
                    geometry.lane_bytes(),
                    numa,
                    &lane_header(shape),
                )?);
                Ok(true)
            }
        }
    }

    /// Removes a lane that was not announced. The caller holds its lock and the membership lock.
    pub(crate) fn remove_lane(&self, index: usize) {
        match self {
            Self::Files(folder) => folder.remove_lane(index),
            Self::Process(memory) => {
                let mut lanes = memory.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                lanes.remove(&index);
            }
        }
    }

    /// Checks that lane `index` belongs to this channel, and maps it. `None` if it does not exist.
    pub(crate) fn open_lane(
        &self,
        shape: &LaneShape<'_>,
        writable: bool,
        hugepages: HugePages,
    ) -> Result<Option<(Words, Ring)>, OpenError> {
        self.with_lane(shape.index, writable, |file, path| {
            let mapped = segment::map_lane(file, path, shape.geometry, writable, hugepages)?;
            check_lane(&mapped.0, path, shape)?;
            Ok(mapped)
        })
    }

    /// The error for a lane `index` that the channel announces but [`Backing::open_lane`] does not
    /// find.
    pub(crate) fn lane_file_missing(&self, index: usize) -> OpenError {
        let problem = "the channel announces this lane, and its file is missing: it was removed, \
                       or a participant wrote what is not true; stop the channel's users, remove \
                       the channel ('olivine rm') and start them again";
        OpenError::NotAChannel {
            path: self.path().join(format!("lane-{index}")),
            problem: problem.to_owned(),
        }
    }

    /// The header of lane `index` for an observer, checked as in [`Backing::open_lane`]. The ring,
    /// which may be large, is not mapped. `None` if the lane does not exist.
    pub(crate) fn look_at_lane(&self, shape: &LaneShape<'_>) -> Result<Option<Words>, OpenError> {
        self.with_lane(shape.index, false, |file, path| {
            let header = segment::map_lane_header(file, path, shape.geometry)?;
            check_lane(&header, path, shape)?;
            Ok(header)
        })
    }

    /// Passes the memory of lane `index`, and a path for messages, to `take`; `None` if there is no
    /// such lane.
    fn with_lane<T>(
        &self,
        index: usize,
        writable: bool,
        take: impl FnOnce(BorrowedFd<'_>, &Path) -> Result<T, OpenError>,
    ) -> Result<Option<T>, OpenError> {
        let path = self.path().join(lane_name(index));
        let taken = match self {
            Self::Files(folder) => segment::open_file(folder, &lane_name(index), writable)?
                .map(|file| take(file.as_fd(), &path)),
            Self::Process(memory) => memory.with_lane(index, |file| take(file, &path)),
        };
        taken.transpose()
    }
}

/// What a lane must be according to its channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneShape<'a> {
    pub(crate) geometry: &'a Geometry,
    /// Incarnation of the channel.
    pub(crate) incarnation: u64,
    pub(crate) index: usize,
}

/// Words at the start of a lane that never change.
const MARKS: usize = lane::INCARNATION + 1;

/// The words of a lane that never change.
fn lane_marks(shape: &LaneShape<'_>) -> [u64; MARKS] {
    let mut words = [0; MARKS];
    words[lane::MAGIC] = LANE_MAGIC;
    words[lane::VERSION] = LAYOUT_VERSION;
    words[lane::CAPACITY] = shape.geometry.capacity;
    words[lane::INDEX] = shape.index as u64;
    words[lane::ORIGIN] = shape.geometry.origin;
    words[lane::INCARNATION] = shape.incarnation;
    words
}

/// The header page of a new lane, as bytes.
fn lane_header(shape: &LaneShape<'_>) -> Vec<u8> {
    let geometry = shape.geometry;
    let mut words = vec![0_u64; lane::WORDS];
    words[..MARKS].copy_from_slice(&lane_marks(shape));
    words[lane::CURSOR] = geometry.origin;
    words[lane::LIMIT] = geometry.origin + geometry.capacity;
    to_bytes(&words)
}

/// Words as the bytes of a file.
pub(super) fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Whether `file` begins with the words of the lane `shape` that never change.
fn is_made_for(file: BorrowedFd<'_>, shape: &LaneShape<'_>) -> bool {
    let mut found = [0; MARKS * 8];
    // A file that is shorter, or cannot be read, is not a lane of this channel.
    rustix::io::pread(file, &mut found, 0)
        .is_ok_and(|read| read == found.len() && to_bytes(&lane_marks(shape)) == found)
}

fn check_lane(words: &Words, path: &Path, shape: &LaneShape<'_>) -> Result<(), OpenError> {
    let LaneShape {
        geometry,
        incarnation,
        index,
    } = *shape;
    // Relaxed: written before the file had a name, never changed.
    let word = |at: usize| words.word(at).load(crate::sync::Ordering::Relaxed);
    let damaged = |problem: &str| {
        let problem = format!("{problem}; remove the channel with 'olivine rm --force'");
        Err(OpenError::NotAChannel {
            path: path.to_owned(),
            problem,
        })
    };
    if word(lane::MAGIC) != LANE_MAGIC {
        return damaged("it does not start with the mark of a lane");
    }
    if word(lane::VERSION) != LAYOUT_VERSION {
        return Err(OpenError::Layout {
            path: path.to_owned(),
            found: word(lane::VERSION),
            expected: LAYOUT_VERSION,
        });
    }
    if word(lane::CAPACITY) != geometry.capacity
        || word(lane::INDEX) != index as u64
        || word(lane::ORIGIN) != geometry.origin
        || word(lane::INCARNATION) != incarnation
    {
        return damaged("it belongs to another channel");
    }
    // These words change, but never leave these bounds.
    let limit = word(lane::LIMIT);
    let cursor = words
        .word(lane::CURSOR)
        .load(crate::sync::Ordering::Acquire);
    let Geometry { origin, align, .. } = *geometry;
    let max = origin.saturating_add(u64::MAX / 4);
    for (name, value, min) in [
        ("cursor", cursor, origin),
        ("limit", limit, origin + geometry.capacity),
    ] {
        if !(min..=max).contains(&value) || !value.is_multiple_of(align) {
            return damaged(&format!(
                "its {name} is {value}, which must be a multiple of {align} from {min} to {max}"
            ));
        }
    }
    Ok(())
}
