//! crossbar: its bounded bus of plain values, in shared memory between processes.

use crossbar::{BusSubscriber, Pod, PodBus};
use olivine_bench::error::{BenchError, Result};
use olivine_bench::for_size;
use olivine_bench::method::{
    Described, Door, Fixed, Method, OLIVINE, Player, Pop, Push, Side, play,
};
use olivine_bench::rival;
use std::process::ExitCode;

/// Messages of a ring, and how many the publisher stays behind the slowest subscriber.
const CAPACITY: usize = 4096;
const WATERMARK: usize = 0;

static CROSSBAR: Described = Described {
    name: "crossbar",
    about: "crossbar PodBus in shared memory, bounded, spinning",
    wait: "spin",
    streams: true,
    open: |side, door, size, _| for_size!(size, N => open::<N>(side, door)),
};

fn main() -> ExitCode {
    static METHODS: [&dyn Method; 2] = [OLIVINE, &CROSSBAR];
    rival::main(&METHODS)
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Message<const N: usize>([u8; N]);

// SAFETY: an array of bytes: any bits are a value, there is no pointer in it.
unsafe impl<const N: usize> Pod for Message<N> {}

fn says(error: impl std::fmt::Display) -> BenchError {
    BenchError::Library {
        library: "crossbar",
        message: error.to_string(),
    }
}

fn open<const N: usize>(side: Side, door: &mut Door) -> Result<Box<dyn Player>> {
    let folder = door.folder().file_name().unwrap_or_default();
    let folder = folder.to_string_lossy().into_owned();
    let (from, to) = side.from_to(format!("{folder}-there"), format!("{folder}-back"));
    let bus = PodBus::<Message<N>>::create_bounded(&to, CAPACITY, WATERMARK).map_err(says)?;
    door.exchange("made")?;
    let subscriber = BusSubscriber::<Message<N>>::connect(&from).map_err(says)?;
    door.exchange("connected")?;
    Ok(play(Fixed::new(To(bus), From(subscriber)), N))
}

struct To<const N: usize>(PodBus<Message<N>>);

impl<const N: usize> Push<N> for To<N> {
    #[inline(always)]
    fn push(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.try_publish(Message(*message)).is_ok())
    }
}

struct From<const N: usize>(BusSubscriber<Message<N>>);

impl<const N: usize> Pop<N> for From<N> {
    #[inline(always)]
    fn pop(&mut self) -> Result<Option<[u8; N]>> {
        Ok(self.0.try_recv().map(|message| message.0))
    }
}
