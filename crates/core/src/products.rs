//! What readouts become: columns of plain integers.
//!
//! An [`EventBatch`] has exactly the columns that ev44 and NXevent_data have, so that outputs hand the
//! slices on. All columns beside the events are filled only where somebody asked for them ([`Want`]).

use std::sync::Arc;

use crate::heaps::HeapProduct;
use crate::progress::{BatchNumber, Flush};
use crate::records::EventRecords;
use crate::tables::{DetectorClusters, ModuleHits, PlaneClusters, StripHits, Table};
use crate::time::PulseTime;

/// Events in pulses. Invariants: `pulse_first` is sorted, as long as `pulse_ns`, and bounded by the
/// number of events; `offset_ns` and `pixel` are equally long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// Time of each pulse, ns since 1970 UTC (or since the configured epoch).
    pub pulse_ns: Vec<i64>,
    /// Position of each pulse's first event in this batch.
    pub pulse_first: Vec<u32>,
    /// Time of each event after its pulse, ns, 0..=2³¹−1.
    pub offset_ns: Vec<u32>,
    /// Pixel number of each event, 1..=2³¹−1.
    pub pixel: Vec<u32>,
}

impl EventBatch {
    /// Number of events.
    #[inline]
    pub fn len(&self) -> usize {
        self.pixel.len()
    }

    /// True without events and without pulses.
    pub fn is_empty(&self) -> bool {
        self.pixel.is_empty() && self.pulse_ns.is_empty()
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.pulse_ns.clear();
        self.pulse_first.clear();
        self.offset_ns.clear();
        self.pixel.clear();
    }

    /// The events that follow belong to the pulse at `pulse`; no new row if that is the last one's time.
    #[inline]
    pub fn open_pulse(&mut self, pulse: PulseTime) {
        if self.pulse_ns.last() != Some(&pulse.0) {
            self.pulse_ns.push(pulse.0);
            self.pulse_first.push(self.pixel.len() as u32);
        }
    }

    /// Adds one event to the open pulse.
    #[inline]
    pub fn push(&mut self, offset_ns: u32, pixel: u32) {
        self.offset_ns.push(offset_ns);
        self.pixel.push(pixel);
    }

    /// Adds the events of `other` behind these, as if they had been pushed one by one.
    pub fn append(&mut self, other: &EventBatch) {
        let ends = other.pulse_first.iter().skip(1).copied().chain([other.pixel.len() as u32]);
        for ((&pulse, &start), end) in other.pulse_ns.iter().zip(&other.pulse_first).zip(ends) {
            self.open_pulse(PulseTime(pulse));
            let rows = start as usize..end as usize;
            self.offset_ns.extend_from_slice(&other.offset_ns[rows.clone()]);
            self.pixel.extend_from_slice(&other.pixel[rows]);
        }
    }

    /// Every event as (absolute time ns, pixel), in order: for tests and text, not for the hot path.
    pub fn absolute(&self) -> impl Iterator<Item = (i64, u32)> + '_ {
        let ends = self.pulse_first.iter().skip(1).copied().chain([self.pixel.len() as u32]);
        self.pulse_ns.iter().zip(&self.pulse_first).zip(ends).flat_map(move |((&t, &a), b)| {
            (a as usize..b as usize).map(move |i| (t + i64::from(self.offset_ns[i]), self.pixel[i]))
        })
    }
}

/// Hits with an amplitude (pulse-height modes, wires, channels of a chip): equally long columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HitBatch {
    /// Time, ns since the epoch.
    pub time_ns: Vec<i64>,
    /// Pixel number; of detectors whose hits have none of their own, the number of the readout channel from 1.
    pub pixel: Vec<u32>,
    /// Amplitude, ADC counts.
    pub adc: Vec<u16>,
}

impl HitBatch {
    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.time_ns.clear();
        self.pixel.clear();
        self.adc.clear();
    }
}

/// Clusters of planes or pads, for pictures of multiplicities and time spans: equally long columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterBatch {
    /// Plane of its detector: 0 x, 1 y, 2 u; 3 for pads.
    pub plane: Vec<u16>,
    /// Number of hits; 65535 stands for more.
    pub size: Vec<u16>,
    /// From the first to the last hit, ns, rounded down.
    pub span_ns: Vec<u32>,
    /// Sum of the amplitudes, ADC counts.
    pub adc: Vec<u32>,
}

impl ClusterBatch {
    /// Adds a cluster.
    #[inline]
    pub fn push(&mut self, plane: u16, size: u32, span_ns: u32, adc: u32) {
        self.plane.push(plane);
        self.size.push(u16::try_from(size).unwrap_or(u16::MAX));
        self.span_ns.push(span_ns);
        self.adc.push(adc);
    }

