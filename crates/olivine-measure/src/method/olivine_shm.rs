//! Olivine between processes, with each wait strategy: a channel for each direction.

use super::OWN;
use super::olivine_channel::{Line, take_stream};
use super::{Driven, End, Method, Rendezvous, Side, drive};
use crate::channel::{Channel, Looks, POLL_LIMIT, WAIT_STEP, await_room, receive};
use olivine::{Publisher, Subscriber};
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::protocol::Batches;

/// The ring of a stream, unless the settings name another: as large as those of other libraries.
const STREAMED: &str = "4MiB";

pub(super) const SPIN: Method = Method::new(
    "olivine-spin",
    "shm:// with wait=spin; streams in a ring of 4 MiB",
    "spin",
    |side, rendezvous, size, settings| open("spin", side, rendezvous, size, settings),
)
.batching();
pub(super) const YIELD: Method = Method::new(
    "olivine-yield",
    "shm:// with wait=yield; streams in a ring of 4 MiB",
    "yield",
    |side, rendezvous, size, settings| open("yield", side, rendezvous, size, settings),
)
.batching();
pub(super) const PARK: Method = Method::new(
    "olivine-park",
    "shm:// with wait=park, sleeping in the kernel; streams in a ring of 4 MiB",
    "park",
    |side, rendezvous, size, settings| open("park", side, rendezvous, size, settings),
)
.batching();
pub(super) const ADAPTIVE: Method = Method::new(
    "olivine-adaptive",
    "shm:// with wait=adaptive, the default: spins, then sleeps; streams in a ring of 4 MiB",
    "adaptive",
    |side, rendezvous, size, settings| open("adaptive", side, rendezvous, size, settings),
)
.batching();
/// The same by its settings alone, for waits without a method.
pub(super) const ANY: Method = Method::new(
    OWN,
    "shm:// as its settings say",
    "",
    |side, rendezvous, size, settings| open("", side, rendezvous, size, settings),
)
.batching();

fn open(
    wait: &str,
    side: Side,
    rendezvous: &mut Rendezvous,
    size: usize,
    settings: &str,
) -> Driven {
    let channels = Channels::open(wait, side, rendezvous, size, settings)?;
    Ok(drive(channels, size))
}

/// One end: a publisher of one channel, a subscriber of the other.
pub(super) struct Channels {
    publisher: Publisher,
    subscriber: Subscriber,
    size: usize,
    /// How often it looks before it sleeps.
    looks: u32,
}

impl Channels {
    /// One end of two channels that wait so, or as the settings say.
    pub(super) fn open(
        wait: &str,
        side: Side,
        rendezvous: &mut Rendezvous,
        size: usize,
        settings: &str,
    ) -> Result<Self> {
        let uri = |name: &str| -> Result<Channel> {
            let mut words = vec![settings.to_owned()];
            let sized = settings
                .split('&')
                .any(|word| word.starts_with("capacity="));
            if rendezvous.streamed() && !sized {
                words.push(format!("capacity={STREAMED}"));
            }
            words.extend((!wait.is_empty()).then(|| format!("wait={}", wait)));
            // In the folder of the rendezvous: removed with it, and separate from channels in use.
            let folder = rendezvous.folder().join("channels");
            words.push(format!("dir={}", folder.display()));
            words.retain(|word| !word.is_empty());
            Channel::parse(&format!("shm://{name}?{}", words.join("&"))).map_err(ArenaError::method)
        };
        let (there, back) = (uri("there")?, uri("back")?);
        let (from, to) = side.from_to(there, back);
        let subscriber = Subscriber::open_with(&from.subscriber).map_err(ArenaError::method)?;
        // Both subscribe before either publishes, so that no first message is missed.
        rendezvous.exchange("subscribed")?;
        let publisher = Publisher::open_with(&to.publisher).map_err(ArenaError::method)?;
        rendezvous.exchange("open")?;
        Ok(Self {
            looks: from.looks,
            ..Self::new(publisher, subscriber, size)
        })
    }

    /// For messages of `size` bytes.
    pub(super) fn new(publisher: Publisher, subscriber: Subscriber, size: usize) -> Self {
        Self {
            publisher,
            subscriber,
            size,
            looks: 0,
        }
    }

    /// Sends messages of `size` bytes from now on.
    pub(super) fn resize(&mut self, size: usize) {
        self.size = size;
    }
}

impl End for Channels {
    #[inline(always)]
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        loop {
            match self.publisher.try_claim(self.size) {
                Ok(mut claim) => {
                    fill(&mut claim);
                    claim.commit();
                    return Ok(());
                }
                Err(error) => await_room(&mut self.publisher, self.size, error, None, self.looks)?,
            }
        }
    }

    #[inline(always)]
    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let mut handle = Some(handle);
        let result = receive(&mut self.subscriber, self.looks, |message| {
            handle.take().map(|handle| handle(message))
        })?;
        result.ok_or_else(|| ArenaError::Protocol {
            found: "two messages where one was asked for".to_owned(),
        })
    }

    #[inline(always)]
    fn echo(&mut self, _stage: &mut [u8], check: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let publisher = &mut self.publisher;
        let mut check = Some(check);
        // Sent back from the ring, as a program would do.
        receive(&mut self.subscriber, self.looks, |message| {
            if check.take().is_none_or(|check| !check(message)) {
                return Ok(false);
            }
            publisher.try_publish(message).map_err(ArenaError::method)?;
            Ok(true)
        })?
    }

    fn send_many(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [u8])) -> Result<()> {
        let mut stage = vec![0; self.size * count];
        for (number, place) in stage.chunks_exact_mut(self.size).enumerate() {
            fill(number, place);
        }
        let mut left = stage.chunks_exact(self.size).peekable();
        while left.peek().is_some() {
            let mut batch = self.publisher.batch();
            let mut refused = None;
            while let Some(message) = left.peek() {
                match batch.push(message) {
                    Ok(()) => drop(left.next()),
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            batch.commit();
            if let Some(error) = refused {
                await_room(&mut self.publisher, self.size, error, None, self.looks)?;
            }
        }
        Ok(())
    }

    fn stream_specialised(&mut self, batches: Batches) -> Option<Result<()>> {
        let Batches {
            first,
            count,
            batch,
            own,
        } = batches;
        let mut line = Line {
            publisher: &mut self.publisher,
            own,
            looks: self.looks,
            topics: &[],
        };
        Some(line.fill(self.size, batch, first..first + count))
    }

    fn take_specialised(&mut self, first: u64, count: u64) -> Option<Result<()>> {
        let mut looks = Looks::new(self.looks);
        let subscriber = &mut self.subscriber;
        Some(take_stream(subscriber, &mut looks, self.size, first, count))
    }

    fn receive_many(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
        let mut looks = Looks::new(self.looks);
        loop {
            let limit = limit.min(POLL_LIMIT);
            let taken = self.subscriber.poll(|message| handle(&message), limit);
            let taken = taken.map_err(ArenaError::method)?;
            if taken > 0 {
                return Ok(taken);
            }
            if !looks.again() {
                self.subscriber
                    .wait(WAIT_STEP)
                    .map_err(ArenaError::method)?;
            }
        }
    }
}
