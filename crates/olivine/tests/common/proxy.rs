//! A proxy between two sides of a connection. It cuts, delays, splits, holds and changes the bytes.

use olivine::{Publisher, Subscriber};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes that are kept.
const HEARD_MAX: usize = 1 << 20;
/// Longest sleep without a check of the settings.
const LOOK: Duration = Duration::from_micros(500);
/// Flip no bit.
const NO_FLIP: u64 = u64::MAX;

/// Forwards connections and keeps the first bytes of each direction.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// A direction of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the side that connects to the side that listens.
    ToListener,
    /// From the side that listens to the side that connects.
    FromListener,
}

impl Way {
    pub(crate) const BOTH: [Self; 2] = [Self::ToListener, Self::FromListener];
}

/// Replaces the bytes of a direction; keeps what it needs between two calls.
type Rewrite = Box<dyn FnMut(&[u8]) -> Vec<u8> + Send>;

/// The faults of one direction.
#[derive(Default)]
struct Suffering {
    /// Nothing is forwarded, not even the end of the connection.
    held: AtomicBool,
    /// Microseconds before each piece.
    delay_us: AtomicU64,
    /// Bytes forwarded at a time; 0 forwards them as they come.
    piece: AtomicU64,
    /// Bytes to forward before a bit is flipped, or [`NO_FLIP`].
    flip: AtomicU64,
    rewrite: Mutex<Option<Rewrite>>,
}

struct Shared {
    cuts: AtomicU64,
    cuts_done: AtomicU64,
    stop: AtomicBool,
    /// New connections are closed at once.
    down: AtomicBool,
    /// First bytes of each connection that are never changed.
    spared: u64,
    flipped: AtomicU64,
    connections: AtomicU64,
    heard: Mutex<Vec<u8>>,
    ways: [Suffering; 2],
}

impl Proxy {
    /// To the port `to` of this machine.
    pub(crate) fn start(to: u16) -> Self {
        Self::sparing(to, 0)
    }

