//! Watches for the death of other processes, so that sleepers that depend on them may sleep long.
//!
//! A participant that dies between its store and its load of the park words wakes no sleeper, and
//! perhaps no other participant does. The kernel reports the death: a `pidfd` becomes readable
//! after the process has released everything, its locks included. One thread of this process waits
//! for those descriptors and takes the park words of all sleepers that asked.
//!
//! A watch decides nothing. It only ends a nap; then the sleeper checks the locks. A process number
//! comes from shared memory. So a watch counts only if the participant's lock is still held after
//! the `pidfd` was opened. Then its holder has not died, and its number was not reused. Numbers of
//! other PID namespaces are not used.
//!
//! The thread starts with the first watch and ends with the last sleeper that has a watch. Busy
//! programs never start it.

use super::{LongNaps, events, wake};
use crate::fork;
use crate::region::Word;
use crate::sync::{AtomicU64, Ordering};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

/// Largest number of processes that one process watches: each costs a descriptor.
const WATCHED_MAX: usize = 64;
/// Marks the descriptor that ends the thread; no process has this number.
const END: u64 = u64::MAX;

/// A participant that a sleeper depends on, with the words that identify it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The lock that it holds for life.
    pub(crate) byte: u64,
    pub(crate) pid: Word,
    /// Its PID namespace: [`pid_space`].
    pub(crate) space: Word,
    /// The word whose lowest bit says whether the participant exists, if there is such a word.
    pub(crate) open: Option<Word>,
}

impl Peer {
    /// The current process and namespace.
    fn current(&self) -> Option<(u32, u64)> {
        // Acquire: a publisher stores its number before it opens its lane.
        let open = self.open.as_ref();
        if open.is_some_and(|open| open.load(Ordering::Acquire) & 1 == 0) {
            return None;
        }
        // Relaxed: compared only; a lock decides whether they count.
        let pid = self.pid.load(Ordering::Relaxed);
        let space = self.space.load(Ordering::Relaxed);
        Some((u32::try_from(pid).unwrap_or(0), space))
    }
}

/// The PID namespace of this process as a number; 0 if unknown.
pub(crate) fn pid_space() -> u64 {
    /// Process and namespace: a forked child may have the number of its parent in another
    /// namespace. A child of the raw system call has the same generation.
    static KNOWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let me = u64::from(std::process::id()) | (fork::generation() << 32);
    // Acquire: pairs with the release below.
    if KNOWN[0].load(Ordering::Acquire) == me {
        return KNOWN[1].load(Ordering::Relaxed);
    }
    let space = rustix::fs::stat("/proc/self/ns/pid").map_or(0, |found| found.st_ino);
    // Relaxed: released below.
    KNOWN[1].store(space, Ordering::Relaxed);
    KNOWN[0].store(me, Ordering::Release);
    space
}

/// The processes that one sleeper watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watched: Vec<Watched>,
    warden: Option<Arc<Warden>>,
    /// The process that set them. In a forked child they are copies that must not be used.
    process: u32,
}

#[derive(Debug)]
struct Watched {
    byte: u64,
    pid: u32,
    /// The PID namespace of that number.
    space: u64,
    entry: Arc<Entry>,
    park: Word,
}

impl Watches {
    /// Watches `peers` from here on, and no other process, for the sleeper with this park word.
    ///
    /// `Safe` if the end of each of them wakes the sleeper, or has occurred. The caller checks what
    /// they did until now.
    pub(crate) fn watch(
        &mut self,
        park: &Word,
        peers: &[Peer],
        is_held: impl Fn(u64) -> bool,
    ) -> LongNaps {
        let me = (std::process::id(), pid_space());
        let old = std::mem::take(&mut self.watched);
        let mut kept = Vec::with_capacity(old.len());
        let mut long_naps = LongNaps::Safe;
        for peer in peers {
            let Some(current) = peer.current() else {
                continue;
            };
            // This process itself needs no watch.
            if current == me && current.1 != 0 {
                continue;
            }
            let same = |one: &&Watched| {
                (one.byte, one.pid, one.space) == (peer.byte, current.0, current.1)
            };
            let known = old.iter().find(same).filter(|one| !one.entry.has_ended());
            let watched = if let Some(known) = known {
                Some(Watched {
                    byte: peer.byte,
                    pid: current.0,
                    space: current.1,
                    entry: Arc::clone(&known.entry),
                    park: known.park.clone(),
                })
            } else {
                let set = if current.1 == me.1 && me.1 != 0 {
                    self.watch_one(peer.byte, current, park)
                } else {
                    None
                };
                // Its holder has ended and the sleeper sees that, or the number is that of the
                // holder.
                if !is_held(peer.byte) {
                    if let Some(set) = set {
                        set.forget(self.warden.as_ref());
                    }
                    continue;
                }
                set
            };
            if peer.current() != Some(current) || watched.is_none() {
                long_naps = LongNaps::Unsafe;
            }
            kept.extend(watched);
        }
        for gone in old {
            // One entry serves all participants of a process.
            let stays = kept
                .iter()
                .any(|one| one.byte == gone.byte && Arc::ptr_eq(&one.entry, &gone.entry));
            if !stays {
                gone.forget(self.warden.as_ref());
            }
        }
        self.watched = kept;
        if self
            .warden
            .as_ref()
            .is_some_and(|warden| warden.has_stopped())
        {
            long_naps = LongNaps::Unsafe;
        }
        long_naps
    }

