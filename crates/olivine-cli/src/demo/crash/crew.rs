//! The participants: processes of this tool, what is done to them, and what they receive.

use super::seen::Seen;
use super::{PUBLISHERS, SUBSCRIBERS};
use crate::args::InputForm;
use crate::demo::process::Process;
use crate::failure::{Failure, Outcome};
use crate::framing::{Split, Splitter};
use crate::stop::Stop;
use olivine::{LaneState, admin, clock};
use olivine_bench::channel::TemporaryChannel;
use rustix::process::Signal;
use serde::Serialize;
use std::fmt;
use std::io::Read;
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for a participant; only a hang reaches it.
const GRACE: Duration = Duration::from_secs(20);
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_micros(200);
/// How long a participant is stopped.
pub(super) const STOPPED: Duration = Duration::from_millis(300);
/// An absent subscriber loses its place after this time, so a killed demonstration leaves a channel
/// that `olivine gc` may remove.
const EXPIRE: &str = "30s";
/// Bytes before the payload in the ring.
const HEADER_BYTES: u64 = 8;

/// A participant, by its number in its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Publisher(usize),
    Subscriber(usize),
}

impl Member {
    /// Its place among all participants.
    fn place(self) -> usize {
        match self {
            Self::Publisher(index) => index,
            Self::Subscriber(index) => PUBLISHERS + index,
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publisher(index) => f.pad(&format!("publisher {}", index + 1)),
            Self::Subscriber(index) => f.pad(&format!("subscriber {}", index + 1)),
        }
    }
}

/// What is done to a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// SIGKILL, and a new process in its place.
    Kill,
    /// SIGSTOP, and SIGCONT later.
    Stop,
}

/// How long it took; `None` if a request to stop came first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// From the signal until the channel or the system shows it.
    pub(super) noticed: Option<Duration>,
    /// From SIGKILL until a message passed through the next process, or from SIGCONT until the
    /// process published or released something.
    pub(super) back: Option<Duration>,
}

/// How often something was done to each participant: odd while it lasts.
#[derive(Debug, Default)]
struct Disturbed([AtomicU64; PUBLISHERS + SUBSCRIBERS]);

impl Disturbed {
    fn mark(&self, member: Member) {
        // Relaxed: the count carries no other data.
        self.0[member.place()].fetch_add(1, Ordering::Relaxed);
    }

    /// Of both ends; `None` while something is done to one of them.
    fn between(&self, publisher: usize, subscriber: usize) -> Option<u64> {
        // Relaxed: the count carries no other data.
        let count = |member: Member| self.0[member.place()].load(Ordering::Relaxed);
        let counts = [
            count(Member::Publisher(publisher)),
            count(Member::Subscriber(subscriber)),
        ];
        let is_calm = counts.iter().all(|count| count.is_multiple_of(2));
        is_calm.then(|| counts.iter().sum())
    }
}

/// What a subscriber's reader shares with the rest.
#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    /// The current life ends by SIGKILL.
    killed: AtomicBool,
}

/// All participants of one channel.
pub(super) struct Crew {
    channel: TemporaryChannel,
    size: u64,
    rate: f64,
    processes: Vec<Option<Process>>,
    readers: Vec<Option<JoinHandle<()>>>,
    shared: Vec<Arc<Shared>>,
    disturbed: Arc<Disturbed>,
    stop: Stop,
}

impl Crew {
    /// Starts all, and waits until each subscriber has a message of each publisher.
    pub(super) fn start(size: u64, rate: f64, capacity: u64, stop: &Stop) -> Outcome<Self> {
        let settings = format!("capacity={capacity}&wait=park");
        let mut crew = Self {
            channel: TemporaryChannel::new("crash", 0, &settings)?,
            size,
            rate,
            processes: Vec::new(),
            readers: Vec::new(),
            shared: Vec::new(),
            disturbed: Arc::default(),
            stop: stop.clone(),
        };
        crew.processes
            .resize_with(PUBLISHERS + SUBSCRIBERS, || None);
        crew.readers.resize_with(SUBSCRIBERS, || None);
        crew.shared.resize_with(SUBSCRIBERS, Arc::default);
        for index in 0..SUBSCRIBERS {
            crew.begin(Member::Subscriber(index), true)?;
        }
        for index in 0..PUBLISHERS {
            crew.begin(Member::Publisher(index), true)?;
        }
        let all = |crew: &Self| {
            (0..PUBLISHERS).all(|publisher| {
                (0..SUBSCRIBERS).all(|one| crew.seen(one, |seen| seen.count_of(publisher) > 0))
            })
        };
        crew.wait("the first messages", all)?;
        Ok(crew)
    }