    /// As [`Proxy::start`]; no bit is flipped in the first `spared` bytes of a direction of a
    /// connection.
    pub(crate) fn sparing(to: u16, spared: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            cuts: AtomicU64::new(0),
            cuts_done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            down: AtomicBool::new(false),
            spared,
            flipped: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            heard: Mutex::default(),
            ways: Default::default(),
        });
        for way in &shared.ways {
            way.flip.store(NO_FLIP, Ordering::Release);
        }
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener, to)
        });
        let thread = Some(thread);
        Self {
            port,
            shared,
            thread,
        }
    }

    fn way(&self, way: Way) -> &Suffering {
        &self.shared.ways[way as usize]
    }

    /// Cuts every connection: held bytes are not forwarded afterwards.
    pub(crate) fn cut(&self) {
        let cut = self.shared.cuts.fetch_add(1, Ordering::AcqRel) + 1;
        while self.shared.cuts_done.load(Ordering::Acquire) < cut {
            std::thread::park_timeout(LOOK / 8);
        }
    }

    /// Cuts every connection and closes new ones at once, until the link is up again.
    pub(crate) fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::Release);
        if down {
            self.cut();
        }
    }

    /// Holds the bytes of this direction.
    pub(crate) fn hold(&self, way: Way, held: bool) {
        self.way(way).held.store(held, Ordering::Release);
    }

    /// Waits so long before each piece of this direction.
    pub(crate) fn delay(&self, way: Way, delay: Duration) {
        let delay = u64::try_from(delay.as_micros()).unwrap();
        self.way(way).delay_us.store(delay, Ordering::Release);
    }

    /// Forwards so many bytes at a time; 0 forwards them as they come.
    pub(crate) fn split(&self, way: Way, piece: u64) {
        self.way(way).piece.store(piece, Ordering::Release);
    }

    /// Flips a bit after `after` more bytes of this direction.
    pub(crate) fn flip(&self, way: Way, after: u64) {
        self.way(way).flip.store(after, Ordering::Release);
    }

    /// Bits flipped so far.
    pub(crate) fn flipped(&self) -> u64 {
        self.shared.flipped.load(Ordering::Acquire)
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Passes the bytes of this direction through `rewrite`.
    pub(crate) fn rewrite(&self, way: Way, rewrite: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static) {
        *self.way(way).rewrite.lock().unwrap() = Some(Box::new(rewrite));
    }

    /// Whether `text` was forwarded.
    pub(crate) fn has_heard(&self, text: &[u8]) -> bool {
        let heard = self.shared.heard.lock().unwrap();
        heard.windows(text.len()).any(|window| window == text)
    }

    /// The kept first bytes.
    pub(crate) fn heard(&self) -> usize {
        self.shared.heard.lock().unwrap().len()
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener, to: u16) {
        let mut open: Vec<(TcpStream, Arc<AtomicBool>)> = Vec::new();
        let mut seen = 0;
        loop {
            let wanted = self.cuts.load(Ordering::Acquire);
            if wanted != seen {
                seen = wanted;
                for (stream, alive) in open.drain(..) {
                    alive.store(false, Ordering::Release);
                    let _ = stream.shutdown(Shutdown::Both);
                }
                self.cuts_done.store(seen, Ordering::Release);
            }
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let Ok((near, _)) = listener.accept() else {
                let mut polled = [PollFd::new(listener, PollFlags::IN)];
                let longest = Timespec::try_from(LOOK).unwrap();
                let _ = poll(&mut polled, Some(&longest));
                continue;
            };
            if self.down.load(Ordering::Acquire) {
                continue;
            }
            near.set_nonblocking(false).unwrap();
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else {
                continue;
            };
            for stream in [&near, &far] {
                stream.set_nodelay(true).unwrap();
            }
            self.connections.fetch_add(1, Ordering::AcqRel);
            let alive = Arc::new(AtomicBool::new(true));
            for (from, into, way) in [
                (&near, &far, Way::ToListener),
                (&far, &near, Way::FromListener),
            ] {
                let (from, into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                let (shared, alive) = (Arc::clone(self), Arc::clone(&alive));
                std::thread::spawn(move || shared.forward(from, into, way, &alive));
            }
            open.extend([(near, Arc::clone(&alive)), (far, alive)]);
        }
    }

    fn forward(&self, mut from: TcpStream, mut into: TcpStream, way: Way, alive: &AtomicBool) {
        let suffering = &self.ways[way as usize];
        let mut bytes = vec![0; 64 << 10];
        let mut gone_by = 0;
        loop {
            let count = from.read(&mut bytes).unwrap_or(0);
            while suffering.held.load(Ordering::Acquire) && alive.load(Ordering::Acquire) {
                std::thread::park_timeout(LOOK);
            }
            if count == 0 {
                break;
            }
            let bytes = &mut bytes[..count];
            self.change(suffering, bytes, gone_by);
            gone_by += count as u64;
            let rewritten = suffering.rewrite.lock().unwrap().as_mut().map(|f| f(bytes));
            let bytes = rewritten.as_deref().unwrap_or(bytes);
            {
                let mut heard = self.heard.lock().unwrap();
                let room = HEARD_MAX - heard.len();
                heard.extend(&bytes[..bytes.len().min(room)]);
            }
            if suffering.hand_on(bytes, &mut into).is_err() {
                break;
            }
        }
        let _ = into.shutdown(Shutdown::Write);
    }

    /// Flips a bit if requested.
    fn change(&self, suffering: &Suffering, bytes: &mut [u8], gone_by: u64) {
        let after = suffering.flip.load(Ordering::Acquire);
        if after == NO_FLIP {
            return;
        }
        let spared = usize::try_from(self.spared.saturating_sub(gone_by)).unwrap();
        let Some(open) = bytes.get_mut(spared..).filter(|open| !open.is_empty()) else {
            return;
        };
        match usize::try_from(after).ok().and_then(|at| open.get_mut(at)) {
            Some(byte) => {
                *byte ^= 1 << (after % 8);
                suffering.flip.store(NO_FLIP, Ordering::Release);
                self.flipped.fetch_add(1, Ordering::AcqRel);
            }
            None => {
                let left = after - open.len() as u64;
                suffering.flip.store(left, Ordering::Release);
            }
        }
    }
}

impl Suffering {
    fn hand_on(&self, bytes: &[u8], into: &mut TcpStream) -> std::io::Result<()> {
        let delay = self.delay_us.load(Ordering::Acquire);
        if delay > 0 {
            std::thread::park_timeout(Duration::from_micros(delay));
        }
        match usize::try_from(self.piece.load(Ordering::Acquire)).unwrap() {
            0 => into.write_all(bytes),
            piece => bytes
                .chunks(piece)
                .try_for_each(|piece| into.write_all(piece)),
        }
    }
}

/// Sends `count` numbers from `publish` to `subscribe` through `proxy`, which cuts the connection
/// again and again: each number arrives once, in order.
pub(crate) fn nothing_is_lost_in_cuts(proxy: &Proxy, publish: &str, subscribe: &str, count: u64) {
    let uri = publish.to_owned();
    let publishing = std::thread::spawn(move || {
        let mut publisher = Publisher::open(&uri).unwrap();
        for number in 0..count {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        publisher.close().unwrap();
    });
    let mut subscriber = Subscriber::open(subscribe).unwrap();
    for number in 0..count {
        let received = subscriber.receive().unwrap();
        assert_eq!(*received, number.to_le_bytes(), "{publish}");
        if number % (count / 10) == count / 20 {
            proxy.cut();
        }
    }
    publishing.join().unwrap();
    let status = subscriber.link_status().unwrap();
    assert!(status.failures > 0, "nothing was cut: {status:?}");
    assert_eq!(status.messages, count);
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
