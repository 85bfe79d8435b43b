//! Joining: a subscriber takes a slot and a place in every lane, so that from then on it misses nothing.

use super::attached::Attached;
use super::slots::{self, Found, Missed};
use super::status::Durable;
use crate::error::OpenError;
use crate::region::{Ring, Word, Words};
use crate::ring::consume::{Consumer, GateWords, committed_up_to};
use crate::ring::gate::{clear_slot, join_lane, set_bit};
use crate::ring::layout::{Geometry, control, lane, lane_entry, slot as slot_word};
use crate::sync::Ordering;
use crate::uri::{Config, Delivery, Scheme, Start};
use crate::wait::wake;

/// What a subscriber has once it has joined.
pub(super) struct Admission {
    pub(super) slot: usize,
    pub(super) lanes: Vec<Consumer>,
    /// What a durable one found of its name.
    pub(super) durable: Option<Durable>,
    /// Its first call that receives says that its place was lost.
    pub(super) must_tell: bool,
}

/// Joins every lane of the channel. Runs under the membership lock, so no lane comes or goes meanwhile.
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
    let (lanes, is_doubtful) = joined?;
    let (durable, must_tell) = match &config.name {
        Some(_) => {
            let (durable, must_tell) = slots::news(control, geometry, claimed, is_doubtful);
            (Some(durable), must_tell)
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
        must_tell,
    })
}

/// A durable name's position in one lane, as the slot says it. Any participant could have written that word, so it is
/// checked before it is used.
struct Left {
    position: u64,
    /// A publisher of this channel may have written a frame there: it is aligned, in the lane, and not behind its end.
    is_sound: bool,
}

impl Left {
    fn of(position: u64, geometry: &Geometry, cursor: &Word) -> Self {
        // A publisher that died before it stored its cursor is less than a ring ahead of it.
        let end = cursor
            .load(Ordering::Acquire)
            .saturating_add(geometry.capacity);
        let is_sound =
            position.is_multiple_of(geometry.align) && (geometry.origin..=end).contains(&position);
        Self { position, is_sound }
    }

    /// The position, if everything behind it is still there: the publisher's limit is at most a ring ahead of it. As in
    /// `join_lane`, a limit that a publisher stored and has not used yet counts: what is given up then was sent before
    /// the name joined, and is counted and told.
    fn resume(&self, ring: &Ring, lane: &Words, geometry: &Geometry) -> Option<u64> {
        if !self.is_sound {
            return None;
        }
        let cursor = lane.resolve(lane::CURSOR);
        let start = committed_up_to(ring, &cursor, geometry, self.position);
        // Acquire: with the limit come the frames behind it.
        let limit = lane.word(lane::LIMIT).load(Ordering::Acquire);
        let is_kept = limit <= self.position.saturating_add(geometry.capacity);
        (is_kept && start == self.position).then_some(start)
    }
}

