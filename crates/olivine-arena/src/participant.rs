//! A participant of a measurement: a process that carries out orders and decides nothing.
//!
//! Its waits have no limit. If the coordinator is gone, standard input ends, and so does this
//! process, after it has removed what its methods share.

use crate::affinity;
use crate::bare_ring::BARE_RING;
use crate::clock::TickClock;
use crate::counts::Counter;
use crate::error::{ArenaError, Result, chain, io};
use crate::harness::Driver;
use crate::limits;
use crate::method::{Description, Method, find};
use crate::privileges;
use crate::protocol::{
    Answer, BACK, BARRIER, COMMAND, Done, LIST, Limit, Line, Opening, Order, Role, STAMP, Side,
    THERE, WORDS, Work, samples,
};
use crate::rendezvous::{self, Rendezvous};
use crate::words::SharedWords;
use std::fs::File;
use std::hint::spin_loop;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// Pauses at a start barrier between two times that the CPU is given away.
const SPINS: u32 = 8;
/// Ends between which the floor is.
const PAIR: usize = 2;

/// The arguments of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The folder of the shared words.
    folder: PathBuf,
    /// Ends of all participants together.
    ends: usize,
    /// Number of the end of its first worker.
    first: usize,
    /// The CPU of each worker.
    cpus: Vec<u32>,
}

impl Seat {
    /// A process with a worker on each of `cpus`: of all `ends`, those from number `first` on.
    #[must_use]
    pub fn new(folder: &Path, ends: usize, first: usize, cpus: &[u32]) -> Self {
        Self {
            folder: folder.to_path_buf(),
            ends,
            first,
            cpus: cpus.to_vec(),
        }
    }

    /// As words of a command line.
    #[must_use]
    pub fn words(&self) -> [String; 4] {
        let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
        [
            self.folder.display().to_string(),
            self.ends.to_string(),
            self.first.to_string(),
            cpus.join(","),
        ]
    }

    /// From words of a command line.
    ///
    /// # Errors
    ///
    /// [`ArenaError::Protocol`] if these are not the words of a seat.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let found = match words.as_slice() {
            [folder, ends, first, cpus] => {
                let cpus = cpus.split(',').map(|cpu| cpu.parse().ok());
                ends.parse()
                    .ok()
                    .zip(first.parse().ok())
                    .and_then(|(ends, first)| {
                        Some(Self {
                            folder: PathBuf::from(folder),
                            ends,
                            first,
                            cpus: cpus.collect::<Option<Vec<u32>>>()?,
                        })
                    })
            }
            _ => None,
        };
        found.ok_or_else(|| ArenaError::Protocol {
            found: words.join(" "),
        })
    }
}

