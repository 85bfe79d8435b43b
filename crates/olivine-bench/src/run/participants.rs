//! The participants of a measurement: processes that carry out orders.
//!
//! Only the coordinator has a time limit. A participant that hangs, dies or talks nonsense is
//! killed with all others when this is dropped.

use super::Program;
use crate::clock::TickClock;
use crate::error::{BenchError, Result, io};
use crate::floor::distribution;
use crate::kernel::Counts;
use crate::latency::Latency;
use crate::method::Side;
use crate::participant::Seat;
use crate::payload;
use crate::privileges::Privileges;
use crate::protocol::{
    Answer, BARRIER, Done, Limit, Line, Opening, Order, Role, WORDS, Work, samples,
};
use crate::result::ClockAhead;
use crate::words::SharedWords;
use olivine_arena::error::ArenaError;
use olivine_arena::rendezvous::{Held, meeting_folder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Longest time of any order, beside the time that its work takes by its rate.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a failed end waits for the reason from another one.
const REASON_WAIT: Duration = Duration::from_secs(2);
/// How long an order goes on after a request to stop.
const STOP_MAX: Duration = Duration::from_millis(500);
/// Ends of a pair.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Whether the person asked to stop.
pub(crate) type Stopped<'a> = &'a dyn Fn() -> bool;

/// Which two ends to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    /// What they are for.
    pub role: Role,
    /// Name of the method.
    pub method: &'a str,
    /// Its settings.
    pub settings: &'a str,
    /// Bytes of a message.
    pub size: usize,
    /// Whether messages are streamed.
    pub streamed: bool,
    /// Whether threads of the method may use every allowed CPU.
    pub unpinned: bool,
}

/// Handle to the participants. Dropping it ends them and removes what they share.
pub(crate) struct Participants<'a> {
    processes: Vec<Process<'a>>,
    ends: Vec<End>,
    barrier: u64,
    ball: u64,
    kernel: Counts,
    stopped: Stopped<'a>,
    // Last, so that the processes have ended before their objects are removed.
    folders: Vec<Held>,
}

/// A process, and what it says.
struct Process<'a> {
    program: &'a Program,
    child: Child,
    orders: Option<ChildStdin>,
    output: ChildStdout,
    /// What was read of the next line.
    line: Vec<u8>,
    said: Option<Receiver<String>>,
}

/// An end: a worker of a process.
struct End {
    process: usize,
    worker: usize,
    samples: File,
}

impl std::fmt::Debug for Participants<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ids: Vec<u32> = self.processes.iter().map(|one| one.child.id()).collect();
        f.debug_tuple("Participants").field(&ids).finish()
    }
}

