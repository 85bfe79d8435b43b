//! iceoryx2: publish-subscribe between processes, nothing dropped.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::for_size;
use olivine_arena::method::{Driver, Fixed, Method, Pop, Push, Rendezvous, Side, drive};
use olivine_arena::run;
use std::process::ExitCode;

/// Samples that a subscriber's buffer holds.
const CAPACITY: usize = 1024;

const ICEORYX2: Method = Method::new(
    "iceoryx2",
    "iceoryx2 publish-subscribe, no overflow, loan, write and send, spinning",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => open::<N>(side, rendezvous)),
)
.streaming();

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [ICEORYX2];
    set_log_level(LogLevel::Error);
    run(&METHODS)
}

fn says(error: impl std::fmt::Debug) -> ArenaError {
    ArenaError::Library {
        library: "iceoryx2",
        message: format!("{error:?}"),
    }
}

fn open<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    let node = NodeBuilder::new().create::<ipc::Service>().map_err(says)?;
    let folder = rendezvous.folder().file_name().unwrap_or_default();
    let folder = folder.to_string_lossy().into_owned();
    let service = |direction: &str| {
        let name = format!("{folder}/{direction}");
        node.service_builder(&name.as_str().try_into().map_err(says)?)
            .publish_subscribe::<[u8; N]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(CAPACITY)
            .max_publishers(1)
            .max_subscribers(1)
            .open_or_create()
            .map_err(says)
    };
    let (there, back) = (service("there")?, service("back")?);
    let (from, to) = side.from_to(there, back);
    let subscriber = from
        .subscriber_builder()
        .buffer_size(CAPACITY)
        .create()
        .map_err(says)?;
    rendezvous.exchange("subscribed")?;
    let publisher = to
        .publisher_builder()
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()
        .map_err(says)?;
    rendezvous.exchange("open")?;
    // A subscriber connects when it looks. Until then a publisher drops what has no room, whatever
    // its strategy.
    subscriber.has_samples().map_err(says)?;
    rendezvous.exchange("connected")?;
    Ok(drive(Fixed::new(To::<N>(publisher), From(subscriber)), N))
}

struct To<const N: usize>(Publisher<ipc::Service, [u8; N], ()>);

impl<const N: usize> Push<N> for To<N> {
    #[inline(always)]
    fn push(&mut self, fill: impl FnOnce(&mut [u8; N])) -> Result<bool> {
        let mut sample = self.0.loan_uninit().map_err(says)?;
        // SAFETY: bytes of shared memory, which the kernel hands out as zeros: any are a value.
        fill(unsafe { sample.payload_mut().assume_init_mut() });
        // SAFETY: as above.
        let sample = unsafe { sample.assume_init() };
        match sample.send().map_err(says)? {
            1 => Ok(true),
            count => Err(says(format!(
                "a message was delivered to {count} subscribers"
            ))),
        }
    }
}

struct From<const N: usize>(Subscriber<ipc::Service, [u8; N], ()>);

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        let sample = self.0.receive().map_err(says)?;
        Ok(sample.map(|sample| handle(sample.payload())))
    }
}
