//! The cost of idle subscribers of other channels for a single publisher, measured alternately
//! without and with them.
//!
//! `cargo run --release --example idle_neighbours [NEIGHBOURS [TURNS]]`, by default 256 processes
//! and 4 turns of each kind.

use olivine::{Publisher, Subscriber};
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Messages between two readings of the clock.
const STRIDE: u64 = 16;
/// A stride that takes longer counts as a stall.
const STALL: Duration = Duration::from_micros(4);
/// Length of a turn.
const TURN: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("neighbour") {
        return neighbour(&arguments.next().ok_or("no channel")?);
    }
    let neighbours: usize = first.map_or(Ok(256), |text| text.parse())?;
    let turns: usize = arguments.next().map_or(Ok(4), |text| text.parse())?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!(
        "{neighbours} neighbours, {turns} turns of each kind, load {}",
        load.trim()
    );
    println!("neighbours  messages/s  strides over {STALL:?}  their CPU");
    for _ in 0..turns {
        measure(0)?;
        measure(neighbours)?;
    }
    Ok(())
}

/// Subscribes, reports it, and waits for a message that never comes, until standard input ends.
fn neighbour(channel: &str) -> Result<(), Box<dyn Error>> {
    let uri = format!("shm://{channel}?capacity=4KiB&wait=park");
    let _publisher = Publisher::open(&uri)?;
    let mut subscriber = Subscriber::open(&uri)?;
    println!("ready");
    std::thread::spawn(move || while subscriber.receive().is_ok() {});
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// One turn: starts the neighbours, waits until they sleep, publishes, and prints.
fn measure(neighbours: usize) -> Result<(), Box<dyn Error>> {
    let me = std::process::id();
    let mut children = (0..neighbours)
        .map(|number| {
            let channel = format!("neighbour-{me}-{number}");
            Command::new(std::env::current_exe()?)
                .args(["neighbour", &channel])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<Result<Vec<Child>, _>>()?;
    for child in &mut children {
        let said = child.stdout.take().ok_or("no output")?;
        BufReader::new(said).read_line(&mut String::new())?;
    }
    let mut publisher = Publisher::open(&format!("shm://alone-{me}?capacity=64KiB"))?;
    // Until they sleep.
    std::thread::park_timeout(Duration::from_secs(1));
    let before = cpu(&children);
    let (mut sent, mut stalls) = (0_u64, 0_u64);
    let started = Instant::now();
    let mut last = started;
    while last - started < TURN {
        for _ in 0..STRIDE {
            publisher.publish(&[1; 32])?;
        }
        sent += STRIDE;
        let now = Instant::now();
        stalls += u64::from(now - last > STALL);
        last = now;
    }
    let rate = sent * 1000 / u64::try_from((last - started).as_millis())?;
    println!(
        "{neighbours:10}  {rate:10}  {stalls:10} of {:10}  {} ms",
        sent / STRIDE,
        (cpu(&children) - before) * 10
    );
    for child in &mut children {
        drop(child.stdin.take());
    }
    for child in &mut children {
        child.wait()?;
    }
    Ok(())
}

/// Hundredths of a second of processor time that the processes have used.
fn cpu(children: &[Child]) -> u64 {
    let used = |child: &Child| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ').skip(11);
        let mut next = || fields.next()?.parse::<u64>().ok();
        Some(next()? + next()?)
    };
    children.iter().filter_map(used).sum()
}
