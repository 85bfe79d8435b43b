//! Liveness: locks that the kernel releases when their holder dies.
//!
//! Each participant opens the control file itself and holds an open-file-description lock on one
//! byte for life. The kernel releases it at any death: of a killed process, of a zombie that was
//! not reaped, in any PID namespace. A stopped process keeps it: a stopped process is not dead. No
//! time-out and no PID decides. Channels inside one process use a table instead. The ends of a
//! sealed channel share no file. They hold a socket and a pidfd of each other: [`Peer`].
//!
//! The kernel's locks exclude participants, not threads: two threads that share a participant's
//! descriptor both get the lock. Handles are `Sync`, so [`Locks`] excludes threads itself: a byte
//! that it holds is refused, also to the thread that took it.

use crate::fork;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The locks of one participant; dropping them, or dying, releases them all.
#[derive(Debug)]
pub(crate) enum Locks {
    /// Byte locks of a control file.
    File(Arc<LockFile>),
    /// Entries of an in-process table.
    Process(LockTable),
}

/// A separate open file description of a control file, closed in forked children.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: fork::ClosedInChildren,
    /// Bytes that this participant holds. Locked during each system call, so that the list is
    /// always true.
    held: Mutex<Vec<u64>>,
}

impl LockFile {
    /// The control file itself.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.borrow()
    }
}

/// In-process locks: byte → holder.
#[derive(Debug)]
pub(crate) struct LockTable {
    table: Arc<Mutex<HashMap<u64, u64>>>,
    me: u64,
    /// The process that made it. In a forked child the table is an unused copy, perhaps locked by a
    /// thread that does not exist there.
    process: u32,
}

impl Locks {
    /// Locks on `file`, named `name` in `folder`, through a separate open file description. `None`
    /// if the name refers to another file by now, or to no file.
    ///
    /// A mapping made through `file` keeps its description open, also in a forked child that
    /// inherits the mapping. Locks on that description would outlive their holder until the child
    /// ends.
    ///
    /// # Errors
    ///
    /// The kernel's error from opening it again.
    pub(crate) fn named(
        folder: BorrowedFd<'_>,
        name: &str,
        file: &OwnedFd,
    ) -> io::Result<Option<Self>> {
        use rustix::fs::{Mode, OFlags, fstat};
        // The same access. By its name, because `/proc` may not be mounted.
        let access = rustix::fs::fcntl_getfl(file)? & OFlags::ACCMODE;
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let open = || Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?);
        let again = match fork::ClosedInChildren::open(open) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            again => again?,
        };
        let same = crate::segment::is_same_file(&fstat(again.borrow())?, &fstat(file)?);
        Ok(same.then_some(Self::File(Arc::new(LockFile {
            file: again,
            held: Mutex::default(),
        }))))
    }

    /// Locks on a file without mappings. They use a separate open file description if `/proc` can
    /// open one. Otherwise they use `file`, which a fork by another thread at this moment inherits.
    ///
    /// # Errors
    ///
    /// The kernel's error from opening it again.
    #[cfg(feature = "journal")]
    pub(crate) fn file(file: OwnedFd) -> io::Result<Self> {
        let file = match fork::ClosedInChildren::open(|| reopen(&file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fork::ClosedInChildren::new(file)
            }
            again => again?,
        };
        Ok(Self::File(Arc::new(LockFile {
            file,
            held: Mutex::default(),
        })))
    }

    /// Locks in a table shared by this process; each call makes another participant.
    pub(crate) fn table(table: &Arc<Mutex<HashMap<u64, u64>>>) -> Self {
        static NEXT: Mutex<u64> = Mutex::new(1);
        let _still = fork::block_forks();
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        Self::Process(LockTable {
            table: Arc::clone(table),
            me: *next,
            process: std::process::id(),
        })
    }

    /// For another thread of this participant: reads locks. It does not keep this participant's
    /// locks.
    pub(crate) fn reader(&self) -> LockReader {
        match self {
            Self::File(lock) => LockReader(Some(Arc::downgrade(lock))),
            Self::Process(_) => LockReader(None),
        }
    }

    /// Takes the lock on `byte` if no participant holds it, this one included. Never waits for a
    /// holder.
    ///
    /// # Errors
    ///
    /// The kernel's error, unless another participant holds the lock.
    pub(crate) fn try_lock(&self, byte: u64) -> io::Result<bool> {
        match self {
            Self::File(lock) => {
                let mut held = lock.held.lock().unwrap_or_else(PoisonError::into_inner);
                if held.contains(&byte) {
                    return Ok(false);
                }
                match control(lock.file.raw(), libc::F_OFD_SETLK, libc::F_WRLCK, byte, 1) {
                    Ok(_) => held.push(byte),
                    Err(error)
                        if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) =>
                    {
                        return Ok(false);
                    }
                    Err(error) => return Err(error),
                }
            }
            Self::Process(lock) => {
                let mut table = lock.table.lock().unwrap_or_else(PoisonError::into_inner);
                let Entry::Vacant(entry) = table.entry(byte) else {
                    return Ok(false);
                };
                entry.insert(lock.me);
            }
        }
        crate::points::pass("lock.taken");
        Ok(true)
    }

    /// Releases the lock on `byte`. The calling thread must own it.
    pub(crate) fn unlock(&self, byte: u64) {
        match self {
            Self::File(lock) => {
                let mut held = lock.held.lock().unwrap_or_else(PoisonError::into_inner);
                // Unlocking a range of an open file cannot leave it locked.
                let _ = control(lock.file.raw(), libc::F_OFD_SETLK, libc::F_UNLCK, byte, 1);
                held.retain(|other| *other != byte);
            }
            Self::Process(lock) => {
                let mut table = lock.table.lock().unwrap_or_else(PoisonError::into_inner);
                if table.get(&byte) == Some(&lock.me) {
                    table.remove(&byte);
                }
            }
        }
    }

    /// Whether another participant holds a lock between `first` and `end`.
    pub(crate) fn held_by_others(&self, first: u64, end: u64) -> bool {
        match self {
            Self::File(lock) => is_locked(lock.file.raw(), first, end),
            // The copy in a forked child may be locked by a thread that does not exist there:
            // answer as on a kernel error.
            Self::Process(lock) if std::process::id() != lock.process => true,
            Self::Process(lock) => {
                let table = lock.table.lock().unwrap_or_else(PoisonError::into_inner);
                table
                    .iter()
                    .any(|(byte, holder)| (first..end).contains(byte) && *holder != lock.me)
            }
        }
    }
}

