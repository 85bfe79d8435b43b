//! Aeron (its C media driver and client): IPC streams between processes, by exclusive publications.

use olivine_arena::error::{ArenaError, Result};
use olivine_arena::fixed::pause;
use olivine_arena::method::{Driver, End, Method, Rendezvous, Side, drive};
use olivine_arena::run;
use rusteron_media_driver::{
    Aeron, AeronCError, AeronContext, AeronDriver, AeronDriverContext, AeronExclusivePublication,
    AeronSubscription, Handlers, IntoCString, bindings::aeron_threading_mode_enum,
};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Where messages go: terms that stay in a cache, messages of up to [`SIZE_MAX`] in one piece.
const CHANNEL: &str = "aeron:ipc?term-length=1m|mtu=65504";
/// Longest message that is one fragment, in bytes: the MTU less a header.
const SIZE_MAX: usize = 65_504 - 32;
/// Longest wait until both sides have their streams.
const ADD_MAX: Duration = Duration::from_secs(5);
/// Polls in a row without a message after which a side does the work of its client and driver: more
/// than a round trip takes.
const IDLE: u32 = 256;
/// Pause instructions in streams after a poll without a message, and after a refused message: a
/// look takes the line that the other side is about to write. Of 0 to 4,000 the fastest.
const PAUSES: (u32, u32) = (2_000, 100);
/// Messages taken in one poll.
const TAKEN: usize = 256;

const AERON: Method = Method::new(
    "aeron-ipc",
    "Aeron IPC, exclusive publications, offer, spinning, in streams with 2,000 pauses after an \
            empty poll and 100 after a refused message; its driver and clients without threads, \
            invoked by the participants",
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

/// Starts a media driver without threads: [`Agents::work`] does its work.
fn driver(folder: &str) -> Result<AeronDriver> {
    let context = AeronDriverContext::new().map_err(says)?;
    context.set_dir(&folder.into_c_string()).map_err(says)?;
    context.set_dir_delete_on_start(true).map_err(says)?;
    context.set_dir_delete_on_shutdown(true).map_err(says)?;
    context
        .set_threading_mode(aeron_threading_mode_enum::AERON_THREADING_MODE_INVOKER)
        .map_err(says)?;
    let driver = AeronDriver::new(&context).map_err(says)?;
    driver.start(true).map_err(says)?;
    driver.main_do_work().map_err(says)?;
    Ok(driver)
}

/// Connects to the media driver, also without a thread.
fn client(folder: &str) -> Result<Aeron> {
    let context = AeronContext::new().map_err(says)?;
    context.set_dir(&folder.into_c_string()).map_err(says)?;
    context
        .set_use_conductor_agent_invoker(true)
        .map_err(says)?;
    let client = Aeron::new(&context).map_err(says)?;
    client.start().map_err(says)?;
    Ok(client)
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
    let client = client(&folder)?;
    let (idle_pauses, refused_pauses) = match rendezvous.streamed() {
        true => PAUSES,
        false => (0, 0),
    };
    let agents = Agents {
        client,
        driver,
        idle_pauses,
        refused_pauses,
    };
    let (from, to) = side.from_to(1, 2);
    let channel = CHANNEL.into_c_string();
    let adding = agents
        .client
        .async_add_subscription(&channel, from, Handlers::NONE, Handlers::NONE)
        .map_err(says)?;
    let subscription = agents.until(|| adding.poll())?;
    let adding = agents
        .client
        .async_add_exclusive_publication(&channel, to)
        .map_err(says)?;
    let publication = agents.until(|| adding.poll())?;
    agents.until(|| {
        let connected = publication.is_connected() && subscription.image_count()? == 1;
        Ok(connected.then_some(()))
    })?;
    // The driver works until the other side has its streams: a wait for a line would stop it.
    let connected = rendezvous.folder().join("connected");
    match side {
        Side::Client => agents.until(|| Ok(connected.exists().then_some(())))?,
        Side::Server => std::fs::write(&connected, "").map_err(says)?,
    }
    let stage = vec![0; size];
    let streams = Streams {
        publication,
        subscription,
        stage,
        agents,
    };
    Ok(drive(streams, size))
}

/// What Aeron's threads would do elsewhere: both participants spin, and have no CPU for more.
// Dropped in this order: the driver goes last.
struct Agents {
    client: Aeron,
    driver: Option<AeronDriver>,
    idle_pauses: u32,
    refused_pauses: u32,
}

impl Agents {
    #[cold]
    fn work(&self) -> Result<()> {
        self.client.main_do_work().map_err(says)?;
        if let Some(driver) = &self.driver {
            driver.main_do_work().map_err(says)?;
        }
        Ok(())
    }

    /// Works until `look` has found something.
    fn until<T>(
        &self,
        look: impl Fn() -> std::result::Result<Option<T>, AeronCError>,
    ) -> Result<T> {
        let begun = Instant::now();
        loop {
            if let Some(found) = look().map_err(says)? {
                return Ok(found);
            }
            if begun.elapsed() > ADD_MAX {
                return Err(says("the driver added no stream in time"));
            }
            self.work()?;
        }
    }

    /// After the `empty`th poll in a row without a message.
    #[inline(always)]
    fn rest(&self, empty: &mut u32) -> Result<()> {
        *empty += 1;
        if empty.is_multiple_of(IDLE) {
            self.work()?;
        }
        pause(self.idle_pauses);
        Ok(())
    }
}

// Dropped in this order: the driver goes last.
struct Streams {
    publication: AeronExclusivePublication,
    subscription: AeronSubscription,
    stage: Vec<u8>,
    agents: Agents,
}

/// Sends a message; the driver moves the limit of a refused publication.
#[inline(always)]
fn offer(publication: &AeronExclusivePublication, agents: &Agents, message: &[u8]) -> Result<()> {
    loop {
        match publication.offer(message) {
            Ok(_position) => return Ok(()),
            Err(error) if error.is_retryable() => {
                agents.work()?;
                pause(agents.refused_pauses);
            }
            Err(error) => return Err(says(error)),
        }
    }
}

impl End for Streams {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.stage);
        offer(&self.publication, &self.agents, &self.stage)
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let mut handle = Some(handle);
        let mut handled = None;
        let mut empty = 0;
        loop {
            let take = |message: &[u8], _header| {
                handled = handle.take().map(|handle| handle(message));
            };
            self.subscription.poll_fn(take, 1).map_err(says)?;
            if let Some(handled) = handled.take() {
                return Ok(handled);
            }
            self.agents.rest(&mut empty)?;
        }
    }

    #[inline(always)]
    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let (publication, agents) = (&self.publication, &self.agents);
        let mut check = Some(check);
        let mut echoed = None;
        let mut empty = 0;
        loop {
            // Sent back from its term, as a program would.
            let take = |message: &[u8], _header| {
                let fits = check.take().is_some_and(|check| check(message));
                echoed = Some(if fits {
                    offer(publication, agents, message).map(|()| true)
                } else {
                    Ok(false)
                });
            };
            self.subscription.poll_fn(take, 1).map_err(says)?;
            if let Some(echoed) = echoed.take() {
                return echoed;
            }
            agents.rest(&mut empty)?;
        }
    }

    #[inline(always)]
    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let mut empty = 0;
        loop {
            let room = limit.min(TAKEN);
            let taken = self
                .subscription
                .poll_fn(|message: &[u8], _header| handle(message), room)
                .map_err(says)?;
            if taken > 0 {
                return Ok(usize::try_from(taken).unwrap_or(0));
            }
            self.agents.rest(&mut empty)?;
        }
    }
}
