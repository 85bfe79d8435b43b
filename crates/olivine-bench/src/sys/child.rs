//! Processes that are started for a measurement and do not outlive it.

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Starts a process in a new group: what is typed at our terminal is for us, and we end it in our
/// order. The kernel sends it `last` when the calling thread ends, however it does, so that nothing
/// is left of a measurement that was killed.
pub(crate) fn start(command: &mut Command, last: Signal) -> io::Result<Child> {
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(last))?;
        // Who ended before the kernel was told sends nothing.
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
