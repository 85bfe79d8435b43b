//! Wakes a thread that sleeps on its ring, when its connection has data or an end is requested.
//!
//! A sending end waits for a ring and a socket, and the kernel has no call for both. Published
//! messages must be sent soon, so the sending thread sleeps on the ring, like any subscriber. A
//! second thread waits for the socket, where acknowledgements and keepalives arrive, and wakes it.
//!
//! The waker stores a flag and then reads the park word; the sleeper raises its park word and then
//! reads the flag. So one of the two sees the other, as with SLEEP in [`crate::wait`].

use crate::link::Control;
use crate::region::Word;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::wait::warden::Watches;
use crate::wait::{LongNaps, Sleeper, events, wake};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that waits for a socket on behalf of another one; ended and joined when dropped.
#[derive(Debug)]
pub(super) struct SocketWaker {
    shared: Arc<Shared>,
    sleeper: Sleeper,
    /// Readable once the thread is to end.
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// 1 once an event came that `wait` has not reported yet.
    signalled: AtomicU64,
    /// 1 once the thread is to end.
    ended: AtomicU64,
    epoll: OwnedFd,
}

impl SocketWaker {
    /// Starts the thread. It wakes `sleeper` when `socket` becomes readable or closed, and when an
    /// end is requested from `control`. Both outlive it.
    ///
    /// It reports events, not states: after a wake-up, read the socket until it is empty before the
    /// next sleep.
    ///
    /// # Errors
    ///
    /// If the system has no descriptor or thread left.
    pub(super) fn start(
        socket: BorrowedFd<'_>,
        control: &Control,
        sleeper: Sleeper,
    ) -> io::Result<Self> {
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            signalled: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        });
        let edges = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        for descriptor in [socket, control.wake_fd(), end.as_fd()] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&shared.epoll, descriptor, data, edges)?;
        }
        let thread = std::thread::Builder::new()
            .name("olivine-waker".into())
            .spawn({
                let (shared, sleeper) = (Arc::clone(&shared), sleeper.clone());
                move || run(&shared, &sleeper)
            })?;
        Ok(Self {
            shared,
            sleeper,
            end,
            thread: Some(thread),
        })
    }

    /// Sleeps until an event, until `ready` returns true, or for `longest`, which is shortened
    /// unless `watch` returns `Safe`. Returns whether an event came since the last call.
    pub(super) fn wait(
        &self,
        longest: Duration,
        watch: impl FnOnce(&mut Watches, &Word) -> LongNaps,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        let signalled = &self.shared.signalled;
        let watch = |watches: &mut Watches| watch(watches, &self.sleeper.park);
        self.sleeper.sleep(longest, watch, || {
            // Acquire: the data before the event can be read.
            signalled.load(Ordering::Acquire) != 0 || ready()
        });
        signalled.swap(0, Ordering::AcqRel) != 0
    }
}

fn run(shared: &Shared, sleeper: &Sleeper) {
    loop {
        let outcome = events::next(&shared.epoll).map(drop);
        // Waiting is impossible: without the waker, the sleeper checks after each nap.
        if outcome.is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            return;
        }
        // Acquire: pairs with `drop`.
        if shared.ended.load(Ordering::Acquire) != 0 {
            return;
        }
        // Release: pairs with `wait`.
        shared.signalled.store(1, Ordering::Release);
        // SeqCst: orders the store before our load of the park word, a store and a load of
        // different words. The sleeper has its barrier or fence between its two. Once for each
        // event.
        fence(Ordering::SeqCst);
        wake(&sleeper.park);
    }
}

impl Drop for SocketWaker {
    fn drop(&mut self) {
        // Release: pairs with `run`.
        self.shared.ended.store(1, Ordering::Release);
        // A full eventfd is readable already.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is ignored.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::egress::Egress;
    use crate::link::Stop;
    use crate::uri::Config;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    #[test]
    fn sleeper_is_woken_by_its_socket_and_by_end_requests() {
        let config = Config::parse("inproc://waker").unwrap();
        let egress = Egress::open(&config, crate::channel::attach::ShapeRole::Names).unwrap();
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let control = Control::new().unwrap();
        let waker = SocketWaker::start(ours.as_fd(), &control, egress.sleeper()).unwrap();
        let safe = |_: &mut Watches, _: &Word| LongNaps::Safe;
        let until_signalled = || while !waker.wait(Duration::from_secs(1), safe, || false) {};
        for _ in 0..1000 {
            theirs.write_all(b"x").unwrap();
            until_signalled();
            ours.read_exact(&mut [0]).unwrap();
        }
        control.stop(Stop::Now);
        until_signalled();
        drop(theirs);
        until_signalled();
    }
}
