//! shaq: its single-producer single-consumer queue and its broadcast queue, in shared memory between processes.

use olivine_bench::error::{BenchError, Result};
use olivine_bench::for_size;
use olivine_bench::method::{
    Described, Door, Fixed, Method, OLIVINE, Player, Pop, Push, Side, play,
};
use olivine_bench::rival;
use shaq::{broadcast, spsc};
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;

/// Messages of a queue.
const CAPACITY: usize = 4096;

static SINGLE: Described = Described {
    name: "shaq",
    about: "shaq single-producer single-consumer queue in shared memory, spinning",
    wait: "spin",
    streams: true,
    lacks: "fixed size of messages, one reader; nobody notices a dead side",
    open: |side, door, size, _| for_size!(size, N => single::<N>(side, door)),
};

static BROADCAST: Described = Described {
    name: "shaq-broadcast",
    about: "shaq broadcast queue with one lane and one consumer slot, spinning",
    wait: "spin",
    streams: true,
    lacks: "fixed size of messages; nobody notices a dead side",
    open: |side, door, size, _| for_size!(size, N => cast::<N>(side, door)),
};

fn main() -> ExitCode {
    static METHODS: [&dyn Method; 3] = [OLIVINE, &SINGLE, &BROADCAST];
    rival::main(&METHODS)
}

fn says(error: impl std::fmt::Debug) -> BenchError {
    BenchError::Library {
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
fn files(side: Side, door: &mut Door) -> Result<(File, File)> {
    let (there, back) = (door.folder().join("there"), door.folder().join("back"));
    let (from, to) = side.from_to(there, back);
    let to = file(&to, true)?;
    door.exchange("made")?;
    Ok((to, file(&from, false)?))
}

fn single<const N: usize>(side: Side, door: &mut Door) -> Result<Box<dyn Player>> {
    let (to, from) = files(side, door)?;
    let bytes = spsc::minimum_file_size::<[u8; N]>(CAPACITY);
    // SAFETY: this side alone initialises the file it made and is its only producer; messages are plain bytes.
    let producer = unsafe { spsc::Producer::<[u8; N]>::create(&to, bytes) }.map_err(says)?;
    door.exchange("initialised")?;
    // SAFETY: the other side has initialised it, and this is its only consumer.
    let consumer = unsafe { spsc::Consumer::<[u8; N]>::join(&from) }.map_err(says)?;
    door.exchange("joined")?;
    Ok(play(Fixed::new(To(producer), From(consumer)), N))
}

struct To<const N: usize>(spsc::Producer<[u8; N]>);

impl<const N: usize> Push<N> for To<N> {
    #[inline(always)]
    fn push(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.try_write(*message).is_ok())
    }

    #[inline(always)]
    fn push_some(&mut self, messages: &[[u8; N]]) -> Result<usize> {
        let mut batch = self.0.write_batch();
        let full = messages
            .iter()
            .position(|message| batch.try_write(*message).is_err());
        Ok(full.unwrap_or(messages.len()))
    }
}

struct From<const N: usize>(spsc::Consumer<[u8; N]>);

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop(&mut self) -> Result<Option<[u8; N]>> {
        Ok(self.0.try_read())
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
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

fn cast<const N: usize>(side: Side, door: &mut Door) -> Result<Box<dyn Player>> {
    let (to, from) = files(side, door)?;
    let config = broadcast::BroadcastConfig {
        capacity: CAPACITY,
        producer_slots: 1,
        consumer_slots: 1,
    };
    let id = broadcast::ProducerId::new(1);
    // SAFETY: this side alone initialises the file it made; messages are plain bytes.
    let producer = unsafe { broadcast::Producer::<[u8; N]>::create(&to, config, id) };
    let producer = producer.map_err(says)?;
    door.exchange("initialised")?;
    // SAFETY: the other side has initialised it with the same type.
    let consumer = unsafe { broadcast::Consumer::<[u8; N]>::join(&from) }.map_err(says)?;
    door.exchange("joined")?;
    Ok(play(Fixed::new(CastTo(producer), CastFrom(consumer)), N))
}

struct CastTo<const N: usize>(broadcast::Producer<[u8; N]>);

impl<const N: usize> Push<N> for CastTo<N> {
    #[inline(always)]
    fn push(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.try_write(*message).is_ok())
    }

    #[inline(always)]
    fn push_some(&mut self, messages: &[[u8; N]]) -> Result<usize> {
        Ok(if self.0.try_write_slice(messages) {
            messages.len()
        } else {
            0
        })
    }
}

struct CastFrom<const N: usize>(broadcast::Consumer<[u8; N]>);

impl<const N: usize> Pop<N> for CastFrom<N> {
    #[inline(always)]
    fn pop(&mut self) -> Result<Option<[u8; N]>> {
        Ok(self.0.try_read())
    }

    #[inline(always)]
    fn pop_some(&mut self, limit: usize, mut handle: impl FnMut(&[u8])) -> Result<usize> {
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
