//! Joining: a subscriber takes a slot and a place in every lane, so that from then on it misses nothing.

use super::attached::Attached;
use super::slots::{self, Found, Missed};
use super::status::Durable;
use crate::error::OpenError;
use crate::ring::consume::{Consumer, GateWords, committed_up_to};
use crate::ring::gate::{clear_slot, join_lane, set_bit};
use crate::ring::layout::{control, lane, lane_entry};
use crate::sync::Ordering;
use crate::uri::{Config, Delivery, Start};
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
        place,
        control,
        geometry,
        locks,
        ..
    } = attached;
    let claimed = slots::claim(control, geometry, locks, config, channel, place.path())?;
    crate::points::pass("join.claimed");
    let joined = join_lanes(attached, config, claimed);
    crate::points::pass("join.gating");
    if joined.is_err() && claimed.found == Found::Nothing {
        clear_slot(control, geometry, claimed.index);
    }
    let lanes = joined?;
    let (durable, must_tell) = match &config.name {
        Some(_) => {
            let (durable, must_tell) = slots::news(control, geometry, claimed);
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

fn join_lanes(
    attached: &Attached,
    config: &Config,
    claimed: slots::Claimed,
) -> Result<Vec<Consumer>, OpenError> {
    let Attached {
        place,
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
        let Some(mapped) = place.open_lane(&attached.lane(index), false, config.hugepages)? else {
            return Err(OpenError::NotAChannel {
                path: place.path().join(crate::segment::lane_name(index)),
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
    for (index, (words, ring)) in &present {
        let (cursor, limit) = (words.resolve(lane::CURSOR), words.resolve(lane::LIMIT));
        // Where a durable name was that lost its place: what is still there behind it was not missed.
        let left = position_word(*index).load(Ordering::Acquire);
        let oldest = || {
            limit
                .load(Ordering::Acquire)
                .saturating_sub(geometry.capacity)
        };
        let start = || match config.from {
            _ if lost && left >= oldest() => committed_up_to(ring, &cursor, geometry, left),
            _ if lost => oldest(),
            Start::Oldest => oldest(),
            // CURSOR (acquire): frames before it are not ours, those after it are. Times and positions are for
            // journals, which settings of rings do not name.
            Start::Now | Start::Time(_) | Start::Position(_) => cursor.load(Ordering::Acquire),
        };
        let store = |position: u64| {
            if lost {
                // Relaxed: only we write it.
                let before = position_word(*index).load(Ordering::Relaxed);
                missed.add(position.saturating_sub(before));
                crate::points::pass("join.missed_counted");
            }
            position_word(*index).store(position, Ordering::Release);
            set_bit(control, control::GATING, claimed.index, true);
        };
        starts.push(if resumed {
            let word = position_word(*index);
            // Our own word, but anybody could have written it: never past what is published.
            let start = committed_up_to(ring, &cursor, geometry, word.load(Ordering::Acquire));
            word.store(start, Ordering::Release);
            start
        } else if gates {
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
    Ok(consumers)
}

pub(super) fn consumer(
    attached: &Attached,
    config: &Config,
    slot: usize,
    index: usize,
    words: crate::region::Words,
    ring: crate::region::Ring,
    start: u64,
) -> Consumer {
    let Attached {
        control, geometry, ..
    } = attached;
    let gate = (config.delivery == Delivery::Reliable).then(|| GateWords {
        position: control.resolve(geometry.position(slot, index)),
        park: control.resolve(geometry.lane_entry(index) + lane_entry::PARK),
        fence: !crate::sync::light_side_is_covered(),
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
                    place,
                    control,
                    geometry,
                    locks,
                    ..
                } = attached;
                let claimed =
                    slots::claim(control, geometry, locks, &config, channel, place.path())?;
                set_bit(control, control::GATING, claimed.index, true);
                Ok(claimed.index)
            })
            .unwrap();
        for publisher in &mut publishers {
            assert_eq!(publisher.offer(b"too early"), Err(NotSent::NotConnected));
            assert_eq!(publisher.subscribers(), 0);
        }
        slots::attach(&attached.control, &attached.geometry, slot, false);
        for publisher in &mut publishers {
            assert_eq!(publisher.subscribers(), 1);
            publisher.offer(b"in time").unwrap();
        }
    }
}
