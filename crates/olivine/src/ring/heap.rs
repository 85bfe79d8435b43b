//! A channel of one lane in heap memory. Miri and AddressSanitizer check every access there.

use super::consume::{Consumer, GateWords};
use super::gate::set_bit;
use super::layout::{Geometry, NO_POSITION, control, fixed, lane, lane_entry};
use super::publish::Producer;
use crate::region::{Memory, PrivateWord, Ring, Words};
use crate::sync::Ordering;

pub(super) struct Channel {
    pub(super) geometry: Geometry,
    pub(super) control: Words,
    pub(super) lane: Words,
    pub(super) ring: Ring,
    private: Words,
}

pub(super) fn channel(align: u64, origin: u64) -> Channel {
    let geometry = Geometry {
        capacity: 4096,
        align,
        publishers_max: 1,
        subscribers_max: 2,
        origin,
        fixed: fixed::SHAPED,
        ..Geometry::default()
    };
    let words = |count: usize| Words::new(&Memory::heap(count * 8), 0, count);
    let control = words(geometry.control_words());
    control.word(control::ALWAYS).store(1, Ordering::Relaxed);
    for slot in 0..2 {
        control
            .word(geometry.position(slot, 0))
            .store(NO_POSITION, Ordering::Relaxed);
    }
    let lane = words(lane::WORDS);
    lane.word(lane::CURSOR).store(origin, Ordering::Relaxed);
    lane.word(lane::LIMIT)
        .store(origin + 4096, Ordering::Relaxed);
    let ring = Ring::new(&Memory::heap(8192), 4096);
    Channel {
        geometry,
        control,
        lane,
        ring,
        private: words(2),
    }
}

impl Channel {
    pub(super) fn producer(&self) -> Producer {
        Producer::take_over(
            self.ring.clone(),
            self.lane.clone(),
            &self.control,
            &self.geometry,
            0,
            // SAFETY: one producer at a time uses them.
            [0, 1].map(|word| unsafe { PrivateWord::new(self.private.resolve(word)) }),
        )
    }

    #[cfg(test)]
    pub(super) fn consumer(&self, slot: usize) -> Consumer {
        let position = self.lane.word(lane::CURSOR).load(Ordering::Acquire);
        self.consumer_at(slot, position)
    }

    pub(super) fn consumer_at(&self, slot: usize, position: u64) -> Consumer {
        self.control
            .word(self.geometry.position(slot, 0))
            .store(position, Ordering::Release);
        set_bit(&self.control, control::GATING, slot, true);
        let gate = GateWords {
            position: self.control.resolve(self.geometry.position(slot, 0)),
            park: self
                .control
                .resolve(self.geometry.lane_entry(0) + lane_entry::PARK),
            fence: true,
            state: None,
        };
        Consumer::new(
            self.ring.clone(),
            self.lane.clone(),
            &self.geometry,
            0,
            position,
            Some(gate),
            false,
        )
    }
}

/// Sends one message if there is room.
pub(super) fn send(producer: &mut Producer, tag: u32, message: &[u8]) -> bool {
    let room = producer.room(producer.position(), message.len());
    room.is_some() && producer.send(tag, message).is_ok()
}
