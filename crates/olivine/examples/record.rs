//! Records at full speed, and compares that with writing a plain file of the same length to the
//! same disk.
//!
//! Arguments: MiB to write each time, and a folder on the disk; by default 16, and the system's
//! temporary folder. On a shared machine the speed of the disk changes from second to second. So
//! the two alternate, and the best of three counts for both.

use olivine::journal::{Lane, Recorder, RecorderSettings};
use olivine::{Config, Publisher, Scheme, SyncPolicy};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const ROUNDS: usize = 3;

type Measured = Result<Duration, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mebibytes = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("olivine-record-{}", std::process::id()));

    let policies = [
        SyncPolicy::Block,
        SyncPolicy::Interval(Duration::from_secs(1)),
        SyncPolicy::Never,
    ];
    let mut plain = Vec::new();
    let mut recorded = vec![Vec::new(); policies.len() * 2];
    for _ in 0..ROUNDS {
        for (index, policy) in policies.into_iter().enumerate() {
            plain.push(write_plain(&path, mebibytes)?);
            recorded[index * 2].push(record(&path, mebibytes, policy)?);
            recorded[index * 2 + 1].push(publish(&path, mebibytes, policy)?);
        }
    }
    let speed = |times: &[Duration]| {
        let best = times.iter().min().copied().unwrap_or_default();
        f64::from(u32::try_from(mebibytes).unwrap_or(u32::MAX)) / best.as_secs_f64()
    };
    let disk = speed(&plain);
    println!("plain file, then fdatasync      {disk:7.0} MiB/s");
    for (index, policy) in policies.into_iter().enumerate() {
        for (half, how) in ["recorder alone", "publisher to journal"]
            .iter()
            .enumerate()
        {
            let found = speed(&recorded[index * 2 + half]);
            println!(
                "{how:20} {policy:>11} {found:6.0} MiB/s, {:.2} of the plain file",
                found / disk
            );
        }
    }
    Ok(())
}

/// Writes a file in pieces of 1 MiB and forces it to the disk.
fn write_plain(path: &Path, mebibytes: usize) -> Measured {
    let piece = vec![0x5a; MIB];
    let started = Instant::now();
    let mut file = std::fs::File::create(path)?;
    for _ in 0..mebibytes {
        file.write_all(&piece)?;
    }
    file.sync_data()?;
    let took = started.elapsed();
    std::fs::remove_file(path)?;
    Ok(took)
}

/// Records runs of 1 MiB from memory. With every policy, everything is on the disk at the end.
fn record(path: &Path, mebibytes: usize, policy: SyncPolicy) -> Measured {
    // Frames of 1 KiB with their headers.
    let mut frame = vec![0x5a; 1024];
    frame[..8].copy_from_slice(&1024_u64.to_le_bytes());
    let run = frame.repeat(MIB / frame.len());
    let started = Instant::now();
    let mut recorder = Recorder::open(path, &RecorderSettings::default().sync(policy))?;
    let lane = recorder.lane(&Lane::new("speed", 0, 8, 1))?;
    for n in 0..mebibytes {
        recorder.append(lane, (n * MIB) as u64, n as u64, &run)?;
        if n % 4 == 3 {
            recorder.flush()?;
        }
    }
    recorder.close()?;
    finish(path, started)
}

/// Publishes messages of 1 KiB into `file://`; closing returns when they are recorded.
fn publish(path: &Path, mebibytes: usize, policy: SyncPolicy) -> Measured {
    let config = Config::new(Scheme::File, "speed")
        .file(|file| file.path(path).sync(policy))
        .capacity(16 << 20);
    let message = [0x5a; 1016];
    let started = Instant::now();
    let mut publisher = Publisher::open_with(&config)?;
    for _ in 0..mebibytes * 1024 {
        publisher.publish(&message)?;
    }
    publisher.close()?;
    finish(path, started)
}

/// Forces the rest to the disk, so that all policies do the same work, and removes the file.
fn finish(path: &Path, started: Instant) -> Measured {
    std::fs::File::open(path)?.sync_data()?;
    let took = started.elapsed();
    std::fs::remove_file(path)?;
    Ok(took)
}
