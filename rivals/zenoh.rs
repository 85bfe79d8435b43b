//! zenoh: publish-subscribe between processes over UNIX sockets: payloads, or the announcement of
//! payloads in shared memory.

use olivine_arena::affinity;
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::run;
use std::process::ExitCode;
use std::time::Duration;
use zenoh::handlers::FifoChannelHandler;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::Sample;
use zenoh::shm::{
    GarbageCollect, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder, ZAllocError,
    ZLayoutAllocError,
};
use zenoh::{Config, Session, Wait};

/// Longest single wait for a message.
const WAIT: Duration = Duration::from_millis(400);
/// How long the two sessions may take to know each other.
const MEETING_MAX: Duration = Duration::from_secs(5);
/// Time between two looks whether they do.
const MEETING_STEP: Duration = Duration::from_millis(5);
/// Shared memory for payloads, in bytes.
const POOL_BYTES: usize = 16 << 20;

const PLAIN: Method = Method::new(
    "zenoh",
    "zenoh over UNIX sockets, blocking, its threads not pinned",
    "block",
    |side, rendezvous, size, _| open(false, side, rendezvous, size),
)
.streaming();
const SHARED: Method = Method::new(
    "zenoh-shm",
    "zenoh with payloads in shared memory, blocking, its threads not pinned",
    "block",
    |side, rendezvous, size, _| open(true, side, rendezvous, size),
)
.streaming();

fn main() -> ExitCode {
    static METHODS: [Method; 2] = [PLAIN, SHARED];
    run(&METHODS)
}

fn says(error: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "zenoh",
        message: error.to_string(),
    }
}

/// A session that talks to one other, through a socket in the rendezvous's folder.
fn session(is_shared: bool, side: Side, rendezvous: &mut Rendezvous) -> Result<Session> {
    let socket = rendezvous.folder().join("zenoh");
    let endpoint = format!("[\"unixsock-stream/{}\"]", socket.display());
    let (ours, none) = match side {
        Side::Client => ("listen/endpoints", "connect/endpoints"),
        Side::Server => ("connect/endpoints", "listen/endpoints"),
    };
    let mut config = Config::default();
    for (key, value) in [
        ("mode", "\"peer\""),
        ("scouting/multicast/enabled", "false"),
        (
            "transport/shared_memory/enabled",
            if is_shared { "true" } else { "false" },
        ),
        (ours, endpoint.as_str()),
        (none, "[]"),
    ] {
        config.insert_json5(key, value).map_err(says)?;
    }
    if side == Side::Server {
        let _listening = rendezvous.hear()?;
    }
    let session = zenoh::open(config).wait().map_err(says)?;
    match side {
        Side::Client => drop(rendezvous.exchange("listening")?),
        Side::Server => rendezvous.tell("connected")?,
    }
    Ok(session)
}

fn open(
    is_shared: bool,
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
) -> Result<Box<dyn Driver>> {
    let pair = affinity::unpinned(|| -> Result<Pair> {
        let session = session(is_shared, side, rendezvous)?;
        let (from, to) = side.from_to("olivine/there", "olivine/back");
        let subscriber = session.declare_subscriber(from).wait().map_err(says)?;
        // At once for a message that is waited for, gathered where messages stream.
        let publisher = session
            .declare_publisher(to)
            .congestion_control(CongestionControl::Block)
            .express(!rendezvous.streamed())
            .wait()
            .map_err(says)?;
        let pool = if is_shared {
            let pool = PosixShmProviderBackend::builder(POOL_BYTES).wait();
            Some(ShmProviderBuilder::backend(pool.map_err(says)?).wait())
        } else {
            None
        };
        meet(&publisher)?;
        Ok(Pair {
            subscriber,
            publisher,
            pool,
            size,
            _session: session,
        })
    })?;
    rendezvous.exchange("matched")?;
    Ok(drive(pair, size))
}

/// Waits until the other side subscribes.
fn meet(publisher: &Publisher<'_>) -> Result<()> {
    let mut waited = Duration::ZERO;
    while !publisher.matching_status().wait().map_err(says)?.matching() {
        if waited >= MEETING_MAX {
            return Err(ArenaError::PeerSilent {
                seconds: MEETING_MAX.as_secs(),
            });
        }
        std::thread::sleep(MEETING_STEP);
        waited += MEETING_STEP;
    }
    Ok(())
}

struct Pair {
    subscriber: Subscriber<FifoChannelHandler<Sample>>,
    publisher: Publisher<'static>,
    /// Where payloads are, if they are in shared memory.
    pool: Option<ShmProvider<PosixShmProviderBackend>>,
    size: usize,
    _session: Session,
}

impl Pair {
    /// Waits for a message.
    fn next(&self) -> Result<Sample> {
        loop {
            if let Some(sample) = self.subscriber.recv_timeout(WAIT).map_err(says)? {
                return Ok(sample);
            }
        }
    }
}

impl End for Pair {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let Some(pool) = &self.pool else {
            let mut message = vec![0; self.size];
            fill(&mut message);
            return self.publisher.put(message).wait().map_err(says);
        };
        let mut message = loop {
            let place = pool.alloc(self.size).with_policy::<GarbageCollect>();
            match place.wait() {
                Ok(place) => break place,
                // The other side has not let go of enough yet.
                Err(ZLayoutAllocError::Alloc(
                    ZAllocError::OutOfMemory | ZAllocError::NeedDefragment,
                )) => {
                    std::thread::yield_now();
                }
                Err(error) => return Err(says(error)),
            }
        };
        fill(&mut message);
        self.publisher.put(message).wait().map_err(says)
    }

    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let sample = self.next()?;
        let fits = check(&sample.payload().to_bytes());
        if fits {
            // The same shared memory goes back, as a program would send it.
            let payload = sample.payload().clone();
            self.publisher.put(payload).wait().map_err(says)?;
        }
        Ok(fits)
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let sample = self.next()?;
        Ok(handle(&sample.payload().to_bytes()))
    }
}
