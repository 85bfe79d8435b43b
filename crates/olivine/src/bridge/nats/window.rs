//! Messages in flight to the server: their ids, whether they are stored, and in what order.
//!
//! A server stores the messages of one connection in the order of sending. After a change of its
//! leader, or while it is full, it may lose or refuse some messages and store later ones. Messages
//! sent again are then stored after later messages. Each acknowledgement has the sequence number in
//! the stream, so the order is checked before the ring releases anything:
//!
//! * a message is *settled* once it is stored after its predecessor in the lane;
//! * after a break, messages that may have been sent before it are released only once all of them
//!   are settled: the next bridge finds the whole doubtful part again;
//! * if the order is broken, the part from there on is sent again under new ids: a *repair*.
//!   Subscribers skip messages that do not continue their lane;
//! * if the server refuses a message because it is full, the replies to later ones are awaited, so
//!   that only what was stored after it is in doubt.

use std::collections::VecDeque;

/// Messages in flight, in the order of sending.
#[derive(Debug, Default)]
pub(super) struct Window {
    flights: VecDeque<InFlight>,
    /// Number of the first of them.
    first: u64,
    bytes: u64,
    lanes: Vec<Lane>,
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    /// Its lane.
    pub(super) place: usize,
    /// End of its frame.
    pub(super) end: u64,
    /// Bytes of its frame; 0 for the end of its lane.
    pub(super) bytes: u64,
    outcome: Outcome,
}

/// The server's answer about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Unknown,
    /// It has this sequence number in the stream.
    Stored(u64),
    Refused,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Sequence number of the last settled message; 0 for none.
    last: u64,
    /// Its end in the lane.
    settled: u64,
    /// End of the part that may be stored.
    sent: u64,
    /// Nothing is released before this is settled.
    hold: u64,
    /// Number of the current repair, and the position of its end.
    repair: u32,
    repair_end: u64,
}

/// A message was stored before its predecessor: its lane must be sent again from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disorder {
    /// The lane.
    pub(super) place: usize,
}

impl Window {
    /// An earlier bridge may have sent what is before `end` in the lane.
    pub(super) fn mark_in_doubt(&mut self, place: usize, end: u64) {
        let lane = self.lane(place);
        (lane.sent, lane.hold) = (lane.sent.max(end), lane.hold.max(end));
    }

    /// Forgets the messages in flight, and restarts after the settled ones.
    pub(super) fn restart(&mut self) {
        if self.is_answered() {
            self.narrow();
        }
        self.first += self.flights.len() as u64;
        self.flights.clear();
        self.bytes = 0;
        for lane in &mut self.lanes {
            lane.hold = lane.sent;
        }
    }

    /// Start of a lane after a restart.
    pub(super) fn settled(&self, place: usize) -> u64 {
        self.lanes.get(place).map_or(0, |lane| lane.settled)
    }

    /// All replies are there: only what was stored after a refused message is in doubt.
    fn narrow(&mut self) {
        for (place, lane) in self.lanes.iter_mut().enumerate() {
            let own = self.flights.iter().filter(|flight| flight.place == place);
            let behind = own.skip_while(|flight| flight.outcome != Outcome::Refused);
            let stored = behind.filter(|flight| flight.outcome != Outcome::Refused);
            let stored = stored.map(|flight| flight.end).max();
            lane.sent = lane.hold.max(lane.settled).max(stored.unwrap_or(0));
            if stored.is_some() {
                lane.repair += 1;
                lane.repair_end = lane.sent;
            }
        }
    }

    fn lane(&mut self, place: usize) -> &mut Lane {
        if self.lanes.len() <= place {
            self.lanes.resize_with(place + 1, Lane::default);
        }
        &mut self.lanes[place]
    }

    /// After the next restart, sends the unsettled part of a lane under new ids.
    pub(super) fn repair(&mut self, place: usize) {
        let lane = self.lane(place);
        lane.repair += 1;
        lane.repair_end = lane.sent;
    }

    /// The repair number of the frame at `position`, or of the lane's end there.
    pub(super) fn repair_of(&self, place: usize, position: u64, is_end: bool) -> u32 {
        let lane = self.lanes.get(place);
        lane.filter(|lane| position < lane.repair_end || is_end && position == lane.repair_end)
            .map_or(0, |lane| lane.repair)
    }

    /// Greatest sequence number of a settled message; 0 for none.
    pub(super) fn last(&self) -> u64 {
        let places = self.lanes.iter().map(|lane| lane.last);
        places.max().unwrap_or(0)
    }

    /// The stream reuses sequence numbers. The order is checked from here on.
    pub(super) fn forget_order(&mut self) {
        for lane in &mut self.lanes {
            lane.last = 0;
        }
    }

    /// A message is sent. Returns its number.
    pub(super) fn send(&mut self, place: usize, end: u64, bytes: u64) -> u64 {
        let lane = self.lane(place);
        lane.sent = lane.sent.max(end);
        let number = self.first + self.flights.len() as u64;
        self.bytes += bytes;
        self.flights.push_back(InFlight {
            place,
            end,
            bytes,
            outcome: Outcome::Unknown,
        });
        number
    }

