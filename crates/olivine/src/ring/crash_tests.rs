//! What a publisher leaves when it dies after any of its stores, in any order in which the machine
//! may make them visible.
//!
//! The test records its stores. A death leaves some of them. The rules of the language say which
//! stores must be visible with others. A release store comes after everything before it. A fence
//! separates earlier and later stores. Stores to one word keep their order. Each possible set is
//! applied to a copy of the memory. Then a successor takes the lane over, and a subscriber
//! continues.

use super::heap::{Channel, channel, send};
use super::heap_tests::{message, receive};
use super::layout::lane;
use super::publish::Producer;
use crate::sync::Ordering;
use crate::sync::logged::{Step, steps_of};

/// The words of a channel: control, lane, both halves of the ring.
fn words_of(channel: &Channel) -> Vec<&crate::sync::AtomicU64> {
    let control = (0..channel.geometry.control_words()).map(|n| channel.control.word(n));
    let lane = (0..lane::WORDS).map(|n| channel.lane.word(n));
    let ring = (0..channel.ring.capacity() / 8).map(|n| channel.ring.header(n * 8));
    control.chain(lane).chain(ring).collect()
}

fn image(channel: &Channel) -> Vec<u64> {
    let words = words_of(channel);
    words
        .iter()
        .map(|word| word.load(Ordering::Relaxed))
        .collect()
}

/// A store of the scene.
#[derive(Clone, Debug)]
struct Store {
    /// Offsets in the image, and the bytes there: several for the rest of a long payload.
    parts: Vec<(usize, Vec<u8>)>,
    release: bool,
    /// Number of fences before it.
    epoch: usize,
}

/// The stores among `steps` that shared memory sees.
fn stores(channel: &Channel, steps: &[Step]) -> Vec<Store> {
    let words = words_of(channel);
    let mut epoch = 0;
    let mut found = Vec::new();
    for step in steps {
        match step {
            Step::Fence => epoch += 1,
            Step::Store {
                address,
                bytes,
                release,
            } => {
                let place = words
                    .iter()
                    .position(|word| word.as_ptr() as usize == *address);
                // The cached limit is private.
                let Some(place) = place else { continue };
                let part = (place, bytes.clone());
                // Two parts of a long payload are enough for a torn one, and of zeros in line after
                // line for some that are missing. More parts would be too many deaths.
                if let [.., before, last] = &mut found[..]
                    && continues(before, &last.parts[0])
                    && continues(last, &part)
                    && !release
                {
                    last.parts.push(part);
                    continue;
                }
                found.push(Store {
                    parts: vec![part],
                    release: *release,
                    epoch,
                });
            }
        }
    }
    found
}

/// Whether a payload continues with `part`, or zeros do a line further on.
fn continues(store: &Store, part: &(usize, Vec<u8>)) -> bool {
    let is_next = |last: &(usize, Vec<u8>)| {
        let is_zero = [last, part].iter().all(|(_, bytes)| bytes[..] == [0; 8]);
        last.0 + 1 == part.0 || last.0 + 8 == part.0 && is_zero
    };
    !store.release && store.parts.last().is_some_and(is_next)
}

/// Whether store `early` is visible if store `late` is.
fn is_before(stores: &[Store], early: usize, late: usize) -> bool {
    let (a, b) = (&stores[early], &stores[late]);
    let meets = |place: &usize| b.parts.iter().any(|part| part.0 == *place);
    early < late && (b.release || a.epoch < b.epoch || a.parts.iter().any(|part| meets(&part.0)))
}

/// Every possible set of stores after a death, as bit masks.
fn deaths(stores: &[Store]) -> Vec<u64> {
    let needs: Vec<u64> = (0..stores.len())
        .map(|late| {
            let before = (0..late).filter(|early| is_before(stores, *early, late));
            before.fold(0, |mask, early| mask | 1 << early)
        })
        .collect();
    let mut sets = vec![0_u64];
    for (n, needs) in needs.iter().enumerate() {
        let with: Vec<u64> = sets
            .iter()
            .filter(|set| *set & needs == *needs)
            .map(|set| set | 1 << n)
            .collect();
        sets.extend(with);
    }
    sets
}

/// A channel after a death.
fn left_behind(origin: u64, before: &[u64], stores: &[Store], set: u64) -> Channel {
    let left = channel(8, origin);
    let mut image = before.to_vec();
    for (n, store) in stores.iter().enumerate() {
        if set & 1 << n != 0 {
            for (place, part) in &store.parts {
                let mut bytes = image[*place].to_le_bytes();
                bytes[..part.len()].copy_from_slice(part);
                image[*place] = u64::from_le_bytes(bytes);
            }
        }
    }
    for (word, value) in words_of(&left).iter().zip(image) {
        word.store(value, Ordering::Relaxed);
    }
    left
}