    /// Starts the process of a participant.
    fn begin(&mut self, member: Member, is_first: bool) -> Outcome {
        let uri = self.channel.uri();
        let mut words = match member {
            Member::Publisher(_) => vec!["pub", &uri, "--json"],
            Member::Subscriber(_) => vec!["sub", &uri, "--out", "frames", "--expire", EXPIRE],
        };
        let (size, rate) = (self.size.to_string(), self.rate.to_string());
        let (number, name, all) = match member {
            Member::Publisher(index) => (index.to_string(), String::new(), SUBSCRIBERS.to_string()),
            Member::Subscriber(index) => {
                let name = format!("reader-{}", index + 1);
                (String::new(), name, String::new())
            }
        };
        match member {
            Member::Publisher(_) => {
                words.extend(["--size", &size, "--rate", &rate, "--tag", &number]);
                if is_first {
                    words.extend(["--subscribers", &all]);
                }
            }
            Member::Subscriber(_) => words.extend(["--name", &name]),
        }
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let mut process = Process::start(member.to_string(), &words, Stdio::piped())?;
        if let Member::Subscriber(index) = member
            && let Some(stdout) = process.take_stdout()
        {
            self.readers[index] = Some(self.read(index, stdout));
        }
        self.processes[member.place()] = Some(process);
        Ok(())
    }

