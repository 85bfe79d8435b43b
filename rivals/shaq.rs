//! shaq: its single-producer single-consumer queue and its broadcast queue, in shared memory
//! between processes.

use olivine_arena::error::{ArenaError, Result};
use olivine_arena::for_size;
use olivine_arena::method::{
    Driver, Fixed, Method, Pop, Push, Rendezvous, Side, Tuning, Tunings, drive,
};
use olivine_arena::run;
use shaq::{broadcast, spsc};
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;

/// Its ring and its pauses in round trips and in streams: the fastest of rings of 128 KiB to 4 MiB,
/// of 0 to 8 pauses in round trips, and of 128 to 1,024 in streams.
const TUNINGS: Tunings = Tunings::new(Tuning::new(128 << 10, 0), Tuning::new(4 << 20, 512));

const SINGLE: Method = Method::new(
    "shaq",
    "shaq single-producer single-consumer queue in shared memory, spinning, with 512 pauses \
            between two looks in streams, with queues of 4 MiB",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => single::<N>(side, rendezvous)),
)
.batching()
.lacking("fixed size of messages, one reader; a dead side is not noticed");

const BROADCAST: Method = Method::new(
    "shaq-broadcast",
    "shaq broadcast queue with one lane and one consumer slot, spinning, with 512 pauses between \
            two looks in streams, with queues of 4 MiB",
    "spin",
    |side, rendezvous, size, _| for_size!(size, N => cast::<N>(side, rendezvous)),
)
.batching()
.lacking("fixed size of messages; a dead side is not noticed");

fn main() -> ExitCode {
    static METHODS: [Method; 2] = [SINGLE, BROADCAST];
    run(&METHODS)
}

fn says(error: impl std::fmt::Debug) -> ArenaError {
    ArenaError::Library {
        library: "shaq",
        message: format!("{error:?}"),
    }
}

fn file(path: &Path, make: bool) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(make);
    options.open(path).map_err(says)
}

/// The two files, ours to write first; both exist when this returns on either side.
fn files(side: Side, rendezvous: &mut Rendezvous) -> Result<(File, File)> {
    let (there, back) = (
        rendezvous.folder().join("there"),
        rendezvous.folder().join("back"),
    );
    let (from, to) = side.from_to(there, back);
    let to = file(&to, true)?;
    rendezvous.exchange("made")?;
    Ok((to, file(&from, false)?))
}

fn single<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    let (to, from) = files(side, rendezvous)?;
    let tuning = TUNINGS.of(rendezvous);
    let bytes = spsc::minimum_file_size::<[u8; N]>(tuning.messages(N));
    // SAFETY: this side alone initialises the file it made and is its only producer; messages are
    // plain bytes.
    let producer = unsafe { spsc::Producer::<[u8; N]>::create(&to, bytes) }.map_err(says)?;
    rendezvous.exchange("initialised")?;
    // SAFETY: the other side has initialised it, and this is its only consumer.
    let consumer = unsafe { spsc::Consumer::<[u8; N]>::join(&from) }.map_err(says)?;
    rendezvous.exchange("joined")?;
    let end = Fixed::new(To(producer), From(consumer));
    Ok(drive(end.pausing(tuning.pauses), N))
}

struct To<const N: usize>(spsc::Producer<[u8; N]>);

impl<const N: usize> To<N> {
    /// Appends up to `count` messages; returns how many had room.
    #[inline(always)]
    fn write(&mut self, count: usize, mut fill: impl FnMut(usize, &mut [u8; N])) -> usize {
        let mut batch = self.0.write_batch();
        for number in 0..count {
            // SAFETY: bytes of a mapped file, which starts as zeros: any are a value, and they are
            // written below.
            let Some(slot) = (unsafe { batch.try_as_mut() }) else {
                if number == 0 {
                    // Nothing is to be published; dropped, it would store and wake all the same.
                    std::mem::forget(batch);
                }
                return number;
            };
            // SAFETY: as above.
            fill(number, unsafe { slot.assume_init_mut() });
        }
        count
    }
}