/// Runs `scene` after `warm` messages, and checks every death in it. `commits` gives the number of
/// messages that each commit of the scene makes visible. Returns the number of deaths.
fn check(warm: u32, commits: &[u32], scene: fn(&mut Producer, u32)) -> usize {
    let origin = (1 << 32) - 4096;
    let channel = channel(8, origin);
    let mut producer = channel.producer();
    let mut consumer = channel.consumer(0);
    for n in 0..warm {
        while !send(&mut producer, n, &message(n)) {
            consumer.release();
        }
        assert!(receive(&mut consumer, n));
    }
    consumer.release();
    let start = consumer.position();
    drop(consumer);
    let before = image(&channel);
    let stores = stores(&channel, &steps_of(|| scene(&mut producer, warm)));
    assert!(stores.len() < 20, "few stores: {stores:?}");
    drop(producer);
    // Each set must show the messages of the commits whose header it contains.
    let deaths = deaths(&stores);
    let mut outcomes = std::collections::BTreeSet::new();
    for set in &deaths {
        let left = left_behind(origin, &before, &stores, *set);
        // From the subscriber's position, not from the cursor.
        let mut reader = left.consumer_at(0, start);
        let mut got = 0;
        while receive(&mut reader, warm + got) {
            got += 1;
        }
        let mut successor = left.producer();
        assert!(
            !receive(&mut reader, warm + got),
            "recovery shows nothing that was not shown"
        );
        outcomes.insert(got);
        let ends = commits.iter().scan(0, |sum, n| {
            *sum += n;
            Some(*sum)
        });
        let shown = ends.filter(|end| *end <= got).last().unwrap_or(0);
        assert_eq!(got, shown, "a part of a batch, in {set:b} of {stores:?}");
        if *set == (1 << stores.len()) - 1 {
            assert_eq!(got, commits.iter().sum::<u32>(), "all was done");
        }
        // The successor publishes more than a lap.
        for n in warm + got..warm + got + 120 {
            while !send(&mut successor, n, &message(n)) {
                reader.release();
            }
            assert!(
                receive(&mut reader, n),
                "message {n} in {set:b} of {stores:?}"
            );
        }
    }
    assert_eq!(
        outcomes.len(),
        commits.len() + 1,
        "every commit has a death before and after it"
    );
    deaths.len()
}

fn batch(producer: &mut Producer, first: u32) {
    let mut at = producer.position();
    for n in first..first + 3 {
        let text = message(n);
        let end = producer.room(at, text.len()).unwrap();
        producer.begin_batch();
        producer.write(at, &text);
        if n != first {
            producer.prepare(at, n, text.len());
        }
        at = end;
    }
    producer.commit(at, first, message(first).len());
}

#[test]
#[cfg_attr(miri, ignore = "thousands of takeovers")]
fn successor_continues_for_any_order_of_visible_stores() {
    let mut checked = 0;
    // The first lap, over zeros, and later ones, over frames of all lengths.
    let warm = if cfg!(miri) {
        vec![1]
    } else {
        vec![1, 2, 57, 131, 202, 303]
    };
    for warm in warm {
        checked += check(warm, &[1, 1], |producer, n| {
            assert!(send(producer, n, &message(n)));
            assert!(send(producer, n + 1, &message(n + 1)));
        });
        checked += check(warm, &[3], batch);
        // Beyond the cached limit: the gate is asked, a new limit is stored.
        checked += check(warm, &[1], |producer, n| {
            producer.shut();
            assert!(send(producer, n, &message(n)));
        });
    }
    println!("{checked} deaths");
    assert!(checked > 20);
}

/// The rules of visibility: without them every test would pass.
#[test]
#[cfg_attr(miri, ignore = "thousands of takeovers")]
fn relaxed_header_store_is_detected() {
    let origin = (1 << 32) - 4096;
    let channel = channel(8, origin);
    let mut producer = channel.producer();
    assert!(send(&mut producer, 3, &message(3)));
    let before = image(&channel);
    let steps = steps_of(|| assert!(send(&mut producer, 4, &message(4))));
    let mut stores = stores(&channel, &steps);
    let honest = deaths(&stores).len();
    // As for a relaxed store of the header.
    for store in &mut stores {
        store.release = false;
    }
    let all = deaths(&stores);
    assert!(all.len() > honest);
    let torn = all.iter().filter(|set| {
        let left = left_behind(origin, &before, &stores, **set);
        let mut reader = left.consumer_at(0, producer.position() - 40);
        let frame = reader.next();
        matches!(frame, Ok(Some(frame)) if frame.tag == 4 && reader.view(&frame) != message(4))
    });
    assert!(torn.count() > 0, "a torn message");
}
