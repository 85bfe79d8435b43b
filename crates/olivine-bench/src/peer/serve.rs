//! The second process: waits for orders, executes them, replies.

use super::many::{self, Producer};
use super::{ANSWER_MAX, Answer, BACK, Order, READY, Role, STAMP, THERE};
use crate::channel::{POLL_LIMIT, WAIT_STEP};
use crate::clock::TickClock;
use crate::cpus;
use crate::deadline::Deadline;
use crate::error::{BenchError, Result, chain, io};
use crate::latency::{Latency, Snapshot};
use crate::method::{self, Driver, Method, Rendezvous, Side, WAIT_MAX};
use crate::payload::{self, Stamp};
use crate::words::SharedWords;
use olivine::Subscriber;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs as the second process until standard input ends. `methods` are those it may open.
///
/// If the measuring process is gone, removes the shared objects.
///
/// # Errors
///
/// [`BenchError`] if the start fails; the failure of an order is answered instead.
pub fn serve(words: &Path, cpu: u32, methods: &'static [&'static dyn Method]) -> Result<()> {
    let words = SharedWords::attach(words).map_err(io("attach to the shared words"))?;
    cpus::pin(cpu).map_err(io("pin the second process"))?;
    let (tell, orders) = channel();
    let joined: Joined = Arc::default();
    let left_over = Arc::clone(&joined);
    std::thread::spawn(move || {
        for line in std::io::stdin()
            .lock()
            .lines()
            .map_while(std::io::Result::ok)
        {
            let Ok(order) = serde_json::from_str::<Order>(&line) else {
                break;
            };
            if tell.send(order).is_err() {
                break;
            }
        }
        // The measuring process is gone: nothing reads the results.
        remove(&left_over);
        std::process::exit(0);
    });
    let mut server = Server {
        words,
        serial: 0,
        methods,
        joined,
        subscriber: None,
        producer: None,
        driver: None,
        bare: None,
    };
    say(&Answer::Started)?;
    while let Ok(order) = orders.recv() {
        let answer = match server.perform(&order) {
            Ok(answer) => answer,
            Err(error) => Answer::Failed {
                message: chain(&error),
            },
        };
        let said = say(&answer);
        if said.is_err() {
            // The measuring process is gone, and this thread may be first, before the other one has
            // removed everything.
            remove(&server.joined);
            return said;
        }
    }
    Ok(())
}

fn say(answer: &Answer) -> Result<()> {
    let mut line = serde_json::to_string(answer).map_err(|source| BenchError::Io {
        action: "write an answer",
        source: source.into(),
    })?;
    line.push('\n');
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(io("answer"))
}

struct Server {
    words: SharedWords,
    serial: u64,
    methods: &'static [&'static dyn Method],
    joined: Joined,
    subscriber: Option<Subscriber>,
    producer: Option<Producer>,
    driver: Option<Box<dyn Driver>>,
    bare: Option<Box<dyn Driver>>,
}

/// The folders of the open methods.
type Joined = Arc<Mutex<Vec<PathBuf>>>;

/// Removes the objects shared with the measuring process. Missing ones are fine.
fn remove(joined: &Joined) {
    let joined = joined.lock().unwrap_or_else(PoisonError::into_inner);
    joined.iter().for_each(|folder| method::remove(folder));
}

impl Server {
    fn perform(&mut self, order: &Order) -> Result<Answer> {
        self.serial += 1;
        if let Order::Open { there } = order {
            // Opened before the reply, so that the other side finds this subscriber.
            self.subscriber = Some(Subscriber::open(there)?);
        }
        self.words.store(READY, self.serial);
        match *order {
            Order::Privileges(privileges) => privileges.take()?,
            Order::Floor { first, rounds } => self.floor(first, rounds, |_| ())?,
            Order::Stamp { first, rounds } => {
                self.floor(first, rounds, |words| {
                    words.store(STAMP, TickClock::ticks())
                })?;
            }
            Order::Join {
                role,
                ref method,
                ref settings,
                size_bytes,
                ref folder,
            } => self.join(role, method, settings, size_bytes, folder)?,
            Order::Echo { first, rounds } => {
                let mut deadline = Deadline::of(WAIT_MAX);
                self.driver(Role::Measured)?
                    .answer(first, rounds, &mut deadline)?;
            }
            Order::Take { role, first, count } => {
                let mut deadline = Deadline::of(WAIT_MAX);
                let end_ticks = self.driver(role)?.take(first, count, &mut deadline)?;
                return Ok(Answer::Done {
                    end_ticks,
                    latency: None,
                });
            }
            Order::Consume {
                size_bytes,
                first,
                count,
                timed,
            } => {
                let (end_ticks, latency) = self.consume(size_bytes, first, count, timed)?;
                return Ok(Answer::Done { end_ticks, latency });
            }
            Order::Publish {
                ref there,
                size_bytes,
                batch,
            } => self.producer = Some(Producer::open(there, size_bytes, batch)?),
            Order::Produce {
                own,
                first,
                count,
                at_ticks,
            } => match &mut self.producer {
                Some(producer) => producer.produce(own, first, count, at_ticks)?,
                None => return Err(unopened()),
            },
            Order::Gather {
                size_bytes,
                publishers,
                first,
                count,
            } => match &mut self.subscriber {
                Some(subscriber) => {
                    let ends_ticks =
                        many::gather(subscriber, size_bytes, publishers, first, count)?;
                    return Ok(Answer::Gathered { ends_ticks });
                }
                None => return Err(unopened()),
            },
            Order::Hear { first, count } => {
                let mut deadline = Deadline::of(WAIT_MAX);
                let (end_ticks, latency) =
                    self.driver(Role::Measured)?
                        .hear(first, count, &mut deadline)?;
                return Ok(Answer::Done {
                    end_ticks,
                    latency: Some(latency.snapshot()),
                });
            }
            Order::Open { .. } => {}
            Order::Close => {
                self.producer = None;
                self.subscriber = None;
                self.driver = None;
                self.bare = None;
                self.joined().clear();
            }
        }
        Ok(Answer::Done {
            end_ticks: TickClock::ticks(),
            latency: None,
        })
    }

