//! Child processes that do not outlive a measurement; real-time priority for one thread, and locked
//! memory.

use super::checked;
use crate::counts::ThreadCounts;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Starts a process in a new group: terminal input is for us, and we end it in our order. The
/// kernel sends it `last` when the calling thread ends for any reason, so that a killed measurement
/// leaves nothing.
pub fn start(command: &mut Command, last: Signal) -> io::Result<Child> {
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(last))?;
        // If the parent ended before this call, no signal comes.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::ErrorKind::Interrupted.into())
        }
    };
    // SAFETY: between fork and exec only two system calls are made; nothing is allocated, and no
    // lock is taken.
    unsafe { command.pre_exec(bind) };
    command.process_group(0).spawn()
}

/// A process that is killed when this is dropped: what it did was checked elsewhere.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "a process, and nothing else")]
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A currently unused port of the loopback interface.
pub fn free_port() -> io::Result<u16> {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(probe.local_addr()?.port())
}

/// Priority under `SCHED_FIFO`: the lowest, which is above everything that is not real-time.
const PRIORITY: libc::c_int = 1;

/// Puts the calling thread under `SCHED_FIFO`; children do not inherit it.
pub(crate) fn run_first_in_first_out() -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `sched_param`.
    let mut wanted: libc::sched_param = unsafe { std::mem::zeroed() };
    wanted.sched_priority = PRIORITY;
    let class = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; the structure lives.
    checked(unsafe { libc::sched_setscheduler(0, class, &raw const wanted) })?;
    Ok(())
}

/// What the calling thread has used, without the time that it waited.
pub(crate) fn thread_usage() -> ThreadCounts {
    // SAFETY: all bytes zero are a valid `rusage`.
    let mut found: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives. Without an answer all stays 0.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut found) };
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    ThreadCounts {
        forced_switches: count(found.ru_nivcsw),
        voluntary_switches: count(found.ru_nvcsw),
        minor_faults: count(found.ru_minflt),
        major_faults: count(found.ru_majflt),
        waited_for_cpu_ns: 0,
    }
}

/// Locks what this process has mapped, and what it will map.
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: pages are filled and kept; nothing that is mapped changes.
    checked(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::sync::mpsc;

    #[test]
    fn a_process_ends_with_the_thread_that_started_it() {
        let (tell, told) = mpsc::channel();
        let starter = std::thread::spawn(move || {
            let child = start(Command::new("sleep").arg("1000"), Signal::TERM);
            tell.send(child).unwrap();
        });
        let mut child = told.recv().unwrap().unwrap();
        starter.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    }
}