    /// Whether a message of the lane is in flight, besides ends and failures.
    pub(super) fn has_message(&self, place: usize) -> bool {
        let mut own = self.flights.iter().filter(|flight| flight.place == place);
        own.any(|flight| flight.bytes > 0)
    }

    /// Whether the message with this number is in flight.
    pub(super) fn is_under_way(&self, number: u64) -> bool {
        let at = number.checked_sub(self.first);
        at.is_some_and(|at| at < self.flights.len() as u64)
    }

    /// The message with this number has this sequence number in the stream. Ignores numbers that
    /// are not in flight.
    pub(super) fn stored(&mut self, number: u64, sequence: u64) {
        self.answer(number, Outcome::Stored(sequence));
    }

    /// The message with this number is not stored.
    pub(super) fn refused(&mut self, number: u64) {
        self.answer(number, Outcome::Refused);
    }

    fn answer(&mut self, number: u64, outcome: Outcome) {
        let at = number.checked_sub(self.first).map(usize::try_from);
        if let Some(Ok(at)) = at
            && let Some(flight) = self.flights.get_mut(at)
        {
            flight.outcome = outcome;
        }
    }

    /// Whether the server has answered for every message in flight.
    pub(super) fn is_answered(&self) -> bool {
        let mut all = self.flights.iter();
        all.all(|flight| flight.outcome != Outcome::Unknown)
    }

    /// The next settled message, and whether its lane may be released up to its end.
    ///
    /// # Errors
    ///
    /// [`Disorder`]; the message is still in flight.
    pub(super) fn settle(&mut self) -> Result<Option<(InFlight, bool)>, Disorder> {
        let Some(flight) = self.flights.front().copied() else {
            return Ok(None);
        };
        let Outcome::Stored(sequence) = flight.outcome else {
            return Ok(None);
        };
        let lane = &mut self.lanes[flight.place];
        if sequence <= lane.last {
            return Err(Disorder {
                place: flight.place,
            });
        }
        (lane.last, lane.settled) = (sequence, flight.end);
        let is_given_back = flight.end >= lane.hold;
        self.flights.pop_front();
        self.first += 1;
        self.bytes -= flight.bytes;
        Ok(Some((flight, is_given_back)))
    }

    /// Messages in flight.
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Bytes of their frames.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn stored_messages_are_released_in_order() {
        let mut window = Window::default();
        let numbers: Vec<_> = (1..=3).map(|n| window.send(0, n * 8, 8)).collect();
        window.stored(numbers[1], 12);
        assert!(
            window.settle().unwrap().is_none(),
            "the first is not stored"
        );
        window.stored(numbers[0], 11);
        let (first, back) = window.settle().unwrap().unwrap();
        assert_eq!((first.end, back), (8, true));
        let (second, back) = window.settle().unwrap().unwrap();
        assert_eq!((second.end, back), (16, true));
        assert_eq!((window.len(), window.bytes()), (1, 8));
        window.stored(numbers[0], 99);
        assert!(window.settle().unwrap().is_none(), "long settled");
    }

    #[test]
    fn doubtful_messages_are_released_together() {
        let mut window = Window::default();
        window.mark_in_doubt(0, 16);
        let numbers: Vec<_> = (1..=3).map(|n| window.send(0, n * 8, 8)).collect();
        for (at, number) in numbers.iter().enumerate() {
            window.stored(*number, 5 + at as u64);
        }
        let back: Vec<_> = std::iter::from_fn(|| window.settle().unwrap())
            .map(|(_, back)| back)
            .collect();
        assert_eq!(back, [false, true, true]);
    }

    #[test]
    fn restart_sends_unsettled_messages_again() {
        let mut window = Window::default();
        for end in [8, 16, 24] {
            window.send(0, end, 8);
        }
        window.stored(0, 1);
        assert!(window.settle().unwrap().unwrap().1);
        window.restart();
        assert_eq!(window.settled(0), 8);
        // Both were stored, but the acknowledgements were lost.
        let numbers = [window.send(0, 16, 8), window.send(0, 24, 8)];
        window.stored(numbers[0], 2);
        window.stored(numbers[1], 3);
        assert!(
            !window.settle().unwrap().unwrap().1,
            "the third is in doubt"
        );
        assert!(window.settle().unwrap().unwrap().1);
    }

