//! Aeron (its C media driver and client): IPC streams between processes, by exclusive publications.

use olivine_arena::affinity;
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::run;
use rusteron_media_driver::{
    Aeron, AeronDriver, AeronDriverContext, AeronExclusivePublication, AeronSubscription,
    EmbeddedMediaDriver, Handlers, IntoCString,
};
use std::process::ExitCode;
use std::time::Duration;

/// Where messages go: terms that stay in a cache, messages of up to [`SIZE_MAX`] in one piece.
const CHANNEL: &str = "aeron:ipc?term-length=1m|mtu=65504";
/// Longest message that is one fragment, in bytes: the MTU less a header.
const SIZE_MAX: usize = 65_504 - 32;
/// Longest wait for the driver to add a stream.
const ADD_MAX: Duration = Duration::from_secs(5);
/// Messages taken in one poll.
const TAKEN: usize = 256;

const AERON: Method = Method::new(
    "aeron-ipc",
    "Aeron IPC, exclusive publications, claim and commit, spinning; its driver's threads \
            not pinned",
    "spin",
    open,
)
.streaming()
.lacking("needs a driver process beside");

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [AERON];
    run(&METHODS)
}

fn says(error: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "Aeron",
        message: error.to_string(),
    }
}

/// Starts a media driver on threads of this process.
fn driver(folder: &str) -> Result<EmbeddedMediaDriver> {
    let context = AeronDriverContext::new().map_err(says)?;
    context.set_dir(&folder.into_c_string()).map_err(says)?;
    context.set_dir_delete_on_start(true).map_err(says)?;
    context.set_dir_delete_on_shutdown(true).map_err(says)?;
    Ok(AeronDriver::launch_embedded_guard(context, false))
}

fn open(
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    _settings: &str,
) -> Result<Box<dyn Driver>> {
    if size > SIZE_MAX {
        return Err(ArenaError::TooLong {
            bytes: size,
            max: SIZE_MAX,
            limit: "Aeron's largest fragment",
        });
    }
    let folder = rendezvous.folder().join("aeron").display().to_string();
    let streams = affinity::unpinned(|| -> Result<Streams> {
        let driver = match side {
            Side::Client => Some(driver(&folder)?),
            Side::Server => {
                let _started = rendezvous.hear()?;
                None
            }
        };
        if side == Side::Client {
            rendezvous.tell("started")?;
        }
        let client = Aeron::connect_dir(&folder).map_err(says)?;
        let (from, to) = side.from_to(1, 2);
        let channel = CHANNEL.into_c_string();
        let subscription = client
            .async_add_subscription(&channel, from, Handlers::NONE, Handlers::NONE)
            .and_then(|adding| adding.poll_blocking(ADD_MAX))
            .map_err(says)?;
        let publication = client
            .async_add_exclusive_publication(&channel, to)
            .and_then(|adding| adding.poll_blocking(ADD_MAX))
            .map_err(says)?;
        Ok(Streams {
            publication,
            subscription,
            size,
            _client: client,
            _driver: driver,
        })
    })?;
    rendezvous.exchange("added")?;
    Ok(drive(streams, size))
}

// Dropped in this order: the driver goes last.
struct Streams {
    publication: AeronExclusivePublication,
    subscription: AeronSubscription,
    size: usize,
    _client: Aeron,
    _driver: Option<EmbeddedMediaDriver>,
}

/// Sends a message from other memory.
#[inline(always)]
fn offer(publication: &AeronExclusivePublication, message: &[u8]) -> Result<()> {
    loop {
        match publication.offer(message) {
            Ok(_position) => return Ok(()),
            Err(error) if error.is_retryable() => {}
            Err(error) => return Err(says(error)),
        }
    }
}

impl End for Streams {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        let mut claim = loop {
            match self.publication.try_claim_owned(self.size) {
                Ok(claim) => break claim,
                // Also while the other side is not connected yet.
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(says(error)),
            }
        };
        fill(claim.data());
        claim.commit().map_err(says)?;
        Ok(())
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let mut handle = Some(handle);
        let mut handled = None;
        loop {
            let take = |message: &[u8], _header| {
                handled = handle.take().map(|handle| handle(message));
            };
            self.subscription.poll_fn(take, 1).map_err(says)?;
            if let Some(handled) = handled.take() {
                return Ok(handled);
            }
        }
    }

    #[inline(always)]
    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let publication = &self.publication;
        let mut check = Some(check);
        let mut echoed = None;
        loop {
            // Sent back from its term, as a program would.
            let take = |message: &[u8], _header| {
                let fits = check.take().is_some_and(|check| check(message));
                echoed = Some(if fits {
                    offer(publication, message).map(|()| true)
                } else {
                    Ok(false)
                });
            };
            self.subscription.poll_fn(take, 1).map_err(says)?;
            if let Some(echoed) = echoed.take() {
                return echoed;
            }
        }
    }

    #[inline(always)]
    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        loop {
            let room = limit.min(TAKEN);
            let taken = self
                .subscription
                .poll_fn(|message: &[u8], _header| handle(message), room)
                .map_err(says)?;
            if taken > 0 {
                return Ok(usize::try_from(taken).unwrap_or(0));
            }
        }
    }
}
