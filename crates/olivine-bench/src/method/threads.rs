//! Methods that work only between threads: the answering end runs in a thread of the measuring process.
//!
//! That thread is pinned to the second process's CPU, whose own thread sleeps meanwhile. Everything else is as for
//! other methods: the same payload, the same checks. What such a method saves is the other process, so its rows
//! say `threads` in their settings.

use super::player::{Batches, End, Player, play};
use super::{Door, Side};
use crate::error::{BenchError, Result, io};
use crate::peer::Patience;
use olivine::probe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What the thread is asked to do.
enum Job {
    Answer { first: u64, rounds: u64 },
    Take { first: u64, count: u64 },
}

/// Plays an end of a method that works between threads. `make` gives both ends, the asking one first; it is called
/// on the asking side only.
///
/// # Errors
///
/// [`BenchError`] if the thread cannot be started or pinned, or `make` fails.
pub fn play_in_threads<A, B>(
    side: Side,
    door: &Door,
    size: usize,
    make: impl FnOnce() -> Result<(A, B)>,
) -> Result<Box<dyn Player>>
where
    A: End + 'static,
    B: End + Send + 'static,
{
    let mut door = door.again()?;
    if side == Side::Answers {
        let own = probe::allowed_cpus();
        let cpu = own
            .first()
            .copied()
            .ok_or(BenchError::TooFewCpus { allowed: 0 })?;
        door.tell(cpu)?;
        return Ok(Box::new(Sleeper { door }));
    }
    let cpu: u32 = door.hear_number()?;
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
        player: play(asks, size),
        jobs: Some(jobs),
        ready,
        results,
        thread: Some(thread),
        door,
    }))
}

fn serve<B: End + 'static>(
    cpu: u32,
    end: B,
    size: usize,
    ready: &AtomicBool,
    todo: &Receiver<Job>,
    done: &Sender<Result<u64>>,
) {
    let pinned = probe::pin_to_cpu(cpu).map_err(io("pin a thread"));
    let mut player = play(end, size);
    let mut failed = pinned.err();
    while let Ok(job) = todo.recv() {
        // Release: nothing before it matters to the other side but that this thread is awake.
        ready.store(true, Ordering::Release);
        let mut patience = Patience::of(super::PATIENCE);
        let result = match (failed.take(), job) {
            (Some(error), _) => Err(error),
            (None, Job::Answer { first, rounds }) => {
                player.answer(first, rounds, &mut patience).map(|()| 0)
            }
            (None, Job::Take { first, count }) => player.take(first, count, &mut patience),
        };
        if done.send(result).is_err() {
            return;
        }
    }
}

/// The asking end, with the thread that answers.
struct Threads {
    player: Box<dyn Player>,
    jobs: Option<Sender<Job>>,
    /// Whether the thread is awake and about to begin its job.
    ready: Arc<AtomicBool>,
    results: Receiver<Result<u64>>,
    thread: Option<JoinHandle<()>>,
    door: Door,
}

impl Threads {
    /// Gives the thread a job and waits until it is awake: what waking it takes is no part of any figure.
    fn begin(&self, job: Job) -> Result<()> {
        self.ready.store(false, Ordering::Relaxed);
        let sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(BenchError::EndClosed);
        }
        let mut patience = Patience::of(super::PATIENCE);
        while !self.ready.load(Ordering::Acquire) {
            patience.spend()?;
            probe::spin_hint();
        }
        Ok(())
    }

    /// Waits for the thread and tells the second process how it went.
    fn end(&mut self, ours: Result<()>) -> Result<()> {
        let theirs = self.results.recv_timeout(super::PATIENCE + super::PATIENCE);
        match theirs {
            Ok(Ok(ticks)) => {
                ours?;
                self.door.tell(ticks)
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
            // It ends with its patience at the latest; a panic in it was already reported there.
            let _ = thread.join();
        }
    }
}

impl Player for Threads {
    fn ask(
        &mut self,
        first: u64,
        rounds: u64,
        patience: &mut Patience<'_>,
        samples: &mut Vec<u64>,
    ) -> Result<()> {
        self.begin(Job::Answer { first, rounds })?;
        let asked = self.player.ask(first, rounds, patience, samples);
        self.end(asked)
    }

    fn answer(&mut self, _first: u64, _rounds: u64, _patience: &mut Patience<'_>) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn prepare(&mut self, batches: Batches) -> Result<()> {
        self.player.prepare(batches)?;
        let Batches { first, count, .. } = batches;
        self.begin(Job::Take { first, count })
    }

    fn stream(&mut self, batches: Batches, patience: &mut Patience<'_>) -> Result<()> {
        let sent = self.player.stream(batches, patience);
        self.end(sent)
    }

    fn take(&mut self, _first: u64, _count: u64, _patience: &mut Patience<'_>) -> Result<u64> {
        Err(BenchError::EndClosed)
    }
}

/// The second process: sleeps until the thread is done.
struct Sleeper {
    door: Door,
}

impl Player for Sleeper {
    fn ask(
        &mut self,
        _first: u64,
        _rounds: u64,
        _patience: &mut Patience<'_>,
        _samples: &mut Vec<u64>,
    ) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn answer(&mut self, _first: u64, _rounds: u64, _patience: &mut Patience<'_>) -> Result<()> {
        self.door.hear()?;
        Ok(())
    }

    fn prepare(&mut self, _batches: Batches) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn stream(&mut self, _batches: Batches, _patience: &mut Patience<'_>) -> Result<()> {
        Err(BenchError::EndClosed)
    }

    fn take(&mut self, _first: u64, _count: u64, _patience: &mut Patience<'_>) -> Result<u64> {
        self.door.hear_number()
    }
}
