//! Two processes of a measurement.
//!
//! [`Peer`] is the measuring process's handle to the second one, which runs [`serve`]. Orders go to
//! its standard input and replies come from its standard output, one JSON object per line: nothing
//! spins between slices, and the end of either pipe is noticed at once. Within a slice both spin on
//! [`SharedWords`]:
//!
//! | word | written by | meaning                                         |
//! |------|------------|-------------------------------------------------|
//! | 0    | measuring  | floor: the ball on its way there                |
//! | 1    | second     | floor: the ball on its way back                 |
//! | 2    | second     | serial of the order it is ready to begin        |
//! | 3    | second     | its clock as it saw the last stamped ball       |
//!
//! A `Deadline` limits every spin. The second process ends with its standard input, so neither
//! process can outlive the other or wait forever.

mod many;
mod serve;

pub use serve::serve;

use crate::deadline::{Deadline, Watched};
use crate::error::{BenchError, Result, io};
use crate::latency::Snapshot;
use crate::privileges::Privileges;
use crate::words::SharedWords;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

pub(crate) const THERE: usize = 0;
pub(crate) const BACK: usize = 1;
pub(crate) const READY: usize = 2;
pub(crate) const STAMP: usize = 3;
const WORDS: usize = 4;

/// Longest time of the second process for any order.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// How long a failed end waits for the other one's error.
const REASON_WAIT: Duration = Duration::from_secs(2);

/// An order to the second process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum Order {
    /// Use these privileges from now on.
    Privileges(Privileges),
    /// Return `rounds` balls on the shared words, the first being `first`.
    Floor { first: u64, rounds: u64 },
    /// As `Floor`, with the time of each ball written beside it.
    Stamp { first: u64, rounds: u64 },
    /// Open a subscriber.
    Open { there: String },
    /// Open the server end of a method, at the rendezvous of `folder`.
    Join {
        role: Role,
        method: String,
        settings: String,
        size_bytes: usize,
        folder: PathBuf,
    },
    /// Check and send back `rounds` messages, the first having number `first`.
    Echo { first: u64, rounds: u64 },
    /// Check `count` messages of a method from number `first` on.
    Take { role: Role, first: u64, count: u64 },
    /// Check `count` messages of `size_bytes` from number `first` on; note latencies if `timed`.
    Consume {
        size_bytes: usize,
        first: u64,
        count: u64,
        timed: bool,
    },
    /// Open a publisher for messages of `size_bytes`, `batch` at once.
    Publish {
        there: String,
        size_bytes: usize,
        batch: usize,
    },
    /// Publish messages of publisher `own` from the time `at_ticks` on.
    Produce {
        own: u64,
        first: u64,
        count: u64,
        at_ticks: u64,
    },
    /// Check `count` messages of `size_bytes` of each of `publishers` publishers, each from number
    /// `first` on.
    Gather {
        size_bytes: usize,
        publishers: usize,
        first: u64,
        count: u64,
    },
    /// Check `count` messages of a method from number `first` on; note latencies.
    Hear { first: u64, count: u64 },
    /// Close what is open.
    Close,
}

/// What an open method is for; one of each may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// It is measured.
    Measured,
    /// It is the bare stream beside what is measured: [`crate::method::BARE`].
    Bare,
}

/// A reply of the second process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Started, pinned and attached to the words.
    Started,
    /// An order was carried out; the clock read `end_ticks` then.
    Done {
        end_ticks: u64,
        latency: Option<Snapshot>,
    },
    /// Everything of each publisher was checked; the clock read these ticks at the last message of
    /// each.
    Gathered { ends_ticks: Vec<u64> },
    /// An order failed.
    Failed { message: String },
}

/// Handle to the second process. Dropping it ends that process.
#[derive(Debug)]
pub struct Peer {
    line: Line,
    orders: Option<ChildStdin>,
    words: SharedWords,
    serial: u64,
    ball: u64,
}

/// The second process and what it says.
#[derive(Debug)]
struct Line {
    /// The end of an order, if it was found early.
    early: Option<Answer>,
    child: Child,
    answers: Receiver<Answer>,
}