/// Takes a place in every lane. Also says whether a place of a durable name was not as its name had left it.
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
    let lost = claimed.found == Found::LostPlace;
    if gates && claimed.found == Found::Nothing {
        for lane in 0..geometry.lanes() {
            // A lane that does not exist yet will be ours from its very first frame. Release: with the bit below.
            position_word(lane).store(geometry.origin, Ordering::Release);
        }
    }
    let missed = Missed::of(control, geometry, claimed.index);
    let mut consumers = Vec::new();
    let mut starts = Vec::new();
    let mut is_doubtful = false;
    for (index, (words, ring)) in &present {
        let (cursor, limit) = (words.resolve(lane::CURSOR), words.resolve(lane::LIMIT));
        let word = position_word(*index);
        let left = Left::of(word.load(Ordering::Acquire), geometry, &cursor);
        is_doubtful |= (resumed || lost) && !left.is_sound;
        let place = (resumed || lost)
            .then(|| left.resume(ring, words, geometry))
            .flatten();
        if resumed && let Some(start) = place {
            word.store(start, Ordering::Release);
            starts.push(start);
            continue;
        }
        // Where a publisher was not held back at the place, or the place is none.
        is_doubtful |= resumed;
        let lost = lost || resumed;
        let oldest = || {
            let limit = limit.load(Ordering::Acquire);
            limit.saturating_sub(geometry.capacity).max(geometry.origin)
        };
        let start = || match config.from {
            // What is still there behind a place that was lost was not missed.
            _ if lost => left.resume(ring, words, geometry).unwrap_or_else(oldest),
            Start::Oldest => oldest(),
            // CURSOR (acquire): frames before it are not ours, those after it are. Times and positions are for
            // journals, which settings of rings do not name.
            Start::Now | Start::Time(_) | Start::Position(_) => cursor.load(Ordering::Acquire),
        };
        let mut before = if left.is_sound {
            left.position
        } else {
            geometry.origin
        };
        let store = |position: u64| {
            if lost {
                missed.add(position.saturating_sub(before));
                before = position;
                crate::points::pass("join.missed_counted");
            }
            word.store(position, Ordering::Release);
            set_bit(control, control::GATING, claimed.index, true);
        };
        starts.push(if gates {
            // The first store sets the bit too; the lanes after it hold at their origin until they are joined.
            let start = join_lane(geometry.capacity, &limit, start, store);
            // ROOM: the publisher may sleep because of a position that was proposed and given up, or of the origin.
            // Relaxed: behind the fence in `join_lane`; `wake` takes the word by read-modify-write (WAKE).
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
        // Also where there is no lane yet.
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
    Ok((consumers, is_doubtful))
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
        state: (config.scheme() != Scheme::Sealed)
            .then(|| control.resolve(geometry.slot(slot) + slot_word::STATE)),
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
    use crate::channel::attach::{self, Part, TypeTag};
    use crate::channel::publisher::Publisher;
    use crate::error::NotSent;

    /// Its gating bit is set in its first lane; in the second one it would start behind what is sent meanwhile.
    #[test]
    fn a_subscriber_that_still_joins_is_not_waited_for_with_success() {
        let config = Config::parse("inproc://joining?subscribers=1").unwrap();
        let open = || Publisher::open_as(&config, &TypeTag::default(), None).unwrap();
        let mut publishers: [Publisher; 2] = [open(), open()];
        let (attached, slot) =
            attach::open(&config, &TypeTag::default(), Part::Names, |attached| {
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

    /// What the name `n` is told, with the position of its slot in lane 0 set to `word` while it is away. It had read
    /// the first `read` of `sent` messages of 32 bytes each with their headers.
    fn come_back(
        name: &str,
        read: u64,
        sent: u64,
        word: impl Fn(u64) -> u64,
    ) -> (Durable, Vec<u64>) {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("channels");
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
        let left = position.load(Ordering::Relaxed);
        assert_eq!(left, geometry.origin + read * 32);
        position.store(word(left), Ordering::Relaxed);
        let mut again = crate::Subscriber::open_with(&named).unwrap();
        let durable = again.durable().unwrap();
        if matches!(durable, Durable::LostPlace { .. }) {
            let told = again.try_receive().map(|_| ());
            assert!(
                matches!(told, Err(crate::ReceiveError::Evicted)),
                "{told:?}"
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
    fn a_durable_position_that_nobody_left_is_a_lost_place() {
        // As it was left.
        let (durable, found) = come_back("kept", 3, 10, |left| left);
        assert_eq!((durable, found), (Durable::Resumed, (3..10).collect()));
        // In the middle of a frame, before the first, behind the last, further than a ring ahead of the publisher: what
        // is there comes from the oldest message on. Nothing was missed, and it is told all the same.
        for word in [
            |left: u64| left + 4,
            |left| left - 1,
            |_| 0,
            |_| 65536 - 4096,
            |left| left + 4096,
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
        // Where the publisher was allowed to write since: what is gone is counted.
        let (durable, found) = come_back("behind", 400, 410, |_| 65536);
        let Durable::LostPlace { bytes } = durable else {
            panic!("{durable:?}");
        };
        let first = bytes / 32;
        assert!(first > 400 - 4096 / 32 && first <= 400, "{bytes}");
        assert_eq!(found, (first..410).collect::<Vec<_>>());
    }
}
