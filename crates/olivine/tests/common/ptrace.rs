//! Requests of `ptrace` on x86-64, for tests that stop another process at an instruction.

use libc::pid_t;
use std::io;
use std::mem::offset_of;

/// Makes a request about the process `pid`.
pub(crate) fn ptrace(
    request: libc::c_uint,
    pid: pid_t,
    address: usize,
    data: usize,
) -> io::Result<()> {
    // SAFETY: requests that take numbers, or a pointer to registers that outlives the call.
    let done = unsafe { libc::ptrace(request, pid, address, data) };
    if done == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The registers of a stopped process.
pub(crate) fn registers(pid: pid_t) -> io::Result<libc::user_regs_struct> {
    // SAFETY: plain old data for which all zeros is a value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let to = (&raw mut registers) as usize;
    ptrace(libc::PTRACE_GETREGS, pid, 0, to)?;
    Ok(registers)
}

/// Sets the hardware breakpoint of a stopped process, or clears it.
pub(crate) fn set_breakpoint(pid: pid_t, at: Option<usize>) -> io::Result<()> {
    let set = |register: usize, value| {
        let offset = offset_of!(libc::user, u_debugreg) + register * 8;
        ptrace(libc::PTRACE_POKEUSER, pid, offset, value)
    };
    if let Some(at) = at {
        set(0, at)?;
    }
    // Local, on execution, one byte: all zeros but the enable bit.
    set(7, usize::from(at.is_some()))
}
