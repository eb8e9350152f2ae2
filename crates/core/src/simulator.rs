//! The seam of every simulated detector: an order in, trains of equal packets out, with the truth of each.
//!
//! A [`Simulator`] is a kind that a user can name (`send --source KIND`): it declares its options and makes
//! [`Traffic`] of an order. It also declares what `demo` and `lab` need to know of a detector ([`facts`]), so
//! that no other file names it. A [`Traffic`] owns its packets in memory and patches only numbers and times
//! in place, so that preparing costs far less than sending. Its packets stay addressable one by one: faults
//! (loss, duplication, reordering) are applied by the sender before segmentation. Source:
//! `docs/simulators.md`, `docs/decisions/0017-simulators.md`.

pub mod conformance;
pub mod facts;
pub mod made;
mod order;
pub mod taste;

use crate::destination::PacketNumbers;
use facts::{Declared, SimulatedLoad};

pub use order::{
    OptionUnit, SimulatorOption, SimulatorPace, TrafficError, TrafficOptions, TrafficOrder,
};

/// Packets of one source port and of equal length, contiguous in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedPackets<'a> {
    /// All packets; `packets × stride` bytes.
    pub bytes: &'a [u8],
    /// Bytes per packet, 1 to 65,507.
    pub stride: usize,
    /// Number of packets, at least 1.
    pub packets: usize,
    /// Which of the source ports ([`Traffic::lanes`]) has to send them, counted from 0.
    pub lane: usize,
}

impl<'a> PreparedPackets<'a> {
    /// The packets one by one, for faults and for transports without segmentation.
    pub fn each(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks_exact(self.stride)
    }
}

/// What has been handed out so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficTotals {
    /// Packets, without end marks.
    pub packets: u64,
    /// Payload bytes of these packets.
    pub bytes: u64,
    /// Events that a decoder makes of them (readouts that have a pixel; of coincidence detectors the
    /// events that nothing overlaps); 0 for `sequence`.
    pub events: u64,
}

/// What a detector that keeps its own clock has ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyPackets {
    /// Complete packets.
    pub packets: usize,
    /// When the next one may be complete, ns on the same clock: a good time to ask again. Not later than what was asked for
    /// if there are more by then.
    pub next_ns: u64,
}

/// A simulated readout system.
pub trait Traffic: Send {
    /// Name as in `send --source`.
    fn name(&self) -> &'static str;

    /// Source ports it needs: 1, or more where one port cannot number all modules.
    fn lanes(&self) -> usize {
        1
    }

    /// Longest packet, payload bytes: what a slot of the sender must hold.
    fn largest_packet(&self) -> usize;

    /// Mean payload bytes per packet over a whole cycle; turns bit rates into packet rates.
    fn mean_packet(&self) -> f64;

    /// The next 1 to `packets` packets (fewer where the cycle or the lane ends); `None` when a
    /// count limit is reached or `packets` is 0. A sender may ask for more than one kernel train
    /// and split what it gets at any multiple of the stride. `now_ns` is the sender's clock, ns
    /// since 1970 UTC, for formats that carry it.
    fn next_train(&mut self, packets: usize, now_ns: u64) -> Option<PreparedPackets<'_>>;

    /// Of a detector whose clock goes as fast as real time: how many packets, at most `most`, are complete `at_ns`
    /// after it began, that is, their last readout has been made. `None`: its packets are spaced by a rate alone, and
    /// its clock goes as fast as they do.
    fn ready(&mut self, at_ns: u64, most: usize) -> Option<ReadyPackets> {
        let _ = (at_ns, most);
        None
    }

    /// Packets that complete what a count or a duration cut: asked for after the last train until there are none. They are
    /// packets as those of [`Traffic::next_train`].
    fn remainder(&mut self) -> Option<PreparedPackets<'_>> {
        None
    }

    /// Packets that tell the receiver the total, to be sent on lane 0 after the last train, the first at once and the others as its
    /// repeats, further and further apart. They are not part of [`Traffic::totals`], except of a format whose mark
    /// is a packet as any other, sent once. Empty for formats without such a mark.
    fn end(&mut self) -> Vec<Vec<u8>>;

    /// True if packets tell their own lengths: on a byte stream they need nothing in front.
    fn is_framed(&self) -> bool {
        false
    }

    /// Numbers of the packets of each lane, if each has the next one.
    fn numbers(&self) -> Option<PacketNumbers> {
        None
    }

    /// Amounts handed out so far.
    fn totals(&self) -> TrafficTotals;

    /// Events handed out per pixel, index = pixel − 1; `None` for traffic without pixels.
    fn truth(&self) -> Option<Vec<u64>> {
        None
    }

    /// From now on every row of truth goes to `witness` when its packet is handed out. False if this
    /// traffic has no rows; the witness is dropped then.
    fn watch(&mut self, witness: made::Witness) -> bool {
        let _ = witness;
        false
    }
}