    #[test]
    fn refusal_leaves_only_later_stored_messages_in_doubt() {
        let mut window = Window::default();
        let numbers: Vec<_> = (1..=4).map(|n| window.send(0, n * 8, 8)).collect();
        window.stored(numbers[0], 1);
        window.refused(numbers[1]);
        window.stored(numbers[2], 2);
        assert!(window.settle().unwrap().is_some() && window.settle().unwrap().is_none());
        assert!(!window.is_answered());
        window.refused(numbers[3]);
        assert!(window.is_answered());
        window.restart();
        let repairs = [8, 16, 24].map(|position| window.repair_of(0, position, false));
        assert_eq!((window.settled(0), repairs), (8, [1, 1, 0]));
        let again = [window.send(0, 16, 8), window.send(0, 24, 8)];
        window.stored(again[0], 3);
        window.stored(again[1], 4);
        assert!(!window.settle().unwrap().unwrap().1);
        assert!(window.settle().unwrap().unwrap().1);
        // Nothing was stored after this one.
        let last = window.send(0, 32, 8);
        window.refused(last);
        window.restart();
        assert_eq!(window.repair_of(0, 24, false), 0);
        let last = window.send(0, 32, 8);
        window.stored(last, 5);
        assert!(window.settle().unwrap().unwrap().1);
    }

    #[test]
    fn misordered_end_is_repaired() {
        let mut window = Window::default();
        let message = window.send(0, 8, 8);
        let end = window.send(0, 8, 0);
        window.refused(message);
        window.stored(end, 1);
        window.restart();
        let message = window.send(0, 8, 8);
        assert_eq!(window.repair_of(0, 8, true), 1, "another id than the first");
        let end = window.send(0, 8, 0);
        window.stored(message, 2);
        window.stored(end, 3);
        assert!(window.settle().unwrap().is_some());
        assert!(window.settle().unwrap().is_some());
    }

    #[test]
    fn reused_sequence_numbers_break_no_order() {
        let mut window = Window::default();
        let first = window.send(0, 8, 8);
        window.stored(first, 100);
        window.settle().unwrap();
        assert_eq!(window.last(), 100);
        window.restart();
        window.forget_order();
        let second = window.send(0, 16, 8);
        window.stored(second, 2);
        assert!(window.settle().unwrap().is_some());
        assert_eq!(window.last(), 2);
    }

    #[test]
    fn repair_has_other_ids_and_ends() {
        let mut window = Window::default();
        let first = window.send(0, 8, 8);
        let second = window.send(0, 16, 8);
        window.stored(second, 4);
        window.stored(first, 5);
        window.settle().unwrap();
        assert_eq!(window.settle().unwrap_err(), Disorder { place: 0 });
        window.repair(0);
        window.restart();
        assert_eq!(
            (
                window.repair_of(0, 8, false),
                window.repair_of(0, 16, false)
            ),
            (1, 0)
        );
        let again = window.send(0, 16, 8);
        window.stored(again, 6);
        let (_, back) = window.settle().unwrap().unwrap();
        assert!(back);
    }

    /// A server loses messages and acknowledgements, recognizes ids, and delivers to a subscriber
    /// that takes only what continues its lane. Senders are killed and continue from what was
    /// released.
    #[test]
    fn lane_arrives_whole_despite_losses_and_kills() {
        const COUNT: u64 = 40;
        for seed in 0..3000_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut below = |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
            let mut ids: BTreeMap<(u64, u32), u64> = BTreeMap::new();
            let mut stream: Vec<u64> = Vec::new();
            let mut given_back = 0;
            let mut window = Window::default();
            let (mut next, mut furthest) = (0, 0);
            let mut steps = 0;
            while given_back < COUNT * 8 {
                steps += 1;
                assert!(steps < 100_000, "seed {seed} does not end");
                let trouble = steps < 2000;
                // Sends one message; it may be lost, or its acknowledgement may be.
                if next < COUNT && window.len() < 8 {
                    let id = (next, window.repair_of(0, next * 8, false));
                    let number = window.send(0, (next + 1) * 8, 8);
                    if trouble && below(8) == 0 {
                        // The server is full and refuses.
                        window.refused(number);
                    } else if !trouble || below(6) > 0 {
                        let sequence = *ids.entry(id).or_insert_with(|| {
                            stream.push(next);
                            stream.len() as u64
                        });
                        if !trouble || below(6) > 0 {
                            window.stored(number, sequence);
                        }
                    }
                    next += 1;
                    furthest = next.max(furthest);
                }
                let full = window.is_answered() && window.len() > 0;
                let mut again =
                    trouble && below(12) == 0 || window.len() == 8 || next == COUNT || full;
                loop {
                    match window.settle() {
                        Ok(Some((flight, true))) => given_back = flight.end,
                        Ok(Some((_, false))) => {}
                        Ok(None) => break,
                        Err(Disorder { place }) => {
                            window.repair(place);
                            again = true;
                            break;
                        }
                    }
                }
                if trouble && below(40) == 0 {
                    // Killed: the next sender knows only what was released.
                    window = Window::default();
                    window.mark_in_doubt(0, furthest * 8);
                    again = true;
                }
                if again {
                    window.restart();
                    next = window.settled(0).max(given_back) / 8;
                }
            }
            let mut expected = 0;
            for found in stream {
                expected += u64::from(found == expected);
            }
            assert_eq!(expected, COUNT, "seed {seed}");
        }
    }
}
