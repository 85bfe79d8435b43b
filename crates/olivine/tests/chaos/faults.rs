//! Faults of a connection, drawn, begun and ended.

use crate::common::Random;
use crate::common::proxy::{Proxy, Way};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a proxy does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Cuts every connection.
    Cut,
    /// Lets no connection through for so long.
    Down(Duration),
    /// Forwards nothing for so long, longer than the time-out, and cuts then.
    HalfOpen(Duration),
    /// Keeps one direction back for so long. Where it is the direction of acknowledgements, they
    /// are withheld.
    Withhold(Way, Duration),
    /// As [`Fault::Withhold`], and cuts instead of handing on what it kept.
    WithholdAndCut(Way, Duration),
    /// Delays each piece of both directions by this time, for so long.
    Delay(Duration, Duration),
    /// Hands on so many bytes at a time, for so long.
    Split(u64, Duration),
    /// Flips a bit after so many bytes.
    Flip(Way, u64),
}

impl Fault {
    /// Draws one. `timeout` is what the sides of the connection have agreed on.
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
                // What was kept goes to a connection that is gone, or is about to be.
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

/// Faults of a run, one at a time, each when so many messages have arrived.
pub(crate) struct Faults {
    pub(crate) proxy: Proxy,
    planned: Vec<(u64, Fault)>,
    under_way: Option<(Instant, Fault)>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// `planned` is in the order of the numbers of messages.
    pub(crate) fn new(proxy: Proxy, mut planned: Vec<(u64, Fault)>) -> Self {
        planned.reverse();
        Self {
            proxy,
            planned,
            under_way: None,
            counts: BTreeMap::new(),
        }
    }

    /// Begins and ends what is due.
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

    /// Ends what is under way.
    pub(crate) fn settle(&mut self) {
        if let Some((_, fault)) = self.under_way.take() {
            fault.end(&self.proxy);
        }
    }
}
