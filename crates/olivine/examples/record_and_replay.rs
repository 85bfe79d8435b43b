//! Records messages in a journal, and replays them from the beginning.
//!
//! Argument: the folder of the journal; by default the system's temporary folder.

use olivine::{Config, Publisher, ReceiveError, Scheme, Subscriber};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1);
    let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("olivine-ticks-{}.olv", std::process::id()));
    // The URI `file:///PATH`, for a path with any characters.
    let journal = Config::new(Scheme::File, "ticks").file(|file| file.path(&path));

    let ticks = ["bid 101", "ask 103", "trade 102"];
    let mut publisher = Publisher::open_with(&journal)?;
    for tick in ticks {
        publisher.publish(tick)?;
    }
    // Returns when the messages are in the file and the recording is finished.
    publisher.close()?;

    // Each subscriber of a journal begins at its oldest message, and has a place that is separate
    // from those of others.
    for _ in 0..2 {
        let mut subscriber = Subscriber::open_with(&journal)?;
        let mut replayed = Vec::new();
        loop {
            match subscriber.receive() {
                Ok(tick) => replayed.push(tick.to_vec()),
                Err(ReceiveError::Closed) => break,
                Err(error) => return Err(error.into()),
            }
        }
        assert_eq!(replayed, ticks.map(|tick| tick.as_bytes().to_vec()));
        println!("replayed {} messages", replayed.len());
    }
    std::fs::remove_file(path)?;
    Ok(())
}