/// Reads the locks of a control file: see [`Locks::reader`].
#[derive(Clone, Debug)]
pub(crate) struct LockReader(Option<Weak<LockFile>>);

impl LockReader {
    /// Whether the other participants are inside this process, and live as long as it does.
    pub(crate) fn is_inproc(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a participant other than this one holds the lock on `byte`.
    pub(crate) fn is_held(&self, byte: u64) -> bool {
        let lock = self.0.as_ref().and_then(Weak::upgrade);
        lock.is_none_or(|lock| is_locked(lock.file.raw(), byte, byte + 1))
    }
}

impl Drop for LockTable {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, holder| *holder != self.me);
    }
}

/// Whether another open file description holds a lock between `first` and `end`. Works on a
/// read-only descriptor. On a kernel error the answer is "yes": a living participant is never
/// declared dead.
pub(crate) fn is_locked(file: RawFd, first: u64, end: u64) -> bool {
    match control(file, libc::F_OFD_GETLK, libc::F_WRLCK, first, end - first) {
        Ok(found) => found != libc::F_UNLCK,
        Err(_) => true,
    }
}

/// Another open file description of the same file, with the same access.
#[cfg(feature = "journal")]
fn reopen(file: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let access = rustix::fs::fcntl_getfl(file)? & OFlags::ACCMODE;
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// One lock operation. Returns the lock type that the kernel wrote back.
fn control(
    file: RawFd,
    command: libc::c_int,
    kind: libc::c_int,
    start: u64,
    length: u64,
) -> io::Result<libc::c_int> {
    let offset =
        |n: u64| libc::off_t::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let kind =
        libc::c_short::try_from(kind).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `flock` is plain old data for which all zeros is a value.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind;
    // SEEK_SET is 0: positions count from the start of the file; they need not exist in it.
    lock.l_whence = 0;
    lock.l_start = offset(start)?;
    lock.l_len = offset(length)?;
    // SAFETY: `lock` is a valid `flock` that lives across the call.
    let done = unsafe { libc::fcntl(file, command, &raw mut lock) };
    if done == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(lock.l_type.into())
    }
}

/// The visible state of a process that holds a lock. It decides how long to wait, never whether the
/// process is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    /// It exists and does not end.
    Lives,
    /// It is not visible: it has ended, or it is in another PID namespace.
    Unseen,
    /// It is ending: the kernel releases its locks after its memory.
    Dying,
}

/// The visible state of process `pid`.
pub(crate) fn life_of(pid: u64) -> Life {
    if pid == u64::from(std::process::id()) {
        return Life::Lives;
    }
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    match (read("stat"), read("status")) {
        (Ok(stat), Ok(status)) => life_in(&stat, &status),
        _ => Life::Unseen,
    }
}