    /// Checks what a subscriber writes, on a thread that ends with its output.
    fn read(&self, subscriber: usize, mut stdout: ChildStdout) -> JoinHandle<()> {
        let shared = Arc::clone(&self.shared[subscriber]);
        // Relaxed: the reader of the last life has ended.
        shared.killed.store(false, Ordering::Relaxed);
        let disturbed = Arc::clone(&self.disturbed);
        let splitter = Splitter {
            form: InputForm::Frames,
            tag: 0,
            message_max: usize::MAX,
        };
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut part = vec![0; 64 << 10];
            // A pipe that cannot be read counts as ended: what is missing is lost.
            while let Ok(taken @ 1..) = stdout.read(&mut part) {
                let now_ns = clock::monotonic_ns();
                bytes.extend_from_slice(&part[..taken]);
                let mut at = 0;
                let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
                while let Split::Message { tag, payload, used } =
                    splitter.next(&bytes[at..], 0, false)
                {
                    seen.receive(tag, payload, now_ns, |publisher| {
                        disturbed.between(publisher, subscriber)
                    });
                    at += used;
                }
                bytes.drain(..at);
            }
            // Relaxed: stored before the signal that ended the pipe.
            let killed = shared.killed.load(Ordering::Relaxed);
            let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.end_life(killed, bytes.len());
        })
    }

    /// A value of what a subscriber has received so far.
    pub(super) fn seen<T>(&self, subscriber: usize, of: impl Fn(&Seen) -> T) -> T {
        let seen = self.shared[subscriber].seen.lock();
        of(&seen.unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a condition; `None` if a request to stop came first.
    fn wait(&mut self, what: &str, reached: impl Fn(&Self) -> bool) -> Outcome<Option<Duration>> {
        let begun = Instant::now();
        while !reached(self) {
            if self.stop.now() {
                return Ok(None);
            }
            self.bound(what, begun)?;
            pause(LOOK);
        }
        Ok(Some(begun.elapsed()))
    }

    /// Fails after [`GRACE`], or if a process ended that nothing was done to.
    fn bound(&mut self, what: &str, begun: Instant) -> Outcome {
        for process in self.processes.iter_mut().flatten() {
            if process.has_ended()? && process.has_failed() {
                return Err(process.ended("early"));
            }
        }
        if begun.elapsed() > GRACE {
            return Err(Failure::failed(format!(
                "waited {} s in vain for {what}",
                GRACE.as_secs()
            )));
        }
        Ok(())
    }

    /// Does something to a participant, and waits until it works again.
    pub(super) fn act(&mut self, action: Action, member: Member) -> Outcome<Taken> {
        self.disturbed.mark(member);
        let taken = match action {
            Action::Kill => self.kill(member),
            Action::Stop => self.pause_process(member),
        }?;
        self.disturbed.mark(member);
        Ok(taken)
    }

    fn kill(&mut self, member: Member) -> Outcome<Taken> {
        let identity = self.identity(member);
        let begun = Instant::now();
        let Some(process) = self.processes[member.place()].take() else {
            return Err(Failure::failed(format!("{member} does not run")));
        };
        let id = u64::from(process.id());
        if let Member::Subscriber(index) = member {
            // Relaxed: the signal comes later, and ends the reader's pipe.
            self.shared[index].killed.store(true, Ordering::Relaxed);
        }
        process.signal(Signal::KILL)?;
        let noticed = self.wait("a death to be noticed", |crew| crew.shows_gone(member, id))?;
        drop(process);
        if let Member::Subscriber(index) = member
            && let Some(reader) = self.readers[index].take()
        {
            reader
                .join()
                .map_err(|_| Failure::failed("checking messages panicked"))?;
        }
        let count = self.received(member);
        self.begin(member, false)?;
        let back = self.wait("the next life", |crew| match member {
            Member::Publisher(_) => crew.identity(member) != identity,
            Member::Subscriber(_) => crew.received(member) > count,
        })?;
        Ok(Taken {
            noticed,
            back: back.map(|_| begun.elapsed()),
        })
    }

    fn pause_process(&mut self, member: Member) -> Outcome<Taken> {
        let signal = |crew: &Self, signal| match &crew.processes[member.place()] {
            Some(process) => process.signal(signal).map(|()| process.id()),
            None => Err(Failure::failed(format!("{member} does not run"))),
        };
        let id = signal(self, Signal::STOP)?;
        let noticed = self.wait("a stop to be noticed", |_| is_stopped(id))?;
        let until = Instant::now() + STOPPED;
        self.wait("the end of a stop", |_| Instant::now() >= until)?;
        // What it wrote before may still be on its way, but a stopped process moves nothing in the
        // channel.
        let moved = self.moved(id);
        signal(self, Signal::CONT)?;
        let back = self.wait("messages after a stop", |crew| {
            crew.moved(id).is_some_and(|now| Some(now) != moved)
        })?;
        Ok(Taken { noticed, back })
    }

    /// Messages that a subscriber has received; 0 for a publisher.
    fn received(&self, member: Member) -> u64 {
        match member {
            Member::Publisher(_) => 0,
            Member::Subscriber(index) => (0..PUBLISHERS)
                .map(|publisher| self.seen(index, |seen| seen.count_of(publisher)))
                .sum(),
        }
    }

    /// The newest life of a publisher that a subscriber has seen.
    fn identity(&self, member: Member) -> u64 {
        match member {
            Member::Publisher(index) => self.seen(0, |seen| seen.identity_of(index)),
            Member::Subscriber(_) => 0,
        }
    }

    /// Bytes that a process published or released, as the channel shows it.
    fn moved(&self, id: u32) -> Option<u64> {
        let info = admin::inspect(self.channel.config()).ok()?;
        let id = u64::from(id);
        let published = info.publishers.iter().filter(|one| one.pid == id);
        let released = info.subscribers.iter().filter(|one| one.pid == id);
        let released = released.flat_map(|one| &one.positions);
        let bytes = published.map(|one| one.cursor).chain(released.copied());
        Some(bytes.sum())
    }

    /// Whether the channel shows a participant as gone: the kernel has released its lock.
    fn shows_gone(&self, member: Member, id: u64) -> bool {
        let Ok(info) = admin::inspect(self.channel.config()) else {
            return false;
        };
        match member {
            Member::Publisher(_) => info
                .publishers
                .iter()
                .all(|one| one.pid != id || one.state != LaneState::Open),
            Member::Subscriber(_) => info
                .subscribers
                .iter()
                .all(|one| one.pid != id || !one.alive),
        }
    }

    /// Ends all in order, publishers first; returns how many messages were published.
    pub(super) fn finish(&mut self) -> Outcome<u64> {
        // A request to stop must not cut the sum short.
        self.stop = Stop::default();
        self.end(0..PUBLISHERS)?;
        let info = admin::inspect(self.channel.config())?;
        let frame = (self.size + HEADER_BYTES).next_multiple_of(info.align_bytes.max(1));
        // Killed publishers cannot say how much they published; the lanes show it.
        let published: u64 = info.publishers.iter().map(|one| one.cursor / frame).sum();
        let begun = Instant::now();
        let is_read = |crew: &Self| {
            (0..SUBSCRIBERS).all(|one| crew.seen(one, |seen| seen.distinct() >= published))
        };
        // What never comes is lost: the sum says so.
        while !is_read(self) && begun.elapsed() < GRACE {
            pause(LOOK);
        }
        self.end(PUBLISHERS..PUBLISHERS + SUBSCRIBERS)?;
        for reader in self.readers.iter_mut().filter_map(Option::take) {
            reader
                .join()
                .map_err(|_| Failure::failed("checking messages panicked"))?;
        }
        Ok(published)
    }

    fn end(&mut self, places: std::ops::Range<usize>) -> Outcome {
        let begun = Instant::now();
        for process in self.processes[places.clone()].iter_mut().flatten() {
            process.close_stdin();
        }
        loop {
            let mut running = 0;
            for process in self.processes[places.clone()].iter_mut().flatten() {
                running += usize::from(!process.has_ended()?);
            }
            if running == 0 {
                break;
            }
            self.bound("the end of the processes", begun)?;
            pause(LOOK);
        }
        for process in self.processes[places].iter_mut().flatten() {
            if process.has_failed() {
                return Err(process.ended("with a failure"));
            }
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // The channel is removed after the last process has gone.
        self.processes.clear();
        for reader in self.readers.iter_mut().filter_map(Option::take) {
            let _ = reader.join();
        }
    }
}

/// Whether the system shows a process as stopped.
fn is_stopped(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with('T'))
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes are looked at now and then"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