impl<const N: usize> Push<N> for To<N> {
    #[inline(always)]
    fn push(&mut self, fill: impl FnOnce(&mut [u8; N])) -> Result<bool> {
        let mut fill = Some(fill);
        let written = self.write(1, |_, slot| {
            if let Some(fill) = fill.take() {
                fill(slot);
            }
        });
        Ok(written == 1)
    }

    #[inline(always)]
    fn push_some(&mut self, count: usize, fill: impl FnMut(usize, &mut [u8; N])) -> Result<usize> {
        Ok(self.write(count, fill))
    }
}

struct From<const N: usize>(spsc::Consumer<[u8; N]>);

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        let Some(batch) = self.0.try_reserve_read_batch(NonZeroUsize::MIN) else {
            return Ok(None);
        };
        Ok(batch.as_slices().0.first().map(handle))
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8; N])) -> Result<usize> {
        let Some(limit) = NonZeroUsize::new(limit) else {
            return Ok(0);
        };
        let Some(batch) = self.0.try_reserve_read_batch(limit) else {
            return Ok(0);
        };
        let (first, second) = batch.as_slices();
        first
            .iter()
            .chain(second)
            .for_each(|message| handle(message));
        Ok(batch.len())
    }
}

fn cast<const N: usize>(side: Side, rendezvous: &mut Rendezvous) -> Result<Box<dyn Driver>> {
    let (to, from) = files(side, rendezvous)?;
    let tuning = TUNINGS.of(rendezvous);
    let config = broadcast::BroadcastConfig {
        capacity: tuning.messages(N),
        producer_slots: 1,
        consumer_slots: 1,
    };
    let id = broadcast::ProducerId::new(1);
    // SAFETY: this side alone initialises the file it made; messages are plain bytes.
    let producer = unsafe { broadcast::Producer::<[u8; N]>::create(&to, config, id) };
    let producer = producer.map_err(says)?;
    rendezvous.exchange("initialised")?;
    // SAFETY: the other side has initialised it with the same type.
    let consumer = unsafe { broadcast::Consumer::<[u8; N]>::join(&from) }.map_err(says)?;
    rendezvous.exchange("joined")?;
    let end = Fixed::new(CastTo(producer), CastFrom(consumer));
    Ok(drive(end.pausing(tuning.pauses), N))
}

struct CastTo<const N: usize>(broadcast::Producer<[u8; N]>);

impl<const N: usize> Push<N> for CastTo<N> {
    #[inline(always)]
    fn push(&mut self, fill: impl FnOnce(&mut [u8; N])) -> Result<bool> {
        // SAFETY: bytes of a mapped file, which starts as zeros: any are a value, and they are
        // written below.
        let Some(mut slot) = (unsafe { self.0.try_reserve_write() }) else {
            return Ok(false);
        };
        // SAFETY: as above.
        fill(unsafe { slot.as_mut().assume_init_mut() });
        Ok(true)
    }

    #[inline(always)]
    fn push_some(
        &mut self,
        count: usize,
        mut fill: impl FnMut(usize, &mut [u8; N]),
    ) -> Result<usize> {
        let Some(wanted) = NonZeroUsize::new(count) else {
            return Ok(0);
        };
        // SAFETY: as in `push`; all are written below.
        let Some(mut batch) = (unsafe { self.0.try_reserve_write_batch(wanted) }) else {
            return Ok(0);
        };
        for number in 0..count {
            // SAFETY: within the batch; bytes that start as zeros.
            fill(number, unsafe { batch.as_mut(number).assume_init_mut() });
        }
        Ok(count)
    }
}

struct CastFrom<const N: usize>(broadcast::Consumer<[u8; N]>);

impl<const N: usize> Pop<N> for CastFrom<N> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        let message = self.0.try_reserve_read();
        Ok(message.map(|message| handle(message.as_ref())))
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8; N])) -> Result<usize> {
        let Some(limit) = NonZeroUsize::new(limit) else {
            return Ok(0);
        };
        let Some(batch) = self.0.try_reserve_read_batch(limit) else {
            return Ok(0);
        };
        let (first, second) = batch.as_slices();
        first
            .iter()
            .chain(second)
            .for_each(|message| handle(message));
        Ok(batch.len())
    }
}