impl<'a> Participants<'a> {
    /// Starts a process of `program` for each list of CPUs, with a worker on each of them.
    ///
    /// # Errors
    ///
    /// [`BenchError`] if one cannot be started, pinned or does not answer.
    pub(crate) fn start(
        program: &'a Program,
        cpus: &[Vec<u32>],
        privileges: Privileges,
        stopped: Stopped<'a>,
    ) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        // Gone again when all have opened what is in it.
        let folder = tempfile::Builder::new()
            .prefix("olivine-words-")
            .tempdir_in(place)
            .map_err(io("make a temporary folder"))?;
        let count: usize = cpus.iter().map(Vec::len).sum();
        let _words = SharedWords::create(&folder.path().join(WORDS), BARRIER + count)
            .map_err(io("share memory with the participants"))?;
        let mut all = Self {
            processes: Vec::new(),
            ends: Vec::new(),
            barrier: 0,
            ball: 0,
            kernel: Counts::default(),
            stopped,
            folders: Vec::new(),
        };
        for (process, cpus) in cpus.iter().enumerate() {
            let first = all.ends.len();
            for worker in 0..cpus.len() {
                let path = folder.path().join(samples(first + worker));
                let made = File::options()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .open(path);
                all.ends.push(End {
                    process,
                    worker,
                    samples: made.map_err(io("make a file for samples"))?,
                });
            }
            let seat = Seat::new(folder.path(), count, first, cpus);
            all.processes.push(Process::start(program, &seat)?);
        }
        all.meet()?;
        if !privileges.is_none() {
            let Privileges {
                real_time,
                locked_memory,
            } = privileges;
            let order = Order::Privileges {
                real_time,
                locked_memory,
            };
            let orders: Vec<_> = (0..count).map(|end| (end, order.clone())).collect();
            all.perform(&orders, ANSWER_MAX)?;
        }
        Ok(all)
    }

    /// Waits until every worker has started.
    fn meet(&mut self) -> Result<()> {
        let limit = Instant::now() + ANSWER_MAX;
        for _ in 0..self.ends.len() {
            match self.next(limit)? {
                (_, Answer::Started) => {}
                (_, Answer::Failed { message, .. }) => {
                    return Err(BenchError::PeerFailed { message });
                }
                (_, other) => return Err(unfit(&other)),
            }
        }
        Ok(())
    }

    /// Gives orders to some ends and waits until all are carried out; what each did, in this order.
    fn perform(&mut self, orders: &[(usize, Order)], limit: Duration) -> Result<Vec<Done>> {
        // The first worker of a process passes orders on before it gets its own.
        for (end, order) in orders.iter().rev() {
            let End {
                process, worker, ..
            } = self.ends[*end];
            self.processes[process].tell(worker, order)?;
        }
        let mut done: Vec<Option<Done>> = vec![None; orders.len()];
        let mut limit = Instant::now() + limit;
        let mut failure = None;
        let mut left = orders.len();
        while left > 0 {
            let (end, answer) = match self.next(limit) {
                Ok(answer) => answer,
                Err(BenchError::Arena(ArenaError::PeerSilent { .. })) if failure.is_some() => break,
                Err(error) => return Err(error),
            };
            let Some(place) = orders.iter().position(|(ordered, _)| *ordered == end) else {
                return Err(unfit(&answer));
            };
            left -= 1;
            match answer {
                Answer::Done(what) => done[place] = Some(what),
                // Another end may know why.
                Answer::Failed {
                    message,
                    follows: true,
                } => {
                    limit = limit.min(Instant::now() + REASON_WAIT);
                    failure.get_or_insert(message);
                }
                Answer::Failed { message, .. } => return Err(BenchError::PeerFailed { message }),
                other @ Answer::Started => return Err(unfit(&other)),
            }
        }
        match failure {
            Some(message) => Err(BenchError::PeerFailed { message }),
            None => Ok(done.into_iter().flatten().collect()),
        }
    }

    /// Waits for the next answer of any end until `limit`.
    fn next(&mut self, limit: Instant) -> Result<(usize, Answer)> {
        let mut limit = limit;
        let begun = Instant::now();
        loop {
            for (number, process) in self.processes.iter_mut().enumerate() {
                if let Some(Line { worker, said }) = process.next()? {
                    let end = |end: &End| (end.process, end.worker) == (number, worker);
                    return match self.ends.iter().position(end) {
                        Some(end) => Ok((end, said)),
                        None => Err(unfit(&said)),
                    };
                }
            }
            if (self.stopped)() {
                limit = limit.min(begun + STOP_MAX);
            }
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() && (self.stopped)() {
                return Err(BenchError::Stopped);
            }
            if left.is_zero() {
                let seconds = (limit - begun).as_secs();
                return Err(ArenaError::PeerSilent { seconds }.into());
            }
            read_some(&mut self.processes, left)?;
        }
    }

    /// Opens both ends of a method.
    pub(crate) fn open(&mut self, pair: Pair<'_>) -> Result<()> {
        let Pair {
            role,
            method,
            settings,
            size,
            streamed,
            unpinned,
        } = pair;
        check_size(size)?;
        let folder = meeting_folder()?;
        let order = |side| {
            Order::Open(Opening {
                role,
                method: method.to_owned(),
                settings: settings.to_owned(),
                size_bytes: size,
                streamed,
                folder: folder.path().to_path_buf(),
                side,
                unpinned: unpinned && side == Side::Client,
            })
        };
        let orders = [(CLIENT, order(Side::Client)), (SERVER, order(Side::Server))];
        let opened = self.perform(&orders, ANSWER_MAX);
        self.folders.push(folder);
        opened.map(drop)
    }

    /// Opens one end of a channel with this URI: a publisher on the client's side, a subscriber on
    /// the server's.
    pub(crate) fn open_channel(
        &mut self,
        end: usize,
        side: Side,
        uri: &str,
        size: usize,
    ) -> Result<()> {
        check_size(size)?;
        let order = Order::Open(Opening {
            role: Role::Measured,
            method: crate::method::CHANNEL.to_owned(),
            settings: uri.to_owned(),
            size_bytes: size,
            streamed: false,
            folder: Path::new("").to_path_buf(),
            side,
            unpinned: false,
        });
        self.perform(&[(end, order)], ANSWER_MAX).map(drop)
    }

    /// A folder for a channel; it goes when this is closed.
    pub(crate) fn folder(&mut self) -> Result<&Path> {
        let at = self.folders.len();
        self.folders.push(meeting_folder()?);
        Ok(self.folders[at].path())
    }

    /// Has every end do its part, which takes `expected` at its rate.
    pub(crate) fn run(
        &mut self,
        role: Role,
        works: &[Work],
        expected: Duration,
    ) -> Result<Vec<Done>> {
        let start = self.next_barrier();
        let orders = works.iter().enumerate();
        let orders: Vec<_> = orders
            .map(|(end, &work)| (end, Order::Run { role, start, work }))
            .collect();
        let done = self.perform(&orders, ANSWER_MAX + expected)?;
        for one in &done {
            self.kernel = self.kernel.plus(&(&one.kernel).into());
        }
        Ok(done)
    }

    /// Kills the server's process `after` both have begun their work. How the client's work ended
    /// `within` this time, and after how long; `None` if it goes on.
    pub(crate) fn outlive(
        &mut self,
        works: &[Work],
        after: Duration,
        within: Duration,
    ) -> Result<Option<(Duration, String)>> {
        let start = self.next_barrier();
        let role = Role::Measured;
        for (end, &work) in works.iter().enumerate().rev() {
            let End {
                process, worker, ..
            } = self.ends[end];
            self.processes[process].tell(worker, &Order::Run { role, start, work })?;
        }
        // They are at work then; how much of it they have done does not matter.
        std::thread::park_timeout(after);
        let killed = &mut self.processes[self.ends[SERVER].process].child;
        killed.kill().map_err(io("kill a participant"))?;
        killed.wait().map_err(io("wait for a participant"))?;
        let begun = Instant::now();
        let survivor = &mut self.processes[self.ends[CLIENT].process];
        loop {
            let how = match survivor.next() {
                Ok(None) => None,
                Ok(Some(Line { said, .. })) => Some(unfit(&said).to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(how) = how {
                return Ok(Some((begun.elapsed(), how)));
            }
            let left = within.saturating_sub(begun.elapsed());
            if left.is_zero() || (self.stopped)() {
                return Ok(None);
            }
            if let Err(error) = read_some(std::slice::from_mut(survivor), left) {
                return Ok(Some((begun.elapsed(), error.to_string())));
            }
        }
    }

    /// A start barrier, and the one behind it.
    fn next_barrier(&mut self) -> u64 {
        self.barrier += 2;
        self.barrier
    }

    /// What the kernel counted for all ends at work since the last call.
    pub(crate) fn counts(&mut self) -> Counts {
        std::mem::take(&mut self.kernel)
    }

    /// The samples of an end, in ticks.
    pub(crate) fn samples(&mut self, end: usize, done: &Done, into: &mut Vec<u64>) -> Result<()> {
        let count = usize::try_from(done.count).unwrap_or(usize::MAX);
        let mut bytes = vec![0; count.saturating_mul(size_of::<u64>())];
        let read = self.ends[end].samples.read_exact_at(&mut bytes, 0);
        read.map_err(io("read samples"))?;
        into.clear();
        into.extend(
            bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|ticks| u64::from_ne_bytes(*ticks)),
        );
        Ok(())
    }

    /// Round trips of a bare cache line between the first two ends, in ticks.
    pub(crate) fn balls(&mut self, rounds: u64, stamped: bool, into: &mut Vec<u64>) -> Result<()> {
        let (start, first) = (self.next_barrier(), self.ball + 1);
        self.ball += rounds;
        let order = |side| Order::Balls {
            side,
            start,
            first,
            rounds,
            stamped,
        };
        let orders = [(CLIENT, order(Side::Client)), (SERVER, order(Side::Server))];
        let done = self.perform(&orders, ANSWER_MAX)?;
        self.samples(CLIENT, &done[0], into)
    }

    /// The same as a distribution.
    pub(crate) fn floor(&mut self, rounds: u64) -> Result<Latency> {
        let mut samples = Vec::new();
        self.balls(rounds, false, &mut samples)?;
        Ok(distribution(&samples))
    }

    /// Compares the server's clock with the client's.
    pub(crate) fn clock_ahead(
        &mut self,
        clock: &TickClock,
        rounds: u64,
    ) -> Result<Option<ClockAhead>> {
        let mut samples = Vec::new();
        self.balls(rounds, true, &mut samples)?;
        let readings = samples.as_chunks::<3>().0.iter();
        Ok(ClockAhead::of(
            clock,
            readings.map(|&[before, stamp, after]| (before, stamp, after)),
        ))
    }

    /// Measures a limit of the first end's CPU.
    pub(crate) fn limit(&mut self, limit: Limit) -> Result<Done> {
        let done = self.perform(&[(CLIENT, Order::Limit(limit))], ANSWER_MAX)?;
        Ok(done.into_iter().next().unwrap_or_default())
    }

    /// Closes every end, and removes what they shared.
    pub(crate) fn close(&mut self) -> Result<()> {
        let orders: Vec<_> = (0..self.ends.len())
            .map(|end| (end, Order::Close))
            .collect();
        self.perform(&orders, ANSWER_MAX)?;
        self.folders.clear();
        Ok(())
    }
}

