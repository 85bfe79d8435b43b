//! Can anything be faster than the plain cache line? The floor's ping-pong, a number between two
//! CPUs, in alternating variants: fewer polls, later polls, and a walk through fresh lines like in
//! a ring.
//!
//! `cargo run --release -p olivine-bench --example looks -- 31` runs 31 turns; `docs/method.md` has
//! the results.

use olivine_bench::clock::TickClock;
use olivine_bench::cpus;
use olivine_bench::spread::Spread;
use olivine_bench::text::{nanos, three_figures};
use olivine_bench::words::SharedWords;
use std::error::Error;
use std::hint::spin_loop;
use std::sync::Barrier;

/// Round trips of a slice.
const ROUNDS: u64 = 5_000;
/// Words of a walk in each direction: as many lines as fit a first-level cache with some space
/// left.
const WALKED: u64 = 64;

/// Variant of the ping-pong.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    /// Pauses between two polls.
    between: u32,
    /// Pauses between sending and the first poll.
    before: u32,
    /// Whether each number uses the next line, in a circle.
    walks: bool,
    /// Whether the next line is written right after sending, which makes it ours.
    early: bool,
}

const TIGHT: Way = Way {
    name: "one line, asks as often as it can (the floor)",
    between: 0,
    before: 0,
    walks: false,
    early: false,
};
const WALK: Way = Way {
    name: "a fresh line for each number",
    walks: true,
    ..TIGHT
};

#[rustfmt::skip]
const WAYS: [Way; 11] = [
    TIGHT,
    Way { name: "one line, 1 pause between two looks", between: 1, ..TIGHT },
    Way { name: "one line, 2 pauses between two looks", between: 2, ..TIGHT },
    Way { name: "one line, 4 pauses between two looks", between: 4, ..TIGHT },
    Way { name: "one line, 1 pause before the first look", before: 1, ..TIGHT },
    Way { name: "one line, 2 pauses before the first look", before: 2, ..TIGHT },
    Way { name: "one line, 4 pauses before the first look", before: 4, ..TIGHT },
    WALK,
    Way { name: "a fresh line, taken early", early: true, ..WALK },
    Way { name: "a fresh line, 1 pause between two looks", between: 1, ..WALK },
    Way { name: "a fresh line, taken early, 1 pause between", early: true, between: 1, ..WALK },
];

/// One side: it writes the words from `ours` on in steps of 2.
struct Driver<'a> {
    words: &'a SharedWords,
    way: Way,
    ours: usize,
}

impl Driver<'_> {
    /// The word of number `ball` in the direction that begins at `first`.
    fn place(&self, first: usize, ball: u64) -> usize {
        let step = if self.way.walks { ball % WALKED } else { 0 };
        first + 2 * usize::try_from(step).unwrap_or(0)
    }

    fn send(&self, ball: u64) {
        self.words.store(self.place(self.ours, ball), ball);
        if self.way.early {
            self.words.store(self.place(self.ours, ball + 1), 0);
        }
    }

    /// Waits for `ball` and returns when it was seen.
    fn await_ball(&self, ball: u64) -> u64 {
        let place = self.place(1 - self.ours, ball);
        while self.words.load(place) != ball {
            pauses(self.way.between);
        }
        TickClock::ticks()
    }
}

fn pauses(count: u32) {
    (0..count).for_each(|_| spin_loop());
}

/// Results of a slice, in ticks.
#[derive(Clone, Copy, Debug)]
struct Slice {
    round: f64,
    /// From sending to seeing on the other side, and back.
    halves: [f64; 2],
}

#[allow(clippy::cast_precision_loss, reason = "differences of ticks are small")]
fn middle(mut samples: Vec<u64>) -> f64 {
    samples.sort_unstable();
    samples
        .get(samples.len() / 2)
        .map_or(0.0, |&middle| middle as f64)
}

/// Sends first; `seen` will be the other side's times.
fn ask(driver: &Driver<'_>, first: u64) -> [Vec<u64>; 2] {
    let mut sent = Vec::new();
    let mut answered = Vec::new();
    for ball in first..first + ROUNDS {
        sent.push(TickClock::ticks());
        driver.send(ball);
        pauses(driver.way.before);
        answered.push(driver.await_ball(ball));
    }
    [sent, answered]
}

fn answer(driver: &Driver<'_>, first: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    for ball in first..first + ROUNDS {
        seen.push(driver.await_ball(ball));
        driver.send(ball);
        pauses(driver.way.before);
    }
    seen
}

fn differences(from: &[u64], to: &[u64]) -> Vec<u64> {
    let pairs = from.iter().zip(to);
    pairs.map(|(from, to)| to.wrapping_sub(*from)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let turns: usize = match std::env::args().nth(1) {
        Some(words) => words.parse()?,
        None => 31,
    };
    let allowed = cpus::allowed();
    let [one, other, ..] = allowed.as_slice() else {
        println!("two CPUs are needed, one is allowed");
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("words");
    let words = SharedWords::create(&path, 2 * 64)?;
    let barrier = Barrier::new(2);
    let mut slices: Vec<Vec<Slice>> = vec![Vec::new(); WAYS.len()];
    let clock = TickClock::calibrate();
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let answering = scope.spawn(|| {
            cpus::pin(*other)?;
            let words = SharedWords::attach(&path)?;
            let mut seen = Vec::new();
            for (number, way) in (0..).zip(WAYS.iter().cycle().take(turns * WAYS.len())) {
                barrier.wait();
                let driver = Driver {
                    words: &words,
                    way: *way,
                    ours: 1,
                };
                seen.push(answer(&driver, 1 + number * ROUNDS));
                barrier.wait();
            }
            Ok::<_, std::io::Error>(seen)
        });
        cpus::pin(*one)?;
        let mut asked = Vec::new();
        for (number, way) in (0..).zip(WAYS.iter().cycle().take(turns * WAYS.len())) {
            barrier.wait();
            let driver = Driver {
                words: &words,
                way: *way,
                ours: 0,
            };
            asked.push(ask(&driver, 1 + number * ROUNDS));
            barrier.wait();
        }
        let seen = answering
            .join()
            .map_err(|_| "the other thread panicked")??;
        for (number, ([sent, answered], seen)) in asked.iter().zip(&seen).enumerate() {
            slices[number % WAYS.len()].push(Slice {
                round: middle(differences(sent, answered)),
                halves: [
                    middle(differences(sent, seen)),
                    middle(differences(seen, answered)),
                ],
            });
        }
        Ok(())
    })?;
    println!(
        "{:<44} {:>8} {:>8} {:>8}  {:<20}",
        "p50, medians of the turns", "round", "there", "back", "to the floor"
    );
    for (way, found) in WAYS.iter().zip(&slices) {
        let of = |pick: fn(&Slice) -> f64| {
            let values: Vec<f64> = found.iter().map(pick).collect();
            let ticks = Spread::of(&values).map_or(0.0, |spread| spread.median);
            nanos(ticks / clock.ticks_per_ns())
        };
        let pairs = found.iter().zip(&slices[0]);
        let ratios: Vec<f64> = pairs.map(|(one, floor)| one.round / floor.round).collect();
        let ratio = Spread::of(&ratios).map_or_else(String::new, |ratio| {
            let [median, min, max] = [ratio.median, ratio.min, ratio.max].map(three_figures);
            format!("{median} ({min} to {max})")
        });
        println!(
            "{:<44} {:>8} {:>8} {:>8}  {ratio:<20}",
            way.name,
            of(|slice| slice.round),
            of(|slice| slice.halves[0]),
            of(|slice| slice.halves[1]),
        );
    }
    Ok(())
}
