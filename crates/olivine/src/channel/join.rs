//! Joining: a subscriber takes a slot and a position in every lane. From then on it misses no
//! message.

use super::attached::Attached;
use super::slots::{self, Found, MissedBytes};
use super::status::Durable;
use crate::error::OpenError;
use crate::region::{Ring, Word, Words};
use crate::ring::consume::{Consumer, GateWords, committed_up_to};
use crate::ring::gate::{clear_slot, join_lane, set_bit};
use crate::ring::layout::{Geometry, control, lane, lane_entry, slot as slot_word};
use crate::sync::Ordering;
use crate::uri::{Config, Delivery, Start};
use crate::wait::wake;

/// The result of joining.
pub(super) struct Admission {
    pub(super) slot: usize,
    pub(super) lanes: Vec<Consumer>,
    /// The state of its durable name.
    pub(super) durable: Option<Durable>,
    /// Its first receiving call must report that its place was lost.
    pub(super) must_report: bool,
}

/// Joins every lane of the channel. Runs under the membership lock, so no lane comes or goes
/// meanwhile.
pub(super) fn join(attached: &Attached, config: &Config) -> Result<Admission, OpenError> {
    let Attached {
        channel,
        backing,
        control,
        geometry,
        locks,
        ..
    } = attached;
    let claimed = slots::claim(control, geometry, locks, config, channel, backing.path())?;
    crate::points::pass("join.claimed");
    let joined = join_lanes(attached, config, claimed);
    crate::points::pass("join.gating");
    if joined.is_err() && claimed.found == Found::Nothing {
        clear_slot(control, geometry, claimed.index);
    }
    let (lanes, place_changed) = joined?;
    let (durable, must_report) = match &config.name {
        Some(_) => {
            let (durable, must_report) =
                slots::durable_status(control, geometry, claimed, place_changed);
            (Some(durable), must_report)
        }
        None => (None, false),
    };
    slots::attach(control, geometry, claimed.index, config.name.is_some());
    crate::points::pass("join.attached");
    // Relaxed: under the membership lock.
    control
        .word(control::SUBSCRIBERS_EVER)
        .fetch_add(1, Ordering::Relaxed);
    Ok(Admission {
        slot: claimed.index,
        lanes,
        durable,
        must_report,
    })
}

/// The position of a durable name in one lane, from its slot. Any participant could have written
/// that word, so it is checked before it is used.
struct StoredPosition {
    position: u64,
    /// A frame of this channel may start there: the position is aligned, and between the origin and
    /// the lane's end.
    is_valid: bool,
}

impl StoredPosition {
    fn of(position: u64, geometry: &Geometry, cursor: &Word) -> Self {
        // A publisher that died before it stored its cursor is less than a ring ahead of it.
        let end = cursor
            .load(Ordering::Acquire)
            .saturating_add(geometry.capacity);
        let is_valid =
            position.is_multiple_of(geometry.align) && (geometry.origin..=end).contains(&position);
        Self { position, is_valid }
    }

    /// The position, if every frame after it is still in the ring: the publisher's limit is at most
    /// one ring ahead of it. A limit that is stored but not used yet counts, as in `join_lane`.
    /// Then messages from before the join may be given up although they are still there. They are
    /// counted and reported.
    fn resume(&self, ring: &Ring, lane: &Words, geometry: &Geometry) -> Option<u64> {
        if !self.is_valid {
            return None;
        }
        let cursor = lane.resolve(lane::CURSOR);
        let start = committed_up_to(ring, &cursor, geometry, self.position);
        // Acquire: the limit makes the frames before it visible.
        let limit = lane.word(lane::LIMIT).load(Ordering::Acquire);
        let is_kept = limit <= self.position.saturating_add(geometry.capacity);
        (is_kept && start == self.position).then_some(start)
    }
}