/// Traffic that was made, and how it is to be sent.
pub struct TrafficMade {
    /// The packets.
    pub traffic: Box<dyn Traffic>,
    /// Packets a second at which the rate is the one that was asked for; `None`: as fast as possible.
    pub packets_per_s: Option<f64>,
    /// Source port of each lane; empty: any port.
    pub ports: Vec<u16>,
    /// The detector's own rate was asked for and is more than it gives in real time: its clock goes faster than the host's.
    pub faster: bool,
    /// Packets and simulated seconds of one turn, before anything repeats; `None`: nothing does.
    pub turn: Option<(u64, f64)>,
}

/// A sort of simulated detector that can be asked for by name.
pub trait Simulator: Send + Sync {
    /// What it is, and what `demo` and `lab` need to know of it.
    fn declared(&self) -> &'static Declared;

    /// Makes the packets.
    ///
    /// # Errors
    /// A value that is not possible, with its range.
    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError>;

    /// The text of the geometry file that a receiver on the same host needs; `None`: its decoder has none.
    ///
    /// # Errors
    /// A value that is not possible, with its range.
    fn geometry(&self, order: &TrafficOrder<'_>) -> Result<Option<String>, TrafficError> {
        let _ = order;
        Ok(None)
    }

    /// The source ports that its packets need; empty: any port.
    ///
    /// # Errors
    /// A value that is not possible, with its range.
    fn ports(&self, order: &TrafficOrder<'_>) -> Result<Vec<u16>, TrafficError> {
        let _ = order;
        Ok(Vec::new())
    }

    /// What `lab detectors` measures its decoder with. Where one load has to do for all (a table by detector), it is the last.
    fn loads(&self) -> Vec<SimulatedLoad> {
        Vec::new()
    }

    /// Its name.
    fn name(&self) -> &'static str {
        self.declared().name
    }
}

/// Simulated detectors by name. An application adds its own kinds to the built-in ones.
#[derive(Default)]
pub struct Simulators {
    kinds: Vec<Box<dyn Simulator>>,
}

impl Simulators {
    /// No kinds.
    pub fn empty() -> Simulators {
        Simulators::default()
    }

    /// Adds a kind; a later one of the same name wins.
    pub fn register(&mut self, kind: Box<dyn Simulator>) {
        self.kinds.retain(|k| k.name() != kind.name());
        self.kinds.push(kind);
    }

    /// Known kinds, in the order in which they were added.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn Simulator> {
        self.kinds.iter().map(|k| &**k)
    }

    /// The kind called `name`.
    pub fn find(&self, name: &str) -> Option<&dyn Simulator> {
        self.kinds().find(|k| k.name() == name)
    }

    /// Names of the kinds that `wanted` says yes to, as in a sentence: `a, b or c`.
    pub fn names(&self, wanted: impl Fn(&dyn Simulator) -> bool) -> String {
        let names = self.kinds().filter(|k| wanted(*k)).map(Simulator::name).collect::<Vec<_>>();
        either(&names)
    }
}

/// Words as in a sentence: `a, b or c`.
pub fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static DECLARED: [Declared; 3] = [
        Declared::new("a", "nothing"),
        Declared::new("b", "nothing"),
        Declared::new("c", "nothing"),
    ];

    struct Named(&'static Declared);

    impl Simulator for Named {
        fn declared(&self) -> &'static Declared {
            self.0
        }
        fn make(&self, _: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
            Err(TrafficError::value("rate", 0, "none"))
        }
    }

    #[test]
    fn kinds_are_found_by_name_and_the_last_of_a_name_wins() {
        let mut all = Simulators::empty();
        for n in [0, 1, 2, 1] {
            all.register(Box::new(Named(&DECLARED[n])));
        }
        assert_eq!(all.names(|_| true), "a, c or b");
        assert_eq!(all.names(|k| k.name() == "c"), "c");
        assert!(all.find("b").is_some() && all.find("d").is_none());
        assert_eq!(either(&[]), "");
    }
}