    /// Adds those of `other` behind its own.
    pub fn append(&mut self, other: &ClusterBatch) {
        self.plane.extend_from_slice(&other.plane);
        self.size.extend_from_slice(&other.size);
        self.span_ns.extend_from_slice(&other.span_ns);
        self.adc.extend_from_slice(&other.adc);
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.plane.clear();
        self.size.clear();
        self.span_ns.clear();
        self.adc.clear();
    }
}

/// Hits of single events, a sample of all: what one event looks like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrackBatch {
    /// Time of each event's earliest hit, ns since the epoch, rounded down.
    pub event_ns: Vec<i64>,
    /// Position of each event's first hit in the columns below.
    pub first: Vec<u32>,
    /// Plane of each hit: 0 x, 1 y, 2 u.
    pub plane: Vec<u16>,
    /// Strip of each hit.
    pub strip: Vec<u16>,
    /// Time of each hit after its event's earliest one, ns, rounded down.
    pub later_ns: Vec<u32>,
    /// Amplitude of each hit, ADC counts.
    pub adc: Vec<u16>,
}

impl TrackBatch {
    /// Adds those of `other` behind its own.
    pub fn append(&mut self, other: &TrackBatch) {
        let before = self.plane.len() as u32;
        self.event_ns.extend_from_slice(&other.event_ns);
        self.first.extend(other.first.iter().map(|first| before + first));
        self.plane.extend_from_slice(&other.plane);
        self.strip.extend_from_slice(&other.strip);
        self.later_ns.extend_from_slice(&other.later_ns);
        self.adc.extend_from_slice(&other.adc);
    }

    /// Begins an event; its hits follow.
    pub fn begin(&mut self, event_ns: i64) {
        self.event_ns.push(event_ns);
        self.first.push(self.plane.len() as u32);
    }

    /// Adds a hit to the newest event.
    pub fn push(&mut self, plane: u16, strip: u16, later_ns: u32, adc: u16) {
        self.plane.push(plane);
        self.strip.push(strip);
        self.later_ns.push(later_ns);
        self.adc.push(adc);
    }

    /// Hits of each event, as positions in the columns.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.first.len()).map(|at| {
            let end = self.first.get(at + 1).map_or(self.plane.len(), |&end| end as usize);
            self.first[at] as usize..end
        })
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.event_ns.clear();
        self.first.clear();
        self.plane.clear();
        self.strip.clear();
        self.later_ns.clear();
        self.adc.clear();
    }
}

/// Which columns somebody subscribed to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Want {
    /// Fill [`Products::hits`].
    pub hits: bool,
    /// Fill [`Products::strip_hits`].
    pub strip_hits: bool,
    /// Fill [`Products::module_hits`].
    pub module_hits: bool,
    /// Fill [`Products::plane_clusters`] and [`Products::detector_clusters`].
    pub clusters: bool,
    /// Fill [`Products::cluster_sizes`].
    pub cluster_sizes: bool,
    /// Fill [`Products::tracks`].
    pub tracks: bool,
    /// Fill [`Products::records`].
    pub records: bool,
    /// Fill [`Products::heaps`].
    pub heaps: bool,
}

impl Want {
    /// All that a detector can fill.
    pub const ALL: Want = Want {
        hits: true,
        strip_hits: true,
        module_hits: true,
        clusters: true,
        cluster_sizes: true,
        tracks: true,
        records: true,
        heaps: true,
    };

    /// What either of the two wants.
    pub fn or(self, other: Want) -> Want {
        Want {
            hits: self.hits || other.hits,
            strip_hits: self.strip_hits || other.strip_hits,
            module_hits: self.module_hits || other.module_hits,
            clusters: self.clusters || other.clusters,
            cluster_sizes: self.cluster_sizes || other.cluster_sizes,
            tracks: self.tracks || other.tracks,
            records: self.records || other.records,
            heaps: self.heaps || other.heaps,
        }
    }
}

/// All that one batch of chunks became.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Products {
    /// Events: always filled.
    pub events: EventBatch,
    /// Hits with amplitudes, if wanted.
    pub hits: HitBatch,
    /// Hits of strips and pads, if wanted.
    pub strip_hits: StripHits,
    /// Hits of modules or cassettes, if wanted.
    pub module_hits: ModuleHits,
    /// Clusters of planes, if wanted.
    pub plane_clusters: PlaneClusters,
    /// Clusters of detectors, if wanted.
    pub detector_clusters: DetectorClusters,
    /// Sizes of clusters for pictures, if wanted.
    pub cluster_sizes: ClusterBatch,
    /// A sample of single events with their hits, if wanted.
    pub tracks: TrackBatch,
    /// Events merged of fragments, if wanted.
    pub records: EventRecords,
    /// Heaps with their arrays, if wanted.
    pub heaps: Vec<Arc<HeapProduct>>,
    /// What to fill.
    pub want: Want,
    /// Which part of a replay these are.
    pub phase: Phase,
    /// The newest batch that the decoder was given.
    pub batch: BatchNumber,
    /// With these products all is there that comes of the batches up to this one; for outputs.
    pub complete: BatchNumber,
    /// What waited was decided for this reason, in the midst of a run; for outputs.
    pub flush: Option<Flush>,
}