/// The main function of a program that takes part, with its methods.
#[must_use]
pub fn run(methods: &'static [Method]) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match follow(&words, methods) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without standard error there is no place for a report.
            let _ = writeln!(std::io::stderr(), "{}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// What the words of the command line ask a program that takes part to do.
///
/// # Errors
///
/// [`ArenaError::Protocol`] for other words; as [`participate`].
pub fn follow(words: &[String], methods: &'static [Method]) -> Result<()> {
    match words.split_first() {
        Some((word, [])) if word == LIST => list(methods),
        Some((word, seat)) if word == COMMAND => {
            Seat::parse(seat).and_then(|seat| participate(&seat, methods))
        }
        _ => Err(ArenaError::Protocol {
            found: "run this through `olivine bench pingpong --rivals`".to_owned(),
        }),
    }
}

fn list(methods: &[Method]) -> Result<()> {
    let known: Vec<Description> = methods.iter().map(Description::from).collect();
    let text = serde_json::to_string(&known).map_err(|error| io("write a list")(error.into()))?;
    writeln!(std::io::stdout().lock(), "{text}").map_err(io("write a list"))
}

/// Where the answers go. What a library prints goes to standard error.
type Output = Arc<Mutex<File>>;

/// The folders of the open methods.
type Joined = Arc<Mutex<Vec<PathBuf>>>;

/// Runs as a participant until standard input ends. `methods` are those it may open.
///
/// # Errors
///
/// [`ArenaError`] if the start fails; the failure of an order is answered instead.
pub fn participate(seat: &Seat, methods: &'static [Method]) -> Result<()> {
    let output = answers().map_err(io("keep standard output for answers"))?;
    let joined: Joined = Arc::default();
    let watched = Arc::clone(&joined);
    std::thread::spawn(move || {
        await_end();
        // Nothing reads the results.
        remove(&watched);
        std::process::exit(0);
    });
    let mut tells = Vec::new();
    for number in 1..seat.cpus.len() {
        let (tell, orders) = channel();
        tells.push(tell);
        let (seat, output) = (seat.clone(), Arc::clone(&output));
        let joined = Arc::clone(&joined);
        std::thread::spawn(move || {
            let done = Worker::new(&seat, number, methods, output, joined)
                .and_then(|worker| worker.work(orders.into_iter()));
            if let Err(error) = done {
                // Its orders end with it, and then this process does.
                let _ = writeln!(std::io::stderr(), "{}", chain(&error));
            }
        });
    }
    let worker = Worker::new(seat, 0, methods, output, Arc::clone(&joined))?;
    let lines = std::io::stdin().lines().map_while(std::io::Result::ok);
    let orders = lines.map_while(|line| serde_json::from_str::<Line<Order>>(&line).ok());
    // Orders of other workers come first, because this one is then at work.
    let own = orders.map_while(|line| match line.worker.checked_sub(1) {
        None => Some(Some(line.said)),
        Some(other) => {
            let told = tells.get(other).map(|tell| tell.send(line.said));
            matches!(told, Some(Ok(()))).then_some(None)
        }
    });
    worker.work(own.flatten())?;
    remove(&joined);
    Ok(())
}

/// Waits for the end of the coordinator, and sleeps while there are orders.
fn await_end() {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdin = std::io::stdin();
    let mut entries = [PollFd::new(&stdin, PollFlags::empty())];
    while let Ok(0) | Err(rustix::io::Errno::INTR) = poll(&mut entries, None) {}
}

/// Keeps standard output for the answers: what else is printed goes to standard error.
fn answers() -> std::io::Result<Output> {
    let own: OwnedFd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(Arc::new(Mutex::new(File::from(own))))
}

/// Removes the objects shared with the other participants. Missing ones are fine.
fn remove(joined: &Joined) {
    let joined = joined.lock().unwrap_or_else(PoisonError::into_inner);
    joined.iter().for_each(|folder| rendezvous::remove(folder));
}

/// A thread that carries out orders.
struct Worker {
    number: usize,
    end: usize,
    ends: usize,
    words: SharedWords,
    file: File,
    /// What the kernel counts of this thread.
    own: Counter,
    samples: Vec<u64>,
    bytes: Vec<u8>,
    methods: &'static [Method],
    output: Output,
    joined: Joined,
}

/// What a worker has open; never leaves its thread.
#[derive(Default)]
struct Opened {
    measured: Option<Box<dyn Driver>>,
    bare: Option<Box<dyn Driver>>,
}

impl Opened {
    fn of(&mut self, role: Role) -> &mut Option<Box<dyn Driver>> {
        match role {
            Role::Measured => &mut self.measured,
            Role::Bare => &mut self.bare,
        }
    }
}

impl Worker {
    fn new(
        seat: &Seat,
        number: usize,
        methods: &'static [Method],
        output: Output,
        joined: Joined,
    ) -> Result<Self> {
        let end = seat.first + number;
        affinity::pin(seat.cpus[number]).map_err(io("pin a worker"))?;
        let words = SharedWords::attach(&seat.folder.join(WORDS));
        let file = File::options()
            .write(true)
            .open(seat.folder.join(samples(end)));
        Ok(Self {
            number,
            end,
            ends: seat.ends,
            words: words.map_err(io("attach to the shared words"))?,
            file: file.map_err(io("open a file for samples"))?,
            own: Counter::new(),
            samples: Vec::new(),
            bytes: Vec::new(),
            methods,
            output,
            joined,
        })
    }

    /// Carries out orders until there are no more.
    fn work(mut self, orders: impl Iterator<Item = Order>) -> Result<()> {
        self.say(Answer::Started)?;
        let mut opened = Opened::default();
        for order in orders {
            let answer = match self.perform(order, &mut opened) {
                Ok(done) => Answer::Done(done),
                Err(error) => Answer::Failed {
                    follows: error.follows(),
                    message: chain(&error),
                },
            };
            let said = self.say(answer);
            if said.is_err() {
                // The coordinator is gone, and this thread may be first, before the other one has
                // removed everything.
                remove(&self.joined);
                return said;
            }
        }
        Ok(())
    }

    fn say(&self, said: Answer) -> Result<()> {
        let worker = self.number;
        let line = serde_json::to_string(&Line { worker, said });
        let mut line = line.map_err(|error| io("write an answer")(error.into()))?;
        line.push('\n');
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(line.as_bytes()).map_err(io("answer"))
    }

    fn perform(&mut self, order: Order, opened: &mut Opened) -> Result<Done> {
        self.samples.clear();
        let done = match order {
            Order::Privileges {
                real_time,
                locked_memory,
            } => privileges::take(real_time, locked_memory).map(|()| Done::default()),
            Order::Open(opening) => self.open(&opening, opened).map(|()| Done::default()),
            Order::Run { role, start, work } => match opened.of(role) {
                Some(driver) => self.run(driver.as_mut(), start, &work),
                None => Err(ArenaError::Protocol {
                    found: "work before a method was opened".to_owned(),
                }),
            },
            Order::Balls {
                side,
                start,
                first,
                rounds,
                stamped,
            } => {
                self.pass(start, PAIR);
                self.balls(side, first..first + rounds, stamped);
                Ok(Done::default())
            }
            Order::Limit(limit) => return Ok(limit_of(limit)),
            Order::Close => {
                *opened = Opened::default();
                let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
                joined.clear();
                Ok(Done::default())
            }
        };
        let count = self.samples.len() as u64;
        if count > 0 {
            self.bytes.clear();
            let bytes = self.samples.iter().flat_map(|ticks| ticks.to_ne_bytes());
            self.bytes.extend(bytes);
            let kept = self.file.write_all_at(&self.bytes, 0);
            kept.map_err(io("write samples"))?;
        }
        done.map(|done| Done { count, ..done })
    }

    fn open(&self, opening: &Opening, opened: &mut Opened) -> Result<()> {
        *opened.of(opening.role) = None;
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        joined.push(opening.folder.clone());
        drop(joined);
        let method: &Method = match opening.role {
            Role::Measured => find(self.methods, &opening.method)?,
            // Programs that bring their own methods know it, too.
            Role::Bare => &BARE_RING,
        };
        let mut rendezvous = Rendezvous::new(opening.side, &opening.folder, opening.streamed);
        let mut open = || {
            let (side, size) = (opening.side, opening.size_bytes);
            (method.open)(side, &mut rendezvous, size, &opening.settings)
        };
        let driver = if opening.unpinned {
            affinity::unpinned(open)
        } else {
            open()
        };
        *opened.of(opening.role) = Some(driver?);
        Ok(())
    }

    fn run(&mut self, driver: &mut dyn Driver, start: u64, work: &Work) -> Result<Done> {
        driver.prepare(work)?;
        self.pass(start, self.ends);
        let before = self.own.counts();
        let start_ticks = TickClock::ticks();
        let done = driver.run(work, &mut self.samples)?;
        let kernel = self.own.counts().since(&before);
        if self.ends == PAIR {
            // The answer of one end would wake the coordinator while the other is at work.
            self.pass(start + 1, PAIR);
        }
        Ok(Done {
            start_ticks,
            kernel,
            ..done
        })
    }

    /// Waits until the first `ends` have reached the start barrier.
    fn pass(&self, barrier: u64, ends: usize) {
        self.words.store(BARRIER + self.end, barrier);
        for end in 0..ends {
            while self.words.load(BARRIER + end) < barrier {
                (0..SPINS).for_each(|_| spin_loop());
                // The coordinator may still need this CPU, or an end that shares it.
                std::thread::yield_now();
            }
        }
    }

    /// Exchanges balls: a cache line between two CPUs.
    fn balls(&mut self, side: Side, balls: std::ops::Range<u64>, stamped: bool) {
        let Self { words, samples, .. } = self;
        match (side, stamped) {
            (Side::Client, false) => {
                let mut last = TickClock::ticks();
                for ball in balls {
                    words.store(THERE, ball);
                    while words.load(BACK) != ball {}
                    let now = TickClock::ticks();
                    samples.push(now.wrapping_sub(last));
                    last = now;
                }
            }
            (Side::Client, true) => {
                for ball in balls {
                    let before = TickClock::ticks();
                    words.store(THERE, ball);
                    while words.load(BACK) != ball {}
                    let after = TickClock::ticks();
                    samples.extend([before, words.load(STAMP), after]);
                }
            }
            (Side::Server, false) => return_balls(words, balls, |_| ()),
            (Side::Server, true) => {
                return_balls(words, balls, |words| {
                    words.store(STAMP, TickClock::ticks());
                });
            }
        }
    }
}

#[inline(always)]
fn return_balls(words: &SharedWords, balls: std::ops::Range<u64>, stamp: impl Fn(&SharedWords)) {
    for ball in balls {
        while words.load(THERE) != ball {}
        stamp(words);
        words.store(BACK, ball);
    }
}

fn limit_of(limit: Limit) -> Done {
    match limit {
        Limit::Copy {
            size_bytes,
            ring_bytes,
        } => limits::copies(size_bytes, ring_bytes),
        Limit::Call => limits::system_calls(),
        Limit::Wake => limits::futex_wakes(),
        Limit::Clock => limits::clock_readings(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_survives_its_words() {
        let seat = Seat::new(Path::new("/dev/shm/x"), 3, 1, &[4, 36]);
        assert_eq!(Seat::parse(&seat.words()).unwrap(), seat);
        for words in [&["a", "b", "c", "d"][..], &["a", "2", "0", "1,x"], &["a"]] {
            let error = Seat::parse(words).unwrap_err();
            assert!(matches!(error, ArenaError::Protocol { .. }), "{error}");
        }
    }
}