    #[inline(always)]
    fn floor(&mut self, first: u64, rounds: u64, stamp: impl Fn(&SharedWords)) -> Result<()> {
        let mut deadline = Deadline::of(ANSWER_MAX);
        for ball in first..first + rounds {
            while self.words.load(THERE) != ball {
                deadline.spend()?;
            }
            deadline.renew();
            stamp(&self.words);
            self.words.store(BACK, ball);
        }
        Ok(())
    }

    fn join(
        &mut self,
        role: Role,
        name: &str,
        settings: &str,
        size: usize,
        folder: &Path,
    ) -> Result<()> {
        if role == Role::Measured {
            // The ends left by an earlier failure are useless.
            self.driver = None;
            self.bare = None;
            self.joined().clear();
        }
        self.joined().push(folder.to_path_buf());
        let mut rendezvous = Rendezvous::enter(folder)?;
        let mut open = |method: &dyn Method| {
            let opened = method.open(Side::Server, &mut rendezvous, size, settings);
            opened.map(Some)
        };
        match role {
            Role::Measured => self.driver = open(method::find(self.methods, name)?)?,
            // Programs that bring their own methods know it, too.
            Role::Bare => self.bare = open(method::BARE)?,
        }
        Ok(())
    }

    fn joined(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn driver(&mut self, role: Role) -> Result<&mut dyn Driver> {
        let driver = match role {
            Role::Measured => &mut self.driver,
            Role::Bare => &mut self.bare,
        };
        match driver {
            Some(driver) => Ok(driver.as_mut()),
            None => Err(BenchError::Protocol {
                found: "a message before a method was joined".to_owned(),
            }),
        }
    }

    fn consume(
        &mut self,
        size: usize,
        first: u64,
        count: u64,
        timed: bool,
    ) -> Result<(u64, Option<Snapshot>)> {
        let Some(subscriber) = &mut self.subscriber else {
            return Err(unopened());
        };
        let mut samples = Vec::with_capacity(if timed {
            usize::try_from(count).unwrap_or(0)
        } else {
            0
        });
        let mut next = first;
        let end = first + count;
        let mut wrong = None;
        let mut deadline = Deadline::of(ANSWER_MAX);
        while next != end {
            let room = usize::try_from(end - next)
                .unwrap_or(usize::MAX)
                .min(POLL_LIMIT);
            let taken = if timed {
                subscriber.poll(
                    |message| {
                        let found = payload::check_whole(&message, size);
                        take(found, &mut next, &mut wrong, |stamp| {
                            samples.push(TickClock::ticks().wrapping_sub(stamp.ticks));
                        })
                    },
                    room,
                )?
            } else if size == payload::COMMON {
                // A separate loop, in which nothing else needs a register.
                subscriber.poll(
                    |message| {
                        let found = payload::check_common(&message);
                        take(found, &mut next, &mut wrong, |_| ());
                    },
                    room,
                )?
            } else {
                subscriber.poll(
                    |message| {
                        let found = payload::check_whole(&message, size);
                        take(found, &mut next, &mut wrong, |_| ());
                    },
                    room,
                )?
            };
            if let Some(sequence) = wrong {
                return Err(BenchError::Wrong { sequence });
            }
            if taken == 0 {
                subscriber.wait(WAIT_STEP)?;
                deadline.look()?;
            } else {
                deadline.renew();
            }
        }
        let end_ticks = TickClock::ticks();
        subscriber.release();
        let latency = timed.then(|| {
            let mut latency = Latency::new();
            // Differences already: what is below 0 wraps.
            samples
                .iter()
                .for_each(|&ticks| latency.record_between(0, ticks));
            latency.snapshot()
        });
        Ok((end_ticks, latency))
    }
}

fn unopened() -> BenchError {
    BenchError::Protocol {
        found: "a message before the channel was opened".to_owned(),
    }
}

/// Checks one message in order; the first wrong one is noted.
#[inline(always)]
fn take(found: Option<Stamp>, next: &mut u64, wrong: &mut Option<u64>, note: impl FnOnce(Stamp)) {
    match found {
        Some(stamp) if stamp.sequence == *next => note(stamp),
        _ => *wrong = wrong.or(Some(*next)),
    }
    *next += 1;
}
