//! Random faults of a connection.

use crate::common::Random;
use crate::common::proxy::{Proxy, Way};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A fault of the proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Cuts every connection.
    Cut,
    /// Lets no connection through for this time.
    Down(Duration),
    /// Forwards nothing for this time, longer than the time-out, and then cuts.
    HalfOpen(Duration),
    /// Holds one direction for this time. If it is the direction of acknowledgements, they are
    /// withheld.
    Withhold(Way, Duration),
    /// Like [`Fault::Withhold`], but drops what it held and cuts.
    WithholdAndCut(Way, Duration),
    /// Delays each piece of both directions by the first time, for the second time.
    Delay(Duration, Duration),
    /// Forwards this many bytes at a time, for this time.
    Split(u64, Duration),
    /// Flips a bit after this many bytes.
    Flip(Way, u64),
}

impl Fault {
    /// A random fault. `timeout` is the agreed time-out of the connection.
    pub(crate) fn draw(random: &mut Random, timeout: Duration) -> Self {
        let way = Way::BOTH[usize::from(random.below(2) == 1)];
        let time = Duration::from_millis(1 + random.below(60));
        match random.below(10) {
            0 | 1 => Self::Cut,
            2 => Self::Down(time),
            3 => Self::HalfOpen(timeout * 2),
            4 => Self::Withhold(way, time),
            5 | 6 => Self::WithholdAndCut(way, time),
            7 => Self::Delay(Duration::from_micros(random.below(2000)), time),
            8 => Self::Split(1 + random.below(9), time),
            _ => Self::Flip(way, random.below(4096)),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Down(_) => "down",
            Self::HalfOpen(_) => "half-open",
            Self::Withhold(..) => "withheld",
            Self::WithholdAndCut(..) => "withheld and cut",
            Self::Delay(..) => "delayed",
            Self::Split(..) => "split",
            Self::Flip(..) => "flipped",
        }
    }

    fn begin(self, proxy: &Proxy) -> Duration {
        match self {
            Self::Cut => proxy.cut(),
            Self::Down(_) => proxy.set_down(true),
            Self::HalfOpen(_) => Way::BOTH.into_iter().for_each(|way| proxy.hold(way, true)),
            Self::Withhold(way, _) | Self::WithholdAndCut(way, _) => proxy.hold(way, true),
            Self::Delay(delay, _) => {
                Way::BOTH
                    .into_iter()
                    .for_each(|way| proxy.delay(way, delay));
            }
            Self::Split(piece, _) => {
                Way::BOTH
                    .into_iter()
                    .for_each(|way| proxy.split(way, piece));
            }
            Self::Flip(way, after) => proxy.flip(way, after),
        }
        match self {
            Self::Cut | Self::Flip(..) => Duration::ZERO,
            Self::Down(time) | Self::HalfOpen(time) | Self::Split(_, time) => time,
            Self::Withhold(_, time) | Self::WithholdAndCut(_, time) | Self::Delay(_, time) => time,
        }
    }

    fn end(self, proxy: &Proxy) {
        match self {
            Self::Cut | Self::Flip(..) => {}
            Self::Down(_) => proxy.set_down(false),
            Self::HalfOpen(_) => {
                proxy.cut();
                Way::BOTH.into_iter().for_each(|way| proxy.hold(way, false));
            }
            Self::Withhold(way, _) => proxy.hold(way, false),
            Self::WithholdAndCut(way, _) => {
                proxy.cut();
                // What was held goes to a connection that is gone or about to be.
                proxy.hold(way, false);
            }
            Self::Delay(..) => {
                Way::BOTH
                    .into_iter()
                    .for_each(|way| proxy.delay(way, Duration::ZERO));
            }
            Self::Split(..) => Way::BOTH.into_iter().for_each(|way| proxy.split(way, 0)),
        }
    }
}

/// Faults of a run, one at a time, each after a number of messages.
pub(crate) struct Faults {
    pub(crate) proxy: Proxy,
    planned: Vec<(u64, Fault)>,
    under_way: Option<(Instant, Fault)>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// `planned` is ordered by the numbers of messages.
    pub(crate) fn new(proxy: Proxy, mut planned: Vec<(u64, Fault)>) -> Self {
        planned.reverse();
        Self {
            proxy,
            planned,
            under_way: None,
            counts: BTreeMap::new(),
        }
    }

    /// Begins and ends due faults.
    pub(crate) fn look(&mut self, received: u64) {
        if let Some((until, fault)) = self.under_way {
            if Instant::now() < until {
                return;
            }
            fault.end(&self.proxy);
            self.under_way = None;
        }
        let due = self.planned.pop_if(|(at, _)| *at <= received);
        if let Some((_, fault)) = due {
            *self.counts.entry(fault.word()).or_default() += 1;
            self.under_way = Some((Instant::now() + fault.begin(&self.proxy), fault));
        }
    }

    /// Ends the current fault.
    pub(crate) fn settle(&mut self) {
        if let Some((_, fault)) = self.under_way.take() {
            fault.end(&self.proxy);
        }
    }
}