/// Where in a replay products were made: outputs that go on with an interrupted one must know. Sources that
/// cannot be replayed say [`Phase::Underway`] throughout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// In the middle: every replay of the same gives the same here.
    #[default]
    Underway,
    /// The replay was cut short, and what waited for its neighbours was finished without them: another replay,
    /// which goes on, gives something else here.
    CutShort,
    /// The replay came to its end; nothing follows.
    Complete,
}

impl Products {
    /// Forgets the rows, keeps memory and subscription.
    pub fn clear(&mut self) {
        self.events.clear();
        self.hits.clear();
        self.strip_hits.clear();
        self.module_hits.clear();
        self.plane_clusters.clear();
        self.detector_clusters.clear();
        self.cluster_sizes.clear();
        self.tracks.clear();
        self.records.clear();
        self.heaps.clear();
        self.phase = Phase::Underway;
        self.flush = None;
    }

    /// True if there is nothing to hand on.
    pub fn is_empty(&self) -> bool {
        self.phase != Phase::Complete
            && self.events.is_empty()
            && self.rows() == 0
            && self.cluster_sizes.plane.is_empty()
            && self.tracks.first.is_empty()
            && self.records.is_empty()
            && self.heaps.is_empty()
    }

    /// Rows of the groups beside the events.
    #[inline]
    pub fn rows(&self) -> usize {
        Table::ALL.iter().map(|table| table.rows(self)).sum()
    }

    /// Bytes of these rows, of the records and of arrays of heaps.
    #[inline]
    pub fn table_bytes(&self) -> usize {
        let rows = Table::ALL.iter().map(|table| table.rows(self) * table.row_bytes());
        let heaps: usize = self.heaps.iter().map(|heap| heap.bytes()).sum();
        rows.sum::<usize>() + heaps + self.records.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_know_where_each_event_ends() {
        let mut t = TrackBatch::default();
        for (event, hits) in [(5, 2), (6, 0), (7, 3)] {
            t.begin(event);
            (0..hits).for_each(|n| t.push(0, n, 0, 1));
        }
        assert_eq!(t.events().collect::<Vec<_>>(), [0..2, 2..2, 2..5]);
        let mut both = t.clone();
        both.append(&t);
        assert_eq!(both.events().collect::<Vec<_>>(), [0..2, 2..2, 2..5, 5..7, 7..7, 7..10]);
        assert_eq!(both.strip, [&t.strip[..], &t.strip].concat());
        t.clear();
        assert_eq!(t, TrackBatch::default());
    }

    #[test]
    fn long_clusters_stay_in_their_column_and_wants_add_up() {
        let mut c = ClusterBatch::default();
        c.push(1, 70_000, 9, 8);
        assert_eq!((c.size[0], c.plane[0]), (u16::MAX, 1));
        let hits = Want { hits: true, ..Want::default() };
        let tracks = Want { tracks: true, ..Want::default() };
        assert_eq!(hits.or(tracks), Want { hits: true, tracks: true, ..Want::default() });
    }

    #[test]
    fn events_keep_their_pulse_and_empty_pulses_stay() {
        let mut e = EventBatch::default();
        e.open_pulse(PulseTime(100));
        e.push(1, 7);
        e.open_pulse(PulseTime(200));
        e.open_pulse(PulseTime(300));
        e.open_pulse(PulseTime(300));
        e.push(5, 8);
        assert_eq!(e.pulse_first, [0, 1, 1]);
        assert_eq!(e.absolute().collect::<Vec<_>>(), [(101, 7), (305, 8)]);
    }

    #[test]
    fn a_batch_behind_another_is_one_batch() {
        let rows = [
            (100, Some((1, 7))),
            (200, None),
            (300, Some((5, 8))),
            (300, Some((6, 9))),
            (400, Some((0, 1))),
        ];
        let of = |rows: &[(i64, Option<(u32, u32)>)]| {
            let mut e = EventBatch::default();
            for &(pulse, event) in rows {
                e.open_pulse(PulseTime(pulse));
                event.into_iter().for_each(|(offset, pixel)| e.push(offset, pixel));
            }
            e
        };
        for cut in 0..=rows.len() {
            let mut joined = of(&rows[..cut]);
            joined.append(&of(&rows[cut..]));
            assert_eq!(joined, of(&rows), "{cut}");
        }
    }
}
