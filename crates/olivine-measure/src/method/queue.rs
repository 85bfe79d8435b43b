//! Message queues of the kernel, one for each direction. Both sides sleep in the kernel.

use super::{Driven, End, Method, Rendezvous, Side, drive};
use olivine_arena::error::{ArenaError, Result, io};
use olivine_arena::rendezvous::Object;
use olivine_arena::sys::queue::{Posix, SystemV};
use std::ffi::CString;
use std::io::ErrorKind;

/// Two System V queues.
pub(super) const SYSTEM_V: Method = Method::new(
    "sysv-queue",
    "two System V message queues, blocking",
    "block",
    open_system_v,
)
.streaming();

/// Two POSIX queues.
pub(super) const POSIX: Method = Method::new(
    "posix-queue",
    "two POSIX message queues, blocking",
    "block",
    open_posix,
)
.streaming();

/// A limit of the kernel, read from its file.
fn limit(path: &str) -> Option<usize> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn within(size: usize, path: &'static str, name: &'static str) -> Result<()> {
    match limit(path) {
        Some(max) if size > max => Err(ArenaError::TooLong {
            bytes: size,
            max,
            limit: name,
        }),
        _ => Ok(()),
    }
}

fn open_system_v(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    within(size, "/proc/sys/kernel/msgmax", "kernel.msgmax")?;
    let mut queues = [0; 2];
    for queue in &mut queues {
        *queue = match side {
            Side::Client => {
                let id = SystemV::make().map_err(io("make a System V queue"))?;
                rendezvous.note(&Object::Queue(id))?;
                rendezvous.tell(id)?;
                id
            }
            Side::Server => rendezvous.hear_number()?,
        };
    }
    let [there, back] = queues;
    let (from, to) = side.from_to(there, back);
    let (from, to) = (SystemV::open(from, size), SystemV::open(to, size));
    Ok(drive(SystemVEnd { from, to, size }, size))
}

struct SystemVEnd {
    from: SystemV,
    to: SystemV,
    size: usize,
}

impl End for SystemVEnd {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(self.to.payload());
        until(|| self.to.send(), "send to a System V queue")
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let action = "receive from a System V queue";
        let length = until(|| self.from.receive(), action)?;
        whole(length, self.size)?;
        Ok(handle(self.from.payload()))
    }
}

fn open_posix(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let name = "fs.mqueue.msgsize_max";
    within(size, "/proc/sys/fs/mqueue/msgsize_max", name)?;
    let folder = rendezvous.folder().file_name().unwrap_or_default();
    let folder = folder.to_string_lossy().into_owned();
    let mut open = |direction: &str| -> Result<Posix> {
        let name = format!("/{folder}-{direction}");
        let text = CString::new(name.as_str()).map_err(|_| ArenaError::EndClosed)?;
        match side {
            Side::Client => {
                let queue = Posix::make(&text, size).map_err(io("make a POSIX queue"))?;
                rendezvous.note(&Object::PosixQueue(name))?;
                rendezvous.tell("made")?;
                Ok(queue)
            }
            Side::Server => {
                rendezvous.hear()?;
                Posix::open(&text).map_err(io("open a POSIX queue"))
            }
        }
    };
    let (there, back) = (open("there")?, open("back")?);
    let (from, to) = side.from_to(there, back);
    // Both have opened them, so the names are no longer needed; the queues end with their users.
    rendezvous.exchange("open")?;
    let message = vec![0; size];
    Ok(drive(PosixEnd { from, to, message }, size))
}

struct PosixEnd {
    // There and back are moved in pairs, so only the direction tells them apart.
    from: Posix,
    to: Posix,
    message: Vec<u8>,
}

impl End for PosixEnd {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(&mut self.message);
        let (to, message) = (&self.to, &self.message);
        until(|| to.send(message), "send to a POSIX queue")
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let (from, message) = (&self.from, &mut self.message);
        let action = "receive from a POSIX queue";
        let length = until(|| from.receive(message), action)?;
        whole(length, self.message.len())?;
        Ok(handle(&self.message))
    }
}

/// Calls again whenever a call ends early.
pub(super) fn until<T>(
    mut call: impl FnMut() -> std::io::Result<T>,
    action: &'static str,
) -> Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other.map_err(io(action)),
        }
    }
}

/// Refuses a message that is too short.
pub(super) fn whole(length: usize, size: usize) -> Result<()> {
    if length == size {
        return Ok(());
    }
    Err(ArenaError::Protocol {
        found: format!("a message of {length} bytes, not {size}"),
    })
}