impl<'a> Process<'a> {
    fn start(program: &'a Program, seat: &Seat) -> Result<Self> {
        let (mut child, said) = program.start(seat)?;
        let (orders, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or(ArenaError::EndClosed)?;
        Ok(Self {
            program,
            child,
            orders,
            output,
            line: Vec::new(),
            said,
        })
    }

    fn tell(&mut self, worker: usize, order: &Order) -> Result<()> {
        let line = serde_json::to_string(&Line {
            worker,
            said: order,
        });
        let mut line = line.map_err(|error| io("write an order")(error.into()))?;
        line.push('\n');
        let pipe = self.orders.as_mut();
        if pipe.is_some_and(|pipe| pipe.write_all(line.as_bytes()).is_ok()) {
            return Ok(());
        }
        Err(self.gone())
    }

    /// The next answer of what was read.
    fn next(&mut self) -> Result<Option<Line<Answer>>> {
        let Some(end) = self.line.iter().position(|&byte| byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.line.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line[..end]);
        match serde_json::from_str::<Line<Answer>>(&line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(self.program.babbles(&line)),
        }
    }

    /// Reads what is there.
    fn read(&mut self) -> Result<()> {
        let mut bytes = [0; 4096];
        match self.output.read(&mut bytes) {
            Ok(0) => Err(self.gone()),
            Ok(length) => {
                self.line.extend_from_slice(&bytes[..length]);
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(io("read an answer")(error)),
        }
    }

    /// The error of a process whose pipe ended.
    fn gone(&mut self) -> BenchError {
        // An answer that is left says more than its exit status.
        if let Ok(Some(Line {
            said: Answer::Failed { message, .. },
            ..
        })) = self.next()
        {
            return BenchError::PeerFailed { message };
        }
        // Its pipes are closed, so it is ending, but a stopped one must not hold us.
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => self.program.reason(self.said.as_ref(), status),
            Err(error) => io("wait for a participant")(error),
        }
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        drop(self.orders.take());
        // Its current work is no longer needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for this time, and reads what processes have said. A signal ends the wait, too: it may be
/// the request to stop.
fn read_some(processes: &mut [Process<'_>], wait: Duration) -> Result<()> {
    let wait = Timespec {
        tv_sec: wait.as_secs().cast_signed(),
        tv_nsec: wait.subsec_nanos().into(),
    };
    let outputs = processes.iter();
    let outputs = outputs.map(|process| PollFd::new(&process.output, PollFlags::IN));
    let mut outputs: Vec<PollFd<'_>> = outputs.collect();
    match poll(&mut outputs, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(io("wait for the participants")(error.into())),
    }
    let ready = outputs.iter().map(|one| !one.revents().is_empty());
    let ready: Vec<bool> = ready.collect();
    let processes = processes.iter_mut().zip(ready);
    let mut processes = processes.filter(|(_, is_ready)| *is_ready);
    processes.try_for_each(|(process, _)| process.read())
}

/// Refuses messages that have no room for a stamp.
fn check_size(size: usize) -> Result<()> {
    if size < payload::SIZE_MIN {
        return Err(ArenaError::TooShort { bytes: size }.into());
    }
    Ok(())
}

fn unfit(answer: &Answer) -> BenchError {
    match answer {
        Answer::Failed { message, .. } => BenchError::PeerFailed {
            message: message.clone(),
        },
        other => ArenaError::Protocol {
            found: format!("{other:?}"),
        }
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Starts a shell script as a participant.
    fn start(script: &str) -> BenchError {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rival-script");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let programs = Program::find(folder.path()).unwrap();
        let cpus = [vec![0], vec![1]];
        let started = Participants::start(&programs[0], &cpus, Privileges::default(), &|| false);
        started.map(drop).unwrap_err()
    }

    #[test]
    fn early_death_of_a_participant_is_an_error_with_its_last_words() {
        let error = start("echo 'lost its nerve' >&2; exit 3").to_string();
        assert!(
            error.contains("rival script failed: lost its nerve"),
            "{error}"
        );
        let error = start("exit 3").to_string();
        assert!(
            error.contains("it said nothing (exit status: 3)"),
            "{error}"
        );
    }

    #[test]
    fn invalid_answer_of_a_participant_is_an_error() {
        let error = start("echo good morning; sleep 100").to_string();
        assert!(error.contains("it answered 'good morning'"), "{error}");
        let error = start("echo '{\"worker\":7,\"said\":{\"answer\":\"started\"}}'; sleep 100");
        assert!(error.to_string().contains("does not fit"), "{error}");
    }
}
