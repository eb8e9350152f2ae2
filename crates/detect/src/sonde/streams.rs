//! Who sends: per (origin, system number) the sequence state, the clock and the module's pixels.
//!
//! Source: `docs/formats/sonde.md` section 5.

use fullcount_core::ledger::Unit;
use fullcount_core::sequence::numbering::{Book, Limit, Numbering, Per};
use fullcount_core::sequence::streams::{Series, Streams};

use super::arrival::Pace;
use super::clock::HeaderTime;
use crate::detector::SeenModule;

/// Packet counts that a missing one is waited for. A stream is one device on one way through the network,
/// so packets overtake each other by a GRO train (64 packets) or two: 256 is four of them. A gap is then
/// decided after 160 ms at 1,600 packets/s and module, and soon at any rate; the default of 4,096 numbers,
/// made for one stream at full line rate, would keep a loss open for seconds. The smaller the window, the
/// more of the 14-bit range is left to tell a restart.
const WINDOW: u32 = 256;

/// The packet count. One turn takes 205 ms at 80,000 packets/s.
pub(super) fn numbering(max_streams: u32) -> Numbering {
    Numbering {
        bits: 14,
        unit: Unit::Packets,
        called: "packet counts",
        per: Per::SenderAnd("system number"),
        window: Limit::Fixed(WINDOW),
        streams: Some(Limit::Set(max_streams)),
        drops_copies: false,
    }
}

/// What one observed packet count says under the published rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// As expected, or the first of its stream.
    Expected,
    /// A gap of 1..=8192 packets.
    Gap(u64),
    /// A gap above 8192: a repeated or reordered packet.
    OutOfOrder,
}

/// Sequence state of one stream.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Expected next count of the published rule.
    expected: Option<u16>,
    pub series: Series,
}

impl Sequence {
    fn new(numbering: &Numbering) -> Sequence {
        Sequence { expected: None, series: Series::new(numbering) }
    }

    /// Whatever number comes next is the first. What was expected.
    pub fn begin_anew(&mut self, book: &mut Book) -> Option<u16> {
        self.series.begin_anew(book);
        self.expected.take()
    }

    /// The published rule: first packet no error, then any difference is one.
    #[inline]
    pub fn publish(&mut self, count: u16) -> Published {
        let expected = self.expected.replace((count + 1) & 0x3fff);
        match expected.map_or(0, |e| count.wrapping_sub(e) & 0x3fff) {
            0 => Published::Expected,
            gap @ 1..=8192 => Published::Gap(u64::from(gap)),
            _ => Published::OutOfOrder,
        }
    }
}

impl Stream {
    fn new(sequence: usize, offset: Option<u32>) -> Stream {
        Stream { sequence, time: None, before: None, pace: Pace::default(), offset, packets: 0 }
    }

    /// Its own clock again, if this packet count goes on where it stopped: then nobody else had its packets.
    pub fn resume(&mut self, count: u16) -> Option<HeaderTime> {
        let (time, expected) = self.before.take()?;
        let ahead = count.wrapping_sub(expected) & 0x3fff;
        let near = WINDOW as u16;
        (ahead <= near || ahead >= 0x4000 - near).then_some(time)
    }
}

/// One sender: an origin and a system number.
#[derive(Debug)]
pub(super) struct Stream {
    /// Place of its sequence state.
    pub sequence: usize,
    /// Header time of its newest accepted packet.
    pub time: Option<HeaderTime>,
    /// The same from before somebody else may have had packets, and the packet count that would have come next.
    pub before: Option<(HeaderTime, u16)>,
    /// What its receive times have shown.
    pub pace: Pace,
    /// What is added to the module's pixels; `None` if the geometry does not list it.
    pub offset: Option<u32>,
    /// Packets with a readable header.
    pub packets: u64,
}

/// All streams of one reader.
#[derive(Debug)]
pub(super) struct Modules {
    /// By origin and system number, of which there are 32.
    pub found: Streams<Stream, 32>,
    pub sequences: Vec<Sequence>,
    numbering: Numbering,
}

impl Modules {
    /// As many as `numbering` says; all with one sequence state if it is that of a whole run.
    pub fn new(numbering: Numbering) -> Modules {
        Modules { found: Streams::new(&numbering), sequences: Vec::new(), numbering }
    }

    fn one_sequence(&self) -> bool {
        self.numbering.per == Per::Run
    }

    /// A new stream at a place, with what is added to its module's pixels.
    pub fn begin(&mut self, at: usize, offset: Option<u32>) {
        let one = self.one_sequence();
        let sequence = if one { 0 } else { at };
        self.found.begin(at, Stream::new(sequence, offset));
        match self.sequences.get_mut(sequence) {
            // That of all others as well.
            Some(_) if one => {}
            Some(old) => *old = Sequence::new(&self.numbering),
            None => self.sequences.push(Sequence::new(&self.numbering)),
        }
    }

    /// Tells of each module; what is missing of one that shares its numbers with others is not known.
    pub fn tell(&self, tell: &mut dyn FnMut(SeenModule)) {
        for ((origin, id), stream) in self.found.followed() {
            let own = self.sequences.get(stream.sequence).filter(|_| !self.one_sequence());
            let lost = own.map_or(0, |sequence| sequence.series.tracker().totals().lost);
            tell(SeenModule { origin, id, packets: stream.packets, lost });
        }
    }

    /// The sequence state that goes with a stream, if it has one of its own.
    pub fn own_sequence(&mut self, at: usize) -> Option<&mut Sequence> {
        let own = !self.one_sequence();
        self.sequences.get_mut(self.found.all.get(at)?.sequence).filter(|_| own)
    }
}

#[cfg(test)]
mod tests {
    use fullcount_core::batch::Origin;

    use super::*;

    #[test]
    fn one_sequence_state_can_serve_all() {
        let mut modules = Modules::new(Numbering { per: Per::Run, ..numbering(2) });
        for (o, system) in [(1, 0), (1, 1), (2, 0)] {
            modules.found.train(Origin { ip: [o; 16], port: 1 });
            let at = modules.found.find(system).place();
            modules.begin(at, None);
            assert_eq!((modules.found.all[at].sequence, modules.sequences.len()), (0, 1));
            assert!(modules.own_sequence(at).is_none());
        }
    }

    #[test]
    fn the_published_rule_on_its_borders() {
        let mut s = Sequence::new(&numbering(1));
        let verdicts: Vec<_> =
            [16383, 0, 1, 8194, 8195, 8195, 1, 16384 - 8190].map(|n| s.publish(n)).into();
        use Published::*;
        // 8194 after 1 is a gap of 8192; 8195 twice is one of 16383; 1 after 8195 is 8189; 8194 after
        // 1 again 8192.
        assert_eq!(
            verdicts,
            [Expected, Expected, Expected, Gap(8192), Expected, OutOfOrder, Gap(8189), Gap(8192)]
        );
        assert_eq!(s.publish(8194 + 8194), OutOfOrder, "8193 is out of order");
    }
}