/// Takes a position in every lane. Also returns whether a position of a durable name was not as the
/// name had left it.
fn join_lanes(
    attached: &Attached,
    config: &Config,
    claimed: slots::Claimed,
) -> Result<(Vec<Consumer>, bool), OpenError> {
    let Attached {
        backing,
        control,
        geometry,
        ..
    } = attached;
    let gates = config.delivery == Delivery::Reliable;
    let mut present = Vec::new();
    for index in 0..geometry.lanes() {
        if control
            .word(geometry.lane_entry(index) + lane_entry::PRESENT)
            .load(Ordering::Acquire)
            == 0
        {
            continue;
        }
        let Some(mapped) = backing.open_lane(&attached.lane(index), false, config.hugepages)?
        else {
            return Err(OpenError::NotAChannel {
                path: backing.path().join(crate::segment::lane_name(index)),
                problem: "it is missing; remove the channel with 'olivine rm --force'".into(),
            });
        };
        present.push((index, mapped));
    }
    let position_word = |lane: usize| control.word(geometry.position(claimed.index, lane));
    let resumed = claimed.found == Found::Place;
    let lost_place = claimed.found == Found::LostPlace;
    if gates && claimed.found == Found::Nothing {
        for lane in 0..geometry.lanes() {
            // The subscriber gets a future lane from its first frame on. Release: with the bit
            // below.
            position_word(lane).store(geometry.origin, Ordering::Release);
        }
    }
    let missed = MissedBytes::of(control, geometry, claimed.index);
    let mut consumers = Vec::new();
    let mut starts = Vec::new();
    let mut place_changed = false;
    for (index, (words, ring)) in &present {
        let (cursor, limit) = (words.resolve(lane::CURSOR), words.resolve(lane::LIMIT));
        let word = position_word(*index);
        let stored = StoredPosition::of(word.load(Ordering::Acquire), geometry, &cursor);
        place_changed |= (resumed || lost_place) && !stored.is_valid;
        let kept_start = (resumed || lost_place)
            .then(|| stored.resume(ring, words, geometry))
            .flatten();
        if resumed && let Some(start) = kept_start {
            word.store(start, Ordering::Release);
            starts.push(start);
            continue;
        }
        // The place does not gate, or it is not valid.
        place_changed |= resumed;
        let lost_place = lost_place || resumed;
        let oldest = || {
            let limit = limit.load(Ordering::Acquire);
            limit.saturating_sub(geometry.capacity).max(geometry.origin)
        };
        let start = || match config.from {
            // Frames that are still in the ring after a lost place were not missed.
            _ if lost_place => stored.resume(ring, words, geometry).unwrap_or_else(oldest),
            Start::Oldest => oldest(),
            // CURSOR (acquire): frames before it are not ours, those after it are. Times and
            // positions are for journals; settings of rings do not contain them.
            Start::Now | Start::Time(_) | Start::Position(_) => cursor.load(Ordering::Acquire),
        };
        let mut before = if stored.is_valid {
            stored.position
        } else {
            geometry.origin
        };
        let store = |position: u64| {
            if lost_place {
                missed.add(position.saturating_sub(before));
                before = position;
                crate::points::pass("join.missed_counted");
            }
            word.store(position, Ordering::Release);
            set_bit(control, control::GATING, claimed.index, true);
        };
        starts.push(if gates {
            // The first store sets the bit too. The later lanes are held at their origin until they
            // are joined.
            let start = join_lane(geometry.capacity, &limit, start, store);
            // ROOM: the publisher may sleep because of a position that was proposed and given up,
            // or because of the origin. Relaxed: after the fence in `join_lane`; `wake` takes the
            // word by read-modify-write (WAKE).
            let park = control.word(geometry.lane_entry(*index) + lane_entry::PARK);
            if park.load(Ordering::Relaxed) != 0 {
                wake(park);
            }
            start
        } else {
            start()
        });
    }
    if gates {
        // Also if there is no lane yet.
        set_bit(control, control::GATING, claimed.index, true);
    }
    for ((index, (words, ring)), start) in present.into_iter().zip(starts) {
        consumers.push(consumer(
            attached,
            config,
            claimed.index,
            index,
            words,
            ring,
            start,
        ));
    }
    Ok((consumers, place_changed))
}

