//! Where a source continues: positions of its lanes, of those reserved here and of freed ones.

use super::Ingress;

/// Everything before this position of a lane of a source was committed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    /// Index at the source.
    pub(crate) lane: u32,
    /// Incarnation of the source's channel.
    pub(crate) incarnation: u64,
    pub(crate) position: u64,
}

impl SourcePosition {
    /// Whether it is of this lane in the channel of this incarnation.
    pub(super) fn is(&self, lane: u32, incarnation: u64) -> bool {
        (self.lane, self.incarnation) == (lane, incarnation)
    }
}

impl Ingress {
    /// Where to continue with a source of this incarnation: lanes and their positions. Lanes not
    /// listed start where the source says.
    pub(crate) fn resume(&self, incarnation: u64) -> Vec<(u32, u64)> {
        self.positions()
            .filter(|known| known.incarnation == incarnation)
            .map(|known| (known.lane, known.position))
            .collect()
    }

    /// The positions of the source's lanes: of those reserved or open here, and of freed ones.
    pub(crate) fn positions(&self) -> impl Iterator<Item = SourcePosition> {
        let here = self.lanes.iter().map(|lane| SourcePosition {
            lane: lane.index,
            incarnation: lane.origin.incarnation,
            position: lane.there(lane.position),
        });
        here.chain(self.freed.iter().copied())
    }

    /// The source continues at these positions: its lanes were freed when it stayed away.
    ///
    /// At its last acknowledgement it would repeat messages that were committed since.
    #[cfg(feature = "tcp")]
    pub(crate) fn continue_at(&mut self, freed: Vec<SourcePosition>) {
        self.freed = freed;
    }
}