/// The same from the text in `/proc`.
fn life_in(stat: &str, status: &str) -> Life {
    /// The kernel's flag of a task in `exit`.
    const EXITING: u64 = 4;
    let killed = 1_u64 << (libc::SIGKILL - 1);
    // After the name: state, parent, group, session, terminal, its group, flags.
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = behind_name.split_ascii_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    if matches!(state, Some("Z" | "X")) {
        // Only the first thread: others may continue.
        return Life::Unseen;
    }
    let pending = status.lines().any(|line| {
        let mask = line
            .strip_prefix("SigPnd:")
            .or_else(|| line.strip_prefix("ShdPnd:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & killed != 0)
    });
    // The kernel writes the core before the process exits, and keeps its locks meanwhile.
    let dumping = status.lines().any(|line| {
        let dumping = line.strip_prefix("CoreDumping:");
        dumping.is_some_and(|dumping| dumping.trim() == "1")
    });
    if pending || dumping || flags.is_some_and(|flags| flags & EXITING != 0) {
        Life::Dying
    } else {
        Life::Lives
    }
}

/// The process at the other end of a connected UNIX socket, as recorded by the kernel when that end
/// connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// 0 for a process of another PID namespace: it has no number here.
    pub(crate) pid: i32,
    pub(crate) user: u32,
}

impl Peer {
    /// The process at the other end of `socket`.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // The C library, not rustix, whose process number cannot be the 0 that the kernel may give.
        let mut found = libc::ucred {
            pid: 0,
            uid: u32::MAX,
            gid: u32::MAX,
        };
        let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
        // SAFETY: `found` is as long as `length` says, and both live across the call.
        let done = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut found).cast(),
                &raw mut length,
            )
        };
        if done == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            pid: found.pid,
            user: found.uid,
        })
    }

    /// A descriptor that becomes readable when the process dies. `None` if the kernel gives none:
    /// then only the closed socket reports the death.
    pub(crate) fn death(self) -> Option<OwnedFd> {
        let pid = rustix::process::Pid::from_raw(self.pid)?;
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    fn pair() -> [(Locks, Locks); 2] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || {
            let path = file.path();
            let opened = std::fs::File::options().read(true).write(true).open(path);
            let folder = std::fs::File::open(path.parent().unwrap()).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let locks = Locks::named(folder.as_fd(), name, &OwnedFd::from(opened.unwrap()));
            locks.unwrap().expect("the same file")
        };
        let table = Arc::default();
        [
            (open(), open()),
            (Locks::table(&table), Locks::table(&table)),
        ]
    }

    #[test]
    fn killed_exiting_or_core_dumping_process_is_dying() {
        let stat = |state, flags| format!("7 (a) (b)) {state} 1 7 7 0 -1 {flags} 0 0");
        let pending = |shared| format!("Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t{shared}\n");
        let (none, kill) = ("0000000000000000", "0000000000000100");
        let dumping = |core| format!("{}CoreDumping:\t{core}\nThreads:\t1\n", pending(none));
        let cases = [
            (stat("S", 4_194_304), pending(none), Life::Lives),
            (stat("T", 4_194_304), pending(none), Life::Lives),
            (stat("S", 4_194_304), pending(kill), Life::Dying),
            (stat("D", 4_194_308), pending(none), Life::Dying),
            (stat("Z", 4_194_308), pending(none), Life::Unseen),
            (stat("D", 4_194_560), dumping(0), Life::Lives),
            (stat("D", 4_194_560), dumping(1), Life::Dying),
            (String::new(), String::new(), Life::Lives),
        ];
        for (stat, status, expected) in cases {
            assert_eq!(life_in(&stat, &status), expected, "{stat}, {status}");
        }
        assert_eq!(life_of(u64::from(std::process::id())), Life::Lives);
        assert_eq!(life_of(u64::MAX), Life::Unseen);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no locks of files")]
    fn lock_has_one_holder_and_is_released_on_drop() {
        for (a, b) in pair() {
            assert!(a.try_lock(7).unwrap());
            assert!(
                !a.try_lock(7).unwrap(),
                "refused to a second thread of its holder"
            );
            assert!(!b.try_lock(7).unwrap());
            assert!(
                b.held_by_others(0, 100) && !a.held_by_others(0, 100) && !b.held_by_others(8, 100)
            );
            a.unlock(7);
            assert!(b.try_lock(7).unwrap());
            drop(b);
            assert!(a.try_lock(7).unwrap());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no locks of files")]
    fn unlock_releases_lock_that_starting_process_inherited() {
        let [(a, b), _] = pair();
        assert!(a.try_lock(7).unwrap());
        let Locks::File(file) = &a else {
            panic!("not a file")
        };
        let childs = rustix::io::fcntl_dupfd_cloexec(file.as_fd(), 0).unwrap();
        a.unlock(7);
        drop(a);
        assert!(!b.held_by_others(0, 100));
        drop(childs);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no fork")]
    fn lock_table_in_forked_child_waits_for_no_parent_thread() {
        let table: Arc<Mutex<HashMap<u64, u64>>> = Arc::default();
        let locks = Locks::table(&table);
        assert!(locks.try_lock(1).unwrap());
        // Another thread may hold it at a fork.
        let held = table.lock().unwrap();
        // SAFETY: the child drops a handle and ends; SIGALRM ends it if it hangs.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: integers only.
            unsafe { libc::alarm(10) };
            let alive = locks.held_by_others(2, 3);
            drop(locks);
            // SAFETY: ends the child and nothing else.
            unsafe { libc::_exit(i32::from(!alive)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child above; `status` lives across the call.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0, "killed while it waited");
        drop(held);
        assert!(!Locks::table(&table).try_lock(1).unwrap());
        drop(locks);
        assert!(Locks::table(&table).try_lock(1).unwrap());
    }
}