pub(super) fn consumer(
    attached: &Attached,
    config: &Config,
    slot: usize,
    index: usize,
    words: Words,
    ring: Ring,
    start: u64,
) -> Consumer {
    let Attached {
        control, geometry, ..
    } = attached;
    let gate = (config.delivery == Delivery::Reliable).then(|| GateWords {
        position: control.resolve(geometry.position(slot, index)),
        park: control.resolve(geometry.lane_entry(index) + lane_entry::PARK),
        fence: !crate::sync::light_side_is_covered(),
        state: Some(control.resolve(geometry.slot(slot) + slot_word::STATE)),
    });
    Consumer::new(
        ring,
        words,
        geometry,
        index,
        start,
        gate,
        config.name.is_some(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::attach::{self, ShapeRole, TypeTag};
    use crate::channel::publisher::Publisher;
    use crate::error::NotSent;

    /// Its gating bit is set in its first lane. In the second lane it would start after messages
    /// that are sent meanwhile.
    #[test]
    fn joining_subscriber_does_not_end_wait_for_subscribers() {
        let config = Config::parse("inproc://joining?subscribers=1").unwrap();
        let open = || Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
        let mut publishers: [Publisher; 2] = [open(), open()];
        let (attached, slot) =
            attach::open(&config, &TypeTag::default(), ShapeRole::Names, |attached| {
                let Attached {
                    channel,
                    backing,
                    control,
                    geometry,
                    locks,
                    ..
                } = attached;
                let claimed =
                    slots::claim(control, geometry, locks, &config, channel, backing.path())?;
                set_bit(control, control::GATING, claimed.index, true);
                Ok(claimed.index)
            })
            .unwrap();
        for publisher in &mut publishers {
            assert_eq!(
                publisher.try_publish(b"too early"),
                Err(NotSent::NotConnected)
            );
            assert_eq!(publisher.count_subscribers(), 0);
        }
        slots::attach(&attached.control, &attached.geometry, slot, false);
        for publisher in &mut publishers {
            assert_eq!(publisher.count_subscribers(), 1);
            publisher.try_publish(b"in time").unwrap();
        }
    }

    /// The result for the name `n` that returns, after the position of its slot in lane 0 was set
    /// to `word`. It had read the first `read` of `sent` messages of 32 bytes each with their
    /// headers.
    fn come_back(
        name: &str,
        read: u64,
        sent: u64,
        word: impl Fn(u64) -> u64,
    ) -> (Durable, Vec<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("channels");
        let plain = Config::parse(&format!("shm://{name}?capacity=4KiB&dir={}", dir.display()));
        let plain = plain.unwrap().origin(65536);
        let named = plain.clone().name("n");
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let mut publisher = Publisher::open_with(&plain).unwrap();
        let mut first = crate::Subscriber::open_with(&named).unwrap();
        for n in 0..sent {
            let mut message = [0; 24];
            message[..8].copy_from_slice(&n.to_le_bytes());
            publisher.try_publish(&message).unwrap();
            if n < read {
                assert_eq!(number(&first.try_receive().unwrap().unwrap()), n);
            }
        }
        let (control, geometry) = {
            let Attached {
                control, geometry, ..
            } = first.attached();
            (control.clone(), geometry.clone())
        };
        let slot = first.slot();
        first.close();
        let position = control.word(geometry.position(slot, 0));
        let stored = position.load(Ordering::Relaxed);
        assert_eq!(stored, geometry.origin + read * 32);
        position.store(word(stored), Ordering::Relaxed);
        let mut again = crate::Subscriber::open_with(&named).unwrap();
        let durable = again.durable().unwrap();
        if matches!(durable, Durable::LostPlace { .. }) {
            let receives = again.try_receive().map(|_| ());
            assert!(
                matches!(receives, Err(crate::ReceiveError::Evicted)),
                "{receives:?}"
            );
        }
        let mut found = Vec::new();
        while let Some(message) = again.try_receive().unwrap() {
            found.push(number(&message));
        }
        again.unsubscribe();
        (durable, found)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no ring twice")]
    fn changed_durable_position_is_lost_place() {
        // As it was left.
        let (durable, found) = come_back("kept", 3, 10, |stored| stored);
        assert_eq!((durable, found), (Durable::Resumed, (3..10).collect()));
        // Within a frame, before the first, after the last, more than a ring ahead of the
        // publisher: reading goes on with the oldest message. Nothing was missed, and the loss is
        // reported nevertheless.
        for word in [
            |stored: u64| stored + 4,
            |stored| stored - 1,
            |_| 0,
            |_| 65536 - 4096,
            |stored| stored + 4096,
            |_| (1 << 62) + 8,
            |_| u64::MAX - 7,
        ] {
            let (durable, found) = come_back("nobodys", 3, 10, word);
            let Durable::LostPlace { bytes } = durable else {
                panic!("{:x}: {durable:?}", word(65536 + 96));
            };
            assert_eq!(
                (bytes, found),
                (0, (0..10).collect()),
                "{:x}",
                word(65536 + 96)
            );
        }
        // The publisher was allowed to write since then: what is gone is counted.
        let (durable, found) = come_back("behind", 400, 410, |_| 65536);
        let Durable::LostPlace { bytes } = durable else {
            panic!("{durable:?}");
        };
        let first = bytes / 32;
        assert!(first > 400 - 4096 / 32 && first <= 400, "{bytes}");
        assert_eq!(found, (first..410).collect::<Vec<_>>());
    }
}
