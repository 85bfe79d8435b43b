//! A process with one thread that forks the participants: far cheaper than starting a program for
//! each.
//!
//! It reads one order per line and replies with a line that starts with `@`. Its children hold its
//! end of a pipe: a child that outlives it finds this pipe closed.

use crate::common::mapped::SharedWords;
use crate::common::{self, Deadline, Other};
use crate::roles;
use crate::wake_word::WakeWord;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};

/// The task of a new participant.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) role: String,
    /// Index of its words.
    pub(crate) session: u64,
    /// Where it kills itself: name of a point and number of passes; empty for nowhere.
    pub(crate) die_at: String,
    pub(crate) uri: String,
}

/// How a participant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Good,
    Killed,
    Bad,
}

/// The parent's side.
pub(crate) struct Zygote {
    child: Other,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Zygote {
    /// Starts it; its children share the words in the file `words`.
    pub(crate) fn start(words: &Path) -> Self {
        let mut child = common::spawn_piped(
            "zygote",
            &[("OLIVINE_DEATH_WORDS", words.display().to_string())],
        );
        let orders = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            orders,
            answers,
        }
    }

    fn ask(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("the zygote lives");
        let mut deadline = Deadline::new();
        loop {
            while self.answers.buffer().is_empty() && !self.has_answered() {
                assert!(deadline.lasts(), "no answer to '{order}'");
            }
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).expect("an answer");
            assert!(read > 0, "the zygote ended before it answered '{order}'");
            // The test harness prints to the same pipe.
            if let Some((_, answer)) = line.split_once('@') {
                return answer.trim().to_owned();
            }
        }
    }

    /// Waits a moment for a reply, or for the end.
    fn has_answered(&self) -> bool {
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        let mut answers = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
        poll(&mut answers, Some(&moment)).is_ok_and(|ready| ready > 0)
    }

    /// Starts a participant.
    pub(crate) fn spawn(&mut self, order: &Order) -> Pid {
        let Order {
            role,
            session,
            die_at,
            uri,
        } = order;
        let die_at = if die_at.is_empty() { "-" } else { die_at };
        let pid = self.ask(&format!("spawn {role} {session} {die_at} {uri}"));
        Pid::from_raw(pid.parse().expect("a number")).expect("a process")
    }

    /// How it ended, if it has; then it is no longer a zombie.
    #[cfg(feature = "points")]
    pub(crate) fn try_reap(&mut self, pid: Pid) -> Option<End> {
        let answer = self.ask(&format!("look {}", pid.as_raw_pid()));
        (answer != "running").then(|| end(&answer))
    }

    /// Waits for its end.
    pub(crate) fn reap(&mut self, pid: Pid) -> End {
        end(&self.ask(&format!("reap {}", pid.as_raw_pid())))
    }

    /// Ends the zygote and all its children.
    pub(crate) fn finish(self) {
        drop(self.orders);
        common::finished(self.child);
    }
}

fn end(answer: &str) -> End {
    match answer {
        "good" => End::Good,
        "killed" => End::Killed,
        _ => End::Bad,
    }
}

/// Sends a signal to an unreaped participant, so that the pid is still its own.
pub(crate) fn signal(pid: Pid, signal: Signal) {
    rustix::process::kill_process(pid, signal).expect("a signal");
}

/// The zygote: executes orders until they end.
pub(crate) fn serve(words: &SharedWords, wake_word: &WakeWord) {
    let (alive, keep) = std::io::pipe().expect("a pipe");
    let mut line = String::new();
    // Not the buffered handle: a child must not inherit half a line.
    let mut orders = std::io::stdin().lock();
    loop {
        line.clear();
        if orders.read_line(&mut line).expect("orders") == 0 {
            break;
        }
        let words_of: Vec<&str> = line.split_whitespace().collect();
        match words_of[..] {
            ["spawn", role, session, die_at, uri] => {
                let order = Order {
                    role: role.to_owned(),
                    session: session.parse().expect("a number"),
                    die_at: die_at.trim_start_matches('-').to_owned(),
                    uri: uri.to_owned(),
                };
                let pid = fork(|| {
                    // SAFETY: integers only. A child that outlives the zygote would outlive the
                    // test.
                    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                    // Only the zygote may keep the other end open.
                    // SAFETY: `keep` is never dropped in this process: it ends by `_exit`.
                    unsafe { libc::close(std::os::fd::AsRawFd::as_raw_fd(&keep)) };
                    roles::play(&order, words, wake_word, &alive);
                });
                println!("@{pid}");
            }
            ["look", pid] => println!("@{}", wait_for(pid, libc::WNOHANG)),
            ["reap", pid] => println!("@{}", wait_for(pid, 0)),
            _ => panic!("no such order: {line}"),
        }
        std::io::stdout().flush().expect("an answer");
    }
}

fn wait_for(pid: &str, options: libc::c_int) -> &'static str {
    let pid: libc::pid_t = pid.parse().expect("a number");
    let mut status = 0;
    // SAFETY: a child of this process; `status` lives across the call.
    let found = unsafe { libc::waitpid(pid, &raw mut status, options) };
    if found == 0 {
        "running"
    } else if found != pid {
        "unknown"
    } else if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL {
        "killed"
    } else if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        "good"
    } else {
        "bad"
    }
}

/// Forks a child that runs only `body`; returns its pid.
pub(crate) fn fork(body: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the zygote has one thread, so the child's copy of the program is whole; the `atfork`
    // handler informs `olivine`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid > 0 {
        return pid;
    }
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    // SAFETY: ends this process without running destructors of the parent.
    unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) }
}

/// Waits until the zygote has ended, or for a signal that ends this process.
pub(crate) fn linger(alive: &PipeReader) {
    let mut byte = [0];
    // Nothing is ever written: it returns when the last writer, the zygote, is gone.
    let _ = (&*alive).read(&mut byte);
}
