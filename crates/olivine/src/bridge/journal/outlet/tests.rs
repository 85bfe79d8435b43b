//! A recorder that ends while a block is being synced.

use super::*;
use crate::Publisher;
use crate::channel::attach::ShapeRole;
use std::sync::mpsc::{Sender, channel};

/// Bytes of the frame of one message.
const FRAME: u64 = 32;

/// Records `ring` at `path`. Each sync waits for its outcome from the test.
fn recording(ring: &Config, path: &Path) -> (Recording, Sender<Result<(), Errno>>) {
    let settings = RecorderSettings::default().sync(SyncPolicy::Block);
    let (outcomes, taken) = channel();
    let syncer = Syncer::start_with(path, move |_| taken.recv().unwrap_or(Err(Errno::CANCELED)));
    let mut recorder = Recorder::open(path, &settings).unwrap();
    recorder.finish_only_by_close();
    let recording = Recording {
        egress: Egress::open(ring, ShapeRole::Names).unwrap(),
        recorder,
        syncer: syncer.unwrap(),
        syncing: None,
        channel: "ticks".to_owned(),
        lanes: Vec::new(),
        naps: NAP_MAX,
    };
    (recording, outcomes)
}

/// One publisher fails while a block of the other is being synced. Without the sync's outcome the
/// next recorder would find the block in memory and confirm its messages.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn block_whose_sync_fails_while_a_publisher_fails_is_recorded_again() {
    for (outcome, recorded) in [(Err(Errno::IO), 0), (Ok(()), FRAME)] {
        for is_run in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("torn.olv");
            let dir = folder.path().join("channels");
            let config = format!("shm://torn?dir={}", dir.display());
            let config = Config::parse(&config).unwrap();
            let ring = config.clone().name("archive");
            let (mut recording, outcomes) = recording(&ring, &path);
            let failing = Publisher::open_with(&config).unwrap();
            let mut sending = Publisher::open_with(&config).unwrap();
            sending.publish(&[7; 24]).unwrap();
            let control = Control::new().unwrap();
            assert_eq!(recording.pass(&control).unwrap(), FRAME);
            assert!(recording.syncing.is_some());
            failing.close_failed("torn").unwrap();
            outcomes.send(outcome).unwrap();
            // It looks for failures before it collects the outcome.
            let error = if is_run {
                recording.run(&control, false).unwrap_err()
            } else {
                let error = recording.pass(&control).unwrap_err();
                drop(recording);
                error
            };
            let expected = match outcome {
                Err(_) if is_run => "force to the disk",
                _ => "torn",
            };
            let error = format!("{error:?}");
            assert!(error.contains(expected), "{error}");

            let settings = RecorderSettings::default();
            let recorder = Recorder::open(&path, &settings).unwrap();
            assert_eq!(recorder.position(), recorded, "{outcome:?}, {is_run}");
            let mut egress = Egress::open(&ring, ShapeRole::Names).unwrap();
            let acknowledged = if is_run { recorded } else { 0 };
            assert_eq!(egress.acknowledged(1), acknowledged);
            egress.unsubscribe();
        }
    }
}
