//! crossbar: its bounded bus of plain values, in shared memory between processes.

use crossbar::{BusSubscriber, Pod, PodBus};
use olivine_arena::error::{ArenaError, Result};
use olivine_arena::method::{Append, Copies, Driver, Fixed, Method, Pop, Rendezvous, Side, drive};
use olivine_arena::run;
use std::process::ExitCode;

/// Messages of a ring, and how many the publisher stays behind the slowest subscriber.
const CAPACITY: usize = 4096;
const WATERMARK: usize = 0;
/// Longest message: the bus takes a value apart into words, and compilers take ages over thousands
/// of them.
const SIZE_MAX: usize = 1024;
/// Bytes of a word.
const WORD: usize = 8;

const CROSSBAR: Method = Method::new(
    "crossbar",
    "crossbar PodBus in shared memory, bounded, spinning",
    "spin",
    |side, rendezvous, size, _| match size {
        16 => open::<16, 2>(side, rendezvous),
        32 => open::<32, 4>(side, rendezvous),
        64 => open::<64, 8>(side, rendezvous),
        100 => open::<100, 13>(side, rendezvous),
        128 => open::<128, 16>(side, rendezvous),
        256 => open::<256, 32>(side, rendezvous),
        1024 => open::<1024, 128>(side, rendezvous),
        bytes => Err(ArenaError::TooLong {
            bytes,
            max: SIZE_MAX,
            limit: "a plain value on crossbar's bus, which copies it word by word and is built \
                    for few sizes,",
        }),
    },
)
.streaming()
.lacking("fixed size of messages on its bus; a dead participant is known by its process number");

fn main() -> ExitCode {
    static METHODS: [Method; 1] = [CROSSBAR];
    run(&METHODS)
}

/// A message as words, the last one filled up with zeros.
#[derive(Clone, Copy)]
#[repr(C)]
struct Message<const W: usize>([u64; W]);

// SAFETY: an array of numbers: any bits are a value, there is no pointer in it.
unsafe impl<const W: usize> Pod for Message<W> {}

impl<const W: usize> Message<W> {
    #[inline(always)]
    fn of(bytes: &[u8]) -> Self {
        let mut words = [0; W];
        for (word, piece) in words.iter_mut().zip(bytes.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..piece.len()].copy_from_slice(piece);
            *word = u64::from_ne_bytes(whole);
        }
        Self(words)
    }

    #[inline(always)]
    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        for (piece, word) in bytes.chunks_mut(WORD).zip(self.0) {
            piece.copy_from_slice(&word.to_ne_bytes()[..piece.len()]);
        }
        bytes
    }
}

fn says(error: impl std::fmt::Display) -> ArenaError {
    ArenaError::Library {
        library: "crossbar",
        message: error.to_string(),
    }
}

fn open<const N: usize, const W: usize>(
    side: Side,
    rendezvous: &mut Rendezvous,
) -> Result<Box<dyn Driver>> {
    let folder = rendezvous.folder().file_name().unwrap_or_default();
    let folder = folder.to_string_lossy().into_owned();
    let (from, to) = side.from_to(format!("{folder}-there"), format!("{folder}-back"));
    let bus = PodBus::<Message<W>>::create_bounded(&to, CAPACITY, WATERMARK).map_err(says)?;
    rendezvous.exchange("made")?;
    let subscriber = BusSubscriber::<Message<W>>::connect(&from).map_err(says)?;
    rendezvous.exchange("connected")?;
    let to = Copies::<_, N>::new(To(bus));
    Ok(drive(Fixed::new(to, From(subscriber)), N))
}

struct To<const W: usize>(PodBus<Message<W>>);

impl<const N: usize, const W: usize> Append<N> for To<W> {
    #[inline(always)]
    fn append(&mut self, message: &[u8; N]) -> Result<bool> {
        Ok(self.0.try_publish(Message::of(message)).is_ok())
    }
}

struct From<const W: usize>(BusSubscriber<Message<W>>);

impl<const N: usize, const W: usize> Pop<N> for From<W> {
    #[inline(always)]
    fn pop<T>(&mut self, handle: impl FnOnce(&[u8; N]) -> T) -> Result<Option<T>> {
        Ok(self.0.try_recv().map(|message| handle(&message.bytes())))
    }
}
