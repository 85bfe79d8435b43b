//! `process_vm_writev`: the kernel copies the message into the receiver's memory, where the
//! receiver spins.

use super::{Driven, End, Method, Rendezvous, Side, drive};
use crate::sys::vm;
use olivine_arena::error::{ArenaError, Result, io};
use olivine_arena::sys::mapping::Mapping;
use rustix::process::{PTracer, Pid, getpid, set_ptracer};
use std::sync::atomic::Ordering;

/// Bytes of the number before the message.
const NUMBER: usize = 8;

/// Writing into the memory of another process.
pub(super) const PROCESS_VM: Method = Method::new(
    "process-vm",
    "process_vm_writev into the memory of the other process, spinning",
    "spin",
    open,
)
.lacking(super::ONE_SLOT);

fn open(side: Side, rendezvous: &mut Rendezvous, size: usize, _settings: &str) -> Driven {
    let map = || Mapping::private(NUMBER + size).map_err(io("map memory"));
    let (outbox, inbox) = (map()?, map()?);
    let own = getpid().as_raw_nonzero();
    let line = rendezvous.exchange(format!("{own} {}", inbox.address()))?;
    let (process, address) = parse(&line).ok_or(ArenaError::Protocol { found: line })?;
    if let Some(process) = Pid::from_raw(process) {
        // Needed if only parents may access a process; unknown to kernels without this rule.
        let _ = set_ptracer(PTracer::ProcessID(process));
    }
    // No side writes before both have allowed it.
    rendezvous.exchange(side.pick("allowed", "allowed too"))?;
    let end = Boxes {
        outbox,
        inbox,
        process,
        address,
        sent: 0,
        received: 0,
        size,
    };
    Ok(drive(end, size))
}

fn parse(line: &str) -> Option<(i32, usize)> {
    let (process, address) = line.split_once(' ')?;
    Some((process.parse().ok()?, address.parse().ok()?))
}

struct Boxes {
    outbox: Mapping,
    inbox: Mapping,
    process: i32,
    address: usize,
    sent: u64,
    received: u64,
    size: usize,
}

impl End for Boxes {
    fn send(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        // SAFETY: the outbox is private memory, borrowed mutably through `self`.
        fill(unsafe { self.outbox.bytes_mut(NUMBER, self.size) });
        self.sent += 1;
        // Relaxed: only the kernel reads it, on our behalf.
        self.outbox.word(0).store(self.sent, Ordering::Relaxed);
        vm::write_to(self.process, self.address, &self.outbox, self.size)
            .map_err(io("write into another process (ptrace rights are needed)"))
    }

    fn receive<T>(&mut self, handle: impl FnOnce(&[u8]) -> T) -> Result<T> {
        // Acquire: the kernel copies the number after the message.
        while self.inbox.word(0).load(Ordering::Acquire) != self.received + 1 {}
        self.received += 1;
        // SAFETY: the other side writes here again only after our reply.
        Ok(handle(unsafe { self.inbox.bytes(NUMBER, self.size) }))
    }
}
