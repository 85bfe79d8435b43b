//! Recording into a journal, compared with writing as many bytes into a file, with the same syncs.
//!
//! Timed: from the first message to the return of `close`, after which everything is on the disk as
//! the policy says. Afterwards every message is replayed and checked.

use super::{Field, Part, Plan, Resources, Target, count_in, rate, read_back};
use crate::clock::TickClock;
use crate::error::{Result, io};
use crate::method::publish;
use crate::payload::{self, Stamp};
use crate::result::{Figures, Parameters};
use olivine::Publisher;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIZE: usize = 8192;
/// Bytes that a second of a run records, whatever the disk.
const BYTES_PER_S: f64 = 256e6;
const RECORD_MAX: Duration = Duration::from_secs(60);
/// Bytes per write of the reference file, between two syncs if each is synced: the most that a
/// recorder appends before it syncs.
const CHUNK: usize = 4 << 20;
const TARGET: Target = Target::AtLeast(0.8);

/// When the disk is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// After each block.
    Block,
    /// Once, at the end.
    End,
}

impl Sync {
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Block => (
                "sync=block",
                "file:// sync=block",
                "disk, a sync each 4 MiB",
            ),
            Self::End => (
                "sync=interval:1h",
                "file:// sync at the end",
                "disk, a sync at the end",
            ),
        }
    }
}

pub(super) fn enter(field: &mut Field<'_>, plan: &Plan) {
    for sync in [Sync::Block, Sync::End] {
        let (settings, ours, theirs) = sync.words();
        let parameters = || Parameters {
            settings: settings.to_owned(),
            ..Parameters::pair(SIZE as u64)
        };
        let folder = plan.folder.clone();
        field.add(Part::Disk, ours, parameters(), move |turn| {
            record(turn, &folder, settings)
        });
        let folder = plan.folder.clone();
        field.add(Part::Disk, theirs, parameters(), move |turn| {
            write(turn, &folder, sync)
        });
        field.compare(Part::Disk, SIZE as u64, ours, theirs, TARGET);
    }
}

/// A folder that goes with everything in it.
fn place(folder: &Path) -> Result<(tempfile::TempDir, PathBuf)> {
    let made = tempfile::Builder::new()
        .prefix("olivine-disk-")
        .tempdir_in(folder)
        .map_err(io("make a temporary folder"))?;
    let file = made.path().join("bench.olv");
    Ok((made, file))
}

#[allow(clippy::cast_precision_loss, reason = "a constant far below 2^52")]
fn count(turn: &Resources<'_>) -> u64 {
    count_in(turn.seconds(), BYTES_PER_S / SIZE as f64)
}

fn record(turn: &mut Resources<'_>, folder: &Path, settings: &str) -> Result<Figures> {
    let count = count(turn);
    let (_folder, path) = place(folder)?;
    let path = path.display();
    let uri = format!("file://{path}?{settings}&capacity=8MiB&linger=60s");
    let mut publisher = Publisher::open(&uri)?;
    let start = TickClock::ticks();
    for sequence in 0..count {
        let stamp = Stamp { sequence, ticks: 0 };
        publish(&mut publisher, SIZE, stamp, Some(RECORD_MAX))?;
    }
    publisher.close()?;
    let end = TickClock::ticks();
    read_back(&format!("file://{path}?from=oldest"), count, RECORD_MAX)?;
    Ok(Figures::rate(rate(&turn.clock, count, start, end)))
}

fn write(turn: &mut Resources<'_>, folder: &Path, sync: Sync) -> Result<Figures> {
    let count = count(turn);
    let (_folder, path) = place(folder)?;
    let mut bytes = vec![0; CHUNK];
    let start = TickClock::ticks();
    let mut sequence = 0;
    let mut put = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        while sequence < count {
            let mut filled = 0;
            for place in bytes.chunks_exact_mut(SIZE) {
                if sequence == count {
                    break;
                }
                payload::fill(place, Stamp { sequence, ticks: 0 });
                sequence += 1;
                filled += SIZE;
            }
            file.write_all(&bytes[..filled])?;
            if sync == Sync::Block {
                file.sync_data()?;
            }
        }
        file.sync_data()
    };
    put().map_err(io("write a file"))?;
    let end = TickClock::ticks();
    Ok(Figures::rate(rate(&turn.clock, count, start, end)))
}
