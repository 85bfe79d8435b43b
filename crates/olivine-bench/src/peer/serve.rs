//! The second process: waits for orders, carries them out, answers.

use super::{ANSWER_MAX, Answer, BACK, Order, READY, SPINS_BETWEEN_LOOKS, THERE};
use crate::error::{BenchError, Result, io};
use crate::latency::{Latency, Snapshot};
use crate::payload::{self, Stamp};
use olivine::clock::{self, TickClock};
use olivine::probe::{self, SharedWords};
use olivine::{Message, NotSent, Publisher, Subscriber};
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longest single wait for a message, so that a limit on the whole can be kept.
const WAIT_STEP: Duration = Duration::from_millis(200);
/// Messages taken in one poll.
const POLL_LIMIT: usize = 1 << 16;

/// Runs as the second process until standard input ends.
///
/// # Errors
///
/// [`BenchError`] if the start fails; the failure of an order is answered instead.
pub fn serve(words: &Path, cpu: u32) -> Result<()> {
    let words = SharedWords::attach(words).map_err(io("attach to the shared words"))?;
    probe::pin_to_cpu(cpu).map_err(io("pin the second process"))?;
    let (tell, orders) = channel();
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
        // The measuring process is gone: whatever this one is doing has no reader.
        std::process::exit(0);
    });
    let mut server = Server {
        words,
        serial: 0,
        spins: false,
        subscriber: None,
        publisher: None,
    };
    say(&Answer::Started)?;
    while let Ok(order) = orders.recv() {
        let answer = match server.perform(&order) {
            Ok(answer) => answer,
            Err(error) => Answer::Failed {
                message: chain(&error),
            },
        };
        say(&answer)?;
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

fn chain(error: &BenchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

struct Server {
    words: SharedWords,
    serial: u64,
    /// Whether to poll without a pause.
    spins: bool,
    subscriber: Option<Subscriber>,
    publisher: Option<Publisher>,
}

impl Server {
    fn perform(&mut self, order: &Order) -> Result<Answer> {
        self.serial += 1;
        if let Order::Open { there, back } = order {
            // Opened before standing ready, so that the other side finds this subscriber.
            self.subscriber = Some(Subscriber::open(there)?);
            self.publisher = back.as_deref().map(Publisher::open).transpose()?;
            self.spins = spins(there);
        }
        self.words.store(READY, self.serial);
        match *order {
            Order::Floor { first, rounds } => self.floor(first, rounds)?,
            Order::Echo { first, rounds } => self.echo(first, rounds)?,
            Order::Consume {
                first,
                count,
                timed,
            } => {
                let (end_ticks, latency) = self.consume(first, count, timed)?;
                return Ok(Answer::Done { end_ticks, latency });
            }
            Order::Open { .. } => {}
            Order::Close => {
                self.subscriber = None;
                self.publisher = None;
            }
        }
        Ok(Answer::Done {
            end_ticks: TickClock::ticks(),
            latency: None,
        })
    }

    fn floor(&mut self, first: u64, rounds: u64) -> Result<()> {
        let mut limit = Limit::new();
        for ball in first..first + rounds {
            while self.words.load(THERE) != ball {
                limit.spend()?;
            }
            self.words.store(BACK, ball);
        }
        Ok(())
    }

    fn echo(&mut self, first: u64, rounds: u64) -> Result<()> {
        let (Some(subscriber), Some(publisher)) = (&mut self.subscriber, &mut self.publisher)
        else {
            return Err(BenchError::Protocol {
                found: "an echo before the channels were opened".to_owned(),
            });
        };
        let spins = self.spins;
        for sequence in first..first + rounds {
            let mut limit = Limit::new();
            let sent = receive(
                subscriber,
                spins,
                || limit.spend(),
                |message| {
                    if payload::check(message).is_none_or(|stamp| stamp.sequence != sequence) {
                        return Err(BenchError::Wrong { sequence });
                    }
                    Ok(publisher.offer(message)?)
                },
            );
            sent??;
        }
        Ok(())
    }

    fn consume(&mut self, first: u64, count: u64, timed: bool) -> Result<(u64, Option<Snapshot>)> {
        let Some(subscriber) = &mut self.subscriber else {
            return Err(BenchError::Protocol {
                found: "a message before the channel was opened".to_owned(),
            });
        };
        let mut samples = Vec::with_capacity(if timed {
            usize::try_from(count).unwrap_or(0)
        } else {
            0
        });
        let mut next = first;
        let end = first + count;
        let mut wrong = None;
        let mut limit = Limit::new();
        while next != end {
            let room = usize::try_from(end - next)
                .unwrap_or(usize::MAX)
                .min(POLL_LIMIT);
            let taken = if timed {
                subscriber.poll(
                    |message| {
                        take(&message, &mut next, &mut wrong, |stamp| {
                            samples.push(TickClock::ticks().saturating_sub(stamp.ticks));
                        })
                    },
                    room,
                )?
            } else {
                subscriber.poll(
                    |message| take(&message, &mut next, &mut wrong, |_| ()),
                    room,
                )?
            };
            if let Some(sequence) = wrong {
                return Err(BenchError::Wrong { sequence });
            }
            if taken == 0 {
                subscriber.wait(WAIT_STEP)?;
                limit.check()?;
            } else {
                limit.renew();
            }
        }
        let end_ticks = TickClock::ticks();
        subscriber.release();
        let latency = timed.then(|| {
            let mut latency = Latency::new();
            samples.iter().for_each(|&ticks| latency.record(ticks));
            latency.snapshot()
        });
        Ok((end_ticks, latency))
    }
}

/// Checks one message in order; the first wrong one is noted.
#[inline(always)]
fn take(message: &Message<'_>, next: &mut u64, wrong: &mut Option<u64>, note: impl FnOnce(Stamp)) {
    match payload::check(message) {
        Some(stamp) if stamp.sequence == *next => note(stamp),
        _ => *wrong = wrong.or(Some(*next)),
    }
    *next += 1;
}

/// Receives one message: what `handle` makes of it. `spend` is asked between looks whether to go on.
///
/// A spinning subscriber polls without a pause, as a latency-bound program does; others wait by their strategy.
#[inline(always)]
pub(crate) fn receive<T>(
    subscriber: &mut Subscriber,
    spins: bool,
    mut spend: impl FnMut() -> Result<()>,
    mut handle: impl FnMut(&Message<'_>) -> T,
) -> Result<T> {
    let mut result = None;
    loop {
        subscriber.poll(|message| result = Some(handle(&message)), 1)?;
        if let Some(result) = result {
            return Ok(result);
        }
        if !spins {
            subscriber.wait(WAIT_STEP)?;
        }
        spend()?;
    }
}

/// Bounds a wait of this process; that the other one lives is seen by the thread on standard input.
struct Limit {
    left: u32,
    give_up_ns: Option<u64>,
}

impl Limit {
    fn new() -> Self {
        Self {
            left: SPINS_BETWEEN_LOOKS,
            give_up_ns: None,
        }
    }

    #[inline(always)]
    fn spend(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = SPINS_BETWEEN_LOOKS;
            return self.check();
        }
        Ok(())
    }

    #[inline(always)]
    fn renew(&mut self) {
        self.give_up_ns = None;
    }

    #[cold]
    fn check(&mut self) -> Result<()> {
        let now = clock::monotonic_ns();
        let limit = u64::try_from(ANSWER_MAX.as_nanos()).unwrap_or(u64::MAX);
        if now > *self.give_up_ns.get_or_insert(now + limit) {
            return Err(BenchError::PeerSilent {
                seconds: ANSWER_MAX.as_secs(),
            });
        }
        Ok(())
    }
}

/// Whether the endpoints of this URI spin.
pub(crate) fn spins(uri: &str) -> bool {
    uri.contains("wait=spin")
}

/// Whether a send was refused only because there is no room yet.
pub(crate) fn is_back_pressure(error: NotSent) -> bool {
    matches!(error, NotSent::BackPressured | NotSent::NotConnected)
}
