//! Recording into a journal, compared with writing as many bytes into a file, with the same syncs.
//!
//! Timed: from the first message to the return of `close`, after which everything is on the disk as
//! the policy says. Afterwards every message is replayed and checked.

use super::{Field, Part, Plan, Target, count_in, publish_all, rate, read_back};
use crate::clock::TickClock;
use crate::error::{Result, io};
use crate::payload::{self, Stamp};
use crate::result::{Figures, Parameters};
use crate::scenario::Setup;
use std::fs::File;
use std::io::Write;
use std::path::Path;

const SIZE: usize = 8192;
/// Messages that a second of a run records, whatever the disk: 256 MB.
const PER_S: f64 = 256e6 / SIZE as f64;
/// Bytes per write of the reference file, between two syncs if each is synced: the most that a
/// recorder appends before it syncs.
const CHUNK: usize = 4 << 20;
const TARGET: Target = Target::AtLeast(0.8);

/// Settings of the journal, its name and that of the file, and whether each chunk is synced, or
/// all at the end.
const CASES: [(&str, &str, &str, bool); 2] = [
    (
        "sync=block",
        "file:// sync=block",
        "disk, a sync each 4 MiB",
        true,
    ),
    (
        "sync=interval:1h",
        "file:// sync at the end",
        "disk, a sync at the end",
        false,
    ),
];

pub(super) fn enter(field: &mut Field<'_>, plan: &Plan) {
    for (settings, ours, theirs, each) in CASES {
        let parameters = || Parameters {
            settings: settings.to_owned(),
            ..Parameters::pair(SIZE as u64)
        };
        let folder = plan.folder.clone();
        field.add(Part::Disk, ours, parameters(), move |clock, setup| {
            record(clock, setup, &folder, settings)
        });
        let folder = plan.folder.clone();
        field.add(Part::Disk, theirs, parameters(), move |clock, setup| {
            write(clock, setup, &folder, each)
        });
        field.compare(Part::Disk, SIZE as u64, ours, theirs, TARGET);
    }
}

/// A folder that goes with everything in it.
fn place(folder: &Path) -> Result<tempfile::TempDir> {
    let made = tempfile::Builder::new()
        .prefix("olivine-disk-")
        .tempdir_in(folder);
    made.map_err(io("make a temporary folder"))
}

fn record(clock: &TickClock, setup: &Setup, folder: &Path, settings: &str) -> Result<Figures> {
    let count = count_in(setup, PER_S);
    let folder = place(folder)?;
    let journal = format!("file://{}", folder.path().join("bench.olv").display());
    let uri = format!("{journal}?{settings}&capacity=8MiB&linger=60s");
    let figures = publish_all(clock, &uri, SIZE, count, |publisher| {
        publisher.close()?;
        Ok(None)
    })?;
    read_back(&format!("{journal}?from=oldest"), count)?;
    Ok(figures)
}

fn write(clock: &TickClock, setup: &Setup, folder: &Path, each: bool) -> Result<Figures> {
    let count = count_in(setup, PER_S);
    let folder = place(folder)?;
    let mut bytes = vec![0; CHUNK];
    let start = TickClock::ticks();
    let mut put = || -> std::io::Result<()> {
        let mut file = File::create(folder.path().join("bench.olv"))?;
        let mut numbers = (0..count).peekable();
        while numbers.peek().is_some() {
            let mut filled = 0;
            for (place, sequence) in bytes.chunks_exact_mut(SIZE).zip(&mut numbers) {
                payload::fill(place, Stamp { sequence, ticks: 0 });
                filled += SIZE;
            }
            file.write_all(&bytes[..filled])?;
            if each {
                file.sync_data()?;
            }
        }
        file.sync_data()
    };
    put().map_err(io("write a file"))?;
    Ok(rate(clock, count, start))
}
