//! Methods that work only between threads: the server end runs in a thread of the measuring
//! process.
//!
//! That thread is pinned to the second process's CPU, whose own thread sleeps in the meantime.
//! Everything else is as for other methods: the same payload, the same checks. Such a method saves
//! the other process, so its rows have the setting `threads`.

use super::harness::{Batches, Driver, End, Paced, drive};
use super::{Rendezvous, Side};
use crate::cpus;
use crate::deadline::Deadline;
use crate::error::{BenchError, Result, io};
use crate::latency::Latency;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Job of the thread.
enum Job {
    Answer { first: u64, rounds: u64 },
    Take { first: u64, count: u64 },
    Hear { first: u64, count: u64 },
}

/// Ticks at the end of a job, and the latencies of paced messages.
type Done = (u64, Option<Latency>);

/// Drives an end of a method between threads. `make` returns both ends, the client first; it is
/// called only on the client side.
///
/// # Errors
///
/// [`BenchError`] if the thread cannot be started or pinned, or `make` fails.
pub fn drive_in_threads<A, B>(
    side: Side,
    rendezvous: &Rendezvous,
    size: usize,
    make: impl FnOnce() -> Result<(A, B)>,
) -> Result<Box<dyn Driver>>
where
    A: End + 'static,
    B: End + Send + 'static,
{
    let mut rendezvous = rendezvous.again()?;
    if side == Side::Server {
        let own = cpus::allowed();
        let cpu = own
            .first()
            .copied()
            .ok_or(BenchError::TooFewCpus { allowed: 0 })?;
        rendezvous.tell(cpu)?;
        return Ok(Box::new(Sleeper { rendezvous }));
    }
    let cpu: u32 = rendezvous.hear_number()?;
    let (asks, answers) = make()?;
    let (jobs, todo) = channel();
    let (done, results) = channel();
    let ready = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&ready);
    let thread = std::thread::Builder::new()
        .name("answers".to_owned())
        .spawn(move || serve(cpu, answers, size, &theirs, &todo, &done))
        .map_err(io("start a thread"))?;
    Ok(Box::new(Threads {
        driver: drive(asks, size),
        jobs: Some(jobs),
        ready,
        results,
        thread: Some(thread),
        rendezvous,
    }))
}

fn serve<B: End + 'static>(
    cpu: u32,
    end: B,
    size: usize,
    ready: &AtomicBool,
    todo: &Receiver<Job>,
    done: &Sender<Result<Done>>,
) {
    let pinned = cpus::pin(cpu).map_err(io("pin a thread"));
    let mut driver = drive(end, size);
    let mut failed = pinned.err();
    while let Ok(job) = todo.recv() {
        // Release: only shows that this thread is awake.
        ready.store(true, Ordering::Release);
        let mut deadline = Deadline::of(super::WAIT_MAX);
        let result = match (failed.take(), job) {
            (Some(error), _) => Err(error),
            (None, Job::Answer { first, rounds }) => {
                let answered = driver.answer(first, rounds, &mut deadline);
                answered.map(|()| (0, None))
            }
            (None, Job::Take { first, count }) => {
                let taken = driver.take(first, count, &mut deadline);
                taken.map(|ticks| (ticks, None))
            }
            (None, Job::Hear { first, count }) => {
                let heard = driver.hear(first, count, &mut deadline);
                heard.map(|(ticks, latency)| (ticks, Some(latency)))
            }
        };
        if done.send(result).is_err() {
            return;
        }
    }
}

/// The client end, with the server thread.
struct Threads {
    driver: Box<dyn Driver>,
    jobs: Option<Sender<Job>>,
    /// Whether the thread is awake and about to begin its job.
    ready: Arc<AtomicBool>,
    results: Receiver<Result<Done>>,
    thread: Option<JoinHandle<()>>,
    rendezvous: Rendezvous,
}