impl Peer {
    /// Starts `program` with arguments that make it call [`serve`] and pins it to `cpu`.
    ///
    /// `arguments` go before the two that are appended: the path of the shared words and the CPU.
    /// That file is gone again when this returns.
    ///
    /// # Errors
    ///
    /// [`BenchError`] if it cannot be started or does not answer.
    pub fn start(program: &Path, arguments: &[&str], cpu: u32) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        let folder = tempfile::Builder::new()
            .prefix("olivine-words-")
            .tempdir_in(place)
            .map_err(io("make a temporary folder"))?;
        let path = folder.path().join("words");
        let words = SharedWords::create(&path, WORDS)
            .map_err(io("share memory with the second process"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(&path)
            .arg(cpu.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // We handle a Ctrl-C at the terminal: the second process ends when we end.
            .process_group(0)
            .spawn()
            .map_err(io("start the second process"))?;
        let (tell, answers) = channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                // The end of the pipe drops `tell`: the receiver sees that the process is gone.
                for line in BufReader::new(stdout)
                    .lines()
                    .map_while(std::io::Result::ok)
                {
                    let answer = serde_json::from_str(&line).unwrap_or_else(|_| Answer::Failed {
                        message: format!("it wrote '{line}'"),
                    });
                    if tell.send(answer).is_err() {
                        break;
                    }
                }
            });
        }
        let orders = child.stdin.take();
        let mut peer = Self {
            line: Line {
                early: None,
                child,
                answers,
            },
            orders,
            words,
            serial: 0,
            ball: 0,
        };
        match peer.line.answer()? {
            Answer::Started => Ok(peer),
            other => Err(unfit(&other)),
        }
    }

    /// The process id of the second process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.line.child.id()
    }

    /// Sends an order and waits until the second process stands ready to begin it.
    pub(crate) fn begin(&mut self, order: &Order) -> Result<()> {
        self.serial += 1;
        let mut line = serde_json::to_string(order).map_err(|source| BenchError::Io {
            action: "write an order",
            source: source.into(),
        })?;
        line.push('\n');
        let sent = self
            .orders
            .as_mut()
            .is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_ok());
        if !sent {
            return Err(self.line.gone());
        }
        let serial = self.serial;
        let (words, mut deadline) = self.spin();
        while words.load(READY) != serial {
            deadline.spend()?;
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Waits for the end of an order.
    pub(crate) fn end(&mut self) -> Result<(u64, Option<Snapshot>)> {
        match self.line.answer()? {
            Answer::Done { end_ticks, latency } => Ok((end_ticks, latency)),
            other => Err(unfit(&other)),
        }
    }

    /// Waits for the end of a [`Order::Gather`].
    pub(crate) fn end_gather(&mut self) -> Result<Vec<u64>> {
        match self.line.answer()? {
            Answer::Gathered { ends_ticks } => Ok(ends_ticks),
            other => Err(unfit(&other)),
        }
    }

    /// An order without work on our side.
    pub(crate) fn run(&mut self, order: &Order) -> Result<u64> {
        self.begin(order)?;
        Ok(self.end()?.0)
    }

    /// Takes `rounds` unused numbers for balls; returns the first.
    pub(crate) fn balls(&mut self, rounds: u64) -> u64 {
        let first = self.ball + 1;
        self.ball += rounds;
        first
    }

    /// The shared words and the bound of a spin on them.
    pub(crate) fn spin(&mut self) -> (&SharedWords, Deadline<'_>) {
        (&self.words, Deadline::watching(&mut self.line, ANSWER_MAX))
    }

    /// Bounds a wait of this process.
    pub(crate) fn deadline(&mut self) -> Deadline<'_> {
        Deadline::watching(&mut self.line, ANSWER_MAX)
    }

    /// Bounds a wait of this process to `limit`.
    pub(crate) fn deadline_of(&mut self, limit: Duration) -> Deadline<'_> {
        Deadline::watching(&mut self.line, limit)
    }

    /// The error of the second process, if it comes within a moment; else `error`.
    pub(crate) fn or_its_reason(&mut self, error: BenchError) -> BenchError {
        match self.line.answers.recv_timeout(REASON_WAIT) {
            Ok(Answer::Failed { message }) => BenchError::PeerFailed { message },
            Err(RecvTimeoutError::Disconnected) => self.line.gone(),
            _ => error,
        }
    }
}

impl Line {
    fn answer(&mut self) -> Result<Answer> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        match self.answers.recv_timeout(ANSWER_MAX) {
            Ok(Answer::Failed { message }) => Err(BenchError::PeerFailed { message }),
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(BenchError::PeerSilent {
                seconds: ANSWER_MAX.as_secs(),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    fn gone(&mut self) -> BenchError {
        // A remaining reply says more than its exit status.
        if let Ok(Answer::Failed { message }) = self.answers.try_recv() {
            return BenchError::PeerFailed { message };
        }
        // Its pipes are closed, so it is ending, but a stopped one must not hold us.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => BenchError::PeerGone { status },
            Err(source) => BenchError::Io {
                action: "wait for the second process",
                source,
            },
        }
    }
}

impl Watched for Line {
    fn look(&mut self) -> Result<()> {
        match self.answers.try_recv() {
            Err(TryRecvError::Empty) => Ok(()),
            Err(TryRecvError::Disconnected) => Err(self.gone()),
            Ok(Answer::Failed { message }) => Err(BenchError::PeerFailed { message }),
            // It has sent its last message and ended before that message was read here.
            Ok(done @ Answer::Done { .. }) if self.early.is_none() => {
                self.early = Some(done);
                Ok(())
            }
            Ok(other) => Err(unfit(&other)),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.orders.take());
        // Its current work is no longer needed.
        let _ = self.line.child.kill();
        let _ = self.line.child.wait();
    }
}

fn unfit(answer: &Answer) -> BenchError {
    match answer {
        Answer::Failed { message } => BenchError::PeerFailed {
            message: message.clone(),
        },
        other => BenchError::Protocol {
            found: format!("{other:?}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_death_of_the_second_process_is_an_error() {
        let error = Peer::start(Path::new("/bin/false"), &[], 0)
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, BenchError::PeerGone { .. }), "{error}");
        let error = Peer::start(Path::new("/nonexistent/program"), &[], 0)
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, BenchError::Io { .. }), "{error}");
    }

    #[test]
    fn invalid_reply_of_the_second_process_is_an_error() {
        let error = Peer::start(Path::new("/bin/echo"), &["good morning"], 0)
            .map(|_| ())
            .unwrap_err();
        assert!(
            error.to_string().contains("it wrote 'good morning"),
            "{error}"
        );
    }
}