    fn watch_one(&mut self, byte: u64, (pid, space): (u32, u64), park: &Word) -> Option<Watched> {
        if self.warden.is_none() {
            self.warden = Warden::current().ok();
            self.process = std::process::id();
        }
        let entry = self.warden.as_ref()?.watch(pid, park).ok()?;
        let park = park.clone();
        Some(Watched {
            byte,
            pid,
            space,
            entry,
            park,
        })
    }
}

impl Watched {
    fn forget(self, warden: Option<&Arc<Warden>>) {
        if let Some(warden) = warden {
            warden.shared.forget(self.pid, &self.entry, &self.park);
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let watched = std::mem::take(&mut self.watched);
        let warden = self.warden.take();
        if self.process != std::process::id() {
            // A copy in a forked child: the thread, and perhaps the holder of a lock, belong to the
            // parent.
            let _theirs = ManuallyDrop::new((watched, warden));
            return;
        }
        for one in watched {
            one.forget(warden.as_ref());
        }
    }
}

/// The thread, and the processes that it watches.
#[derive(Debug)]
struct Warden {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    epoll: OwnedFd,
    /// Readable when the thread must end.
    end: OwnedFd,
    entries: Mutex<HashMap<u32, Arc<Entry>>>,
}

/// One process, and the sleepers that depend on it.
#[derive(Debug)]
struct Entry {
    process: OwnedFd,
    /// 1 once it has died.
    ended: AtomicU64,
    sleepers: Mutex<Vec<Word>>,
}

impl Entry {
    fn has_ended(&self) -> bool {
        // Acquire: pairs with `Shared::report_death`.
        self.ended.load(Ordering::Acquire) != 0
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<Word>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Warden {
    /// The thread of this process; starts it if needed.
    ///
    /// # Errors
    ///
    /// If the system has no free descriptor or thread, or no `epoll`.
    fn current() -> io::Result<Arc<Self>> {
        static CURRENT: Mutex<Option<(u32, Weak<Warden>)>> = Mutex::new(None);
        // No fork while it is locked: the child's copy would stay locked.
        let _still = fork::block_forks();
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let me = std::process::id();
        if let Some((process, warden)) = &*current
            && *process == me
            && let Some(warden) = warden.upgrade()
        {
            return Ok(warden);
        }
        let warden = Arc::new(Self::start()?);
        *current = Some((me, Arc::downgrade(&warden)));
        Ok(warden)
    }

    fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            end: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            entries: Mutex::default(),
        });
        let data = epoll::EventData::new_u64(END);
        epoll::add(&shared.epoll, &shared.end, data, epoll::EventFlags::IN)?;
        let thread = std::thread::Builder::new()
            .name("olivine-warden".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.run()
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Whether the thread has ended and reports no deaths any more.
    fn has_stopped(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Takes `park` when process `pid` ends.
    ///
    /// # Errors
    ///
    /// If there is no such process, or no descriptor for it.
    fn watch(&self, pid: u32, park: &Word) -> io::Result<Arc<Entry>> {
        let mut entries = self.shared.entries();
        if let Some(entry) = entries.get(&pid) {
            entry.sleepers().push(park.clone());
            return Ok(Arc::clone(entry));
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        if entries.len() >= WATCHED_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let entry = Arc::new(Entry {
            process: pidfd_open(number, PidfdFlags::empty())?,
            ended: AtomicU64::new(0),
            sleepers: Mutex::new(vec![park.clone()]),
        });
        let data = epoll::EventData::new_u64(pid.into());
        epoll::add(
            &self.shared.epoll,
            &entry.process,
            data,
            epoll::EventFlags::IN,
        )?;
        entries.insert(pid, Arc::clone(&entry));
        Ok(entry)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // An eventfd that is full is readable already.
        let _ = rustix::io::write(&self.shared.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread does not matter here.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, HashMap<u32, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let marks = match events::next(&self.epoll) {
                Ok(marks) => marks,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Waiting is impossible: sleepers check after each nap.
                Err(_) => return,
            };
            for mark in marks {
                match mark {
                    END => return,
                    pid => self.report_death(pid),
                }
            }
        }
    }

    /// A process has died.
    fn report_death(&self, pid: u64) {
        let Ok(pid) = u32::try_from(pid) else { return };
        let Some(entry) = self.entries().remove(&pid) else {
            return;
        };
        let _ = epoll::delete(&self.epoll, &entry.process);
        // Release: pairs with `Entry::has_ended`.
        entry.ended.store(1, Ordering::Release);
        // A sleeper raises its flags before it asks for the watch, so the free lock or the entry
        // shows the death.
        for park in entry.sleepers().drain(..) {
            wake(&park);
        }
    }

    /// Drops one sleeper of an entry, and the entry with its last.
    fn forget(&self, pid: u32, entry: &Arc<Entry>, park: &Word) {
        let mut entries = self.entries();
        let mut sleepers = entry.sleepers();
        let at = sleepers
            .iter()
            .position(|one| std::ptr::eq::<AtomicU64>(&**one, &**park));
        if let Some(at) = at {
            sleepers.swap_remove(at);
        }
        let is_unused = sleepers.is_empty();
        drop(sleepers);
        if is_unused && entries.get(&pid).is_some_and(|one| Arc::ptr_eq(one, entry)) {
            entries.remove(&pid);
            let _ = epoll::delete(&self.epoll, &entry.process);
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::region::{Memory, Words};
    use std::process::{Child, Command, Stdio};

    /// Another process; killed at the end.
    struct Neighbour(Child);

    impl Neighbour {
        fn new() -> Self {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            Self(command.spawn().unwrap())
        }
    }

    impl Drop for Neighbour {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Words of participants: number, namespace and state of each, and the sleeper's park word.
    fn words() -> Words {
        Words::new(&Memory::heap(64 * 8), 0, 64)
    }

    fn peer(words: &Words, byte: u64, pid: u32, space: u64) -> Peer {
        let base = usize::try_from(byte).unwrap() * 3;
        words.word(base).store(pid.into(), Ordering::Relaxed);
        words.word(base + 1).store(space, Ordering::Relaxed);
        words.word(base + 2).store(1, Ordering::Relaxed);
        Peer {
            byte,
            pid: words.resolve(base),
            space: words.resolve(base + 1),
            open: Some(words.resolve(base + 2)),
        }
    }

    fn sleepers(watches: &Watches) -> usize {
        watches
            .watched
            .first()
            .map_or(0, |one| one.entry.sleepers().len())
    }

    #[test]
    fn watch_ends_with_its_lane_while_process_lives() {
        let (words, other) = (words(), Neighbour::new());
        let park = words.resolve(60);
        let peers = [1, 2].map(|byte| peer(&words, byte, other.0.id(), pid_space()));
        let mut watches = Watches::default();
        for _ in 0..3 {
            assert_eq!(watches.watch(&park, &peers, |_| true), LongNaps::Safe);
            assert_eq!(sleepers(&watches), 2);
            // The publisher of the second lane leaves.
            assert_eq!(watches.watch(&park, &peers[..1], |_| true), LongNaps::Safe);
            assert_eq!(sleepers(&watches), 1, "the watch of the second lane stayed");
        }
        let (warden, pid) = (watches.warden.clone().unwrap(), other.0.id());
        drop(watches);
        assert!(
            !warden.shared.entries().contains_key(&pid),
            "its descriptor stayed open"
        );
    }

    #[test]
    fn process_id_of_other_namespace_is_not_watched() {
        let (words, other) = (words(), Neighbour::new());
        let park = words.resolve(60);
        let mut watches = Watches::default();
        let here = [peer(&words, 1, other.0.id(), pid_space())];
        assert_eq!(watches.watch(&park, &here, |_| true), LongNaps::Safe);
        // The lane's next publisher has the same number elsewhere.
        let elsewhere = [peer(&words, 1, other.0.id(), pid_space() + 1)];
        assert_eq!(watches.watch(&park, &elsewhere, |_| true), LongNaps::Unsafe);
    }
}