impl Threads {
    /// Gives the thread a job and waits until it is awake: waking it is not part of any figure.
    fn begin(&self, job: Job) -> Result<()> {
        self.ready.store(false, Ordering::Relaxed);
        let sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(BenchError::EndClosed);
        }
        let mut deadline = Deadline::of(super::WAIT_MAX);
        while !self.ready.load(Ordering::Acquire) {
            deadline.spend()?;
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Waits for the thread and reports the result to the second process.
    fn end(&mut self, ours: Result<()>) -> Result<Option<Latency>> {
        let theirs = self.results.recv_timeout(super::WAIT_MAX + super::WAIT_MAX);
        match theirs {
            Ok(Ok((ticks, latency))) => {
                ours?;
                self.rendezvous.tell(ticks)?;
                Ok(latency)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                ours?;
                Err(BenchError::EndClosed)
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // It ends with its deadline at the latest; a panic in it was already printed.
            let _ = thread.join();
        }
    }
}

impl Driver for Threads {
    fn ask(
        &mut self,
        first: u64,
        rounds: u64,
        deadline: &mut Deadline<'_>,
        samples: &mut Vec<u64>,
    ) -> Result<()> {
        self.begin(Job::Answer { first, rounds })?;
        let asked = self.driver.ask(first, rounds, deadline, samples);
        self.end(asked).map(|_| ())
    }

    fn answer(&mut self, _first: u64, _rounds: u64, _deadline: &mut Deadline<'_>) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn prepare(&mut self, batches: Batches) -> Result<()> {
        self.driver.prepare(batches)?;
        let Batches { first, count, .. } = batches;
        self.begin(Job::Take { first, count })
    }

    fn stream(&mut self, batches: Batches, deadline: &mut Deadline<'_>) -> Result<()> {
        let sent = self.driver.stream(batches, deadline);
        self.end(sent).map(|_| ())
    }

    fn take(&mut self, _first: u64, _count: u64, _deadline: &mut Deadline<'_>) -> Result<u64> {
        Err(BenchError::EndClosed)
    }

    fn pace(
        &mut self,
        paced: &Paced,
        deadline: &mut Deadline<'_>,
        delays: &mut Vec<u64>,
    ) -> Result<Option<Latency>> {
        let Paced { first, count, .. } = *paced;
        self.begin(Job::Hear { first, count })?;
        let sent = self.driver.pace(paced, deadline, delays);
        self.end(sent.map(|_| ()))
    }

    fn hear(&mut self, _: u64, _: u64, _: &mut Deadline<'_>) -> Result<(u64, Latency)> {
        Err(BenchError::EndClosed)
    }
}

/// The second process: sleeps until the thread is done.
struct Sleeper {
    rendezvous: Rendezvous,
}

impl Driver for Sleeper {
    fn ask(
        &mut self,
        _first: u64,
        _rounds: u64,
        _deadline: &mut Deadline<'_>,
        _samples: &mut Vec<u64>,
    ) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn answer(&mut self, _first: u64, _rounds: u64, _deadline: &mut Deadline<'_>) -> Result<()> {
        self.rendezvous.hear()?;
        Ok(())
    }

    fn prepare(&mut self, _batches: Batches) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn stream(&mut self, _batches: Batches, _deadline: &mut Deadline<'_>) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn take(&mut self, _first: u64, _count: u64, _deadline: &mut Deadline<'_>) -> Result<u64> {
        self.rendezvous.hear_number()
    }

    fn pace(
        &mut self,
        _: &Paced,
        _: &mut Deadline<'_>,
        _: &mut Vec<u64>,
    ) -> Result<Option<Latency>> {
        Err(BenchError::EndClosed)
    }

    fn hear(&mut self, _: u64, _: u64, _: &mut Deadline<'_>) -> Result<(u64, Latency)> {
        // The thread of the measuring process has the latencies.
        Ok((self.rendezvous.hear_number()?, Latency::new()))
    }
}
