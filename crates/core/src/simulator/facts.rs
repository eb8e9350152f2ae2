//! What a simulated detector declares for `demo` and `lab`: how it is shown, measured, compared and planned with.
//!
//! Plain values without behaviour. Published rates and sizes have their source next to them, in the kind's
//! folder.

use super::{SimulatorOption, TrafficOptions};

/// All of it in one value.
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    /// Name as in `send --source`, and as in `detector.kind` of the decoder that reads its packets.
    pub name: &'static str,
    /// One line for help texts: what is simulated.
    pub about: &'static str,
    /// Its name in a sentence or a title.
    pub title: &'static str,
    /// What can be set, beside rate and seed. Each is an option of `send`.
    pub options: &'static [SimulatorOption],
    /// The rate unless one is given, for help texts; `None`: flat out.
    pub usual_rate: Option<&'static str>,
    /// Whole commands for help texts, without the program's name; each verb shows those that begin with it.
    pub examples: &'static [&'static str],
    /// What a truth file of it has; `None`: it makes no rows of truth.
    pub truth_columns: Option<TruthColumns>,
    /// How `demo` shows it; `None`: it is not shown.
    pub demonstration: Option<Demonstration>,
    /// What real detectors of this sort sent, in the folder of its name below the vectors.
    pub recorded: &'static [RecordedInput],
    /// True if reading without building events is a figure of its own, of recorded packets.
    pub reads_apart: bool,
    /// What other software was published to do with such a detector.
    pub published: Option<PublishedRates>,
    /// Instruments that `lab capacity` knows by name.
    pub instruments: &'static [PaperInstrument],
    /// How `lab truth` compares its decoder's events with the truth; `None`: it does not.
    pub truth: Option<TruthRules>,
}

impl Declared {
    /// A simulated detector of which no more is declared.
    pub const fn new(name: &'static str, about: &'static str) -> Declared {
        Declared {
            name,
            about,
            title: name,
            options: &[],
            usual_rate: None,
            examples: &[],
            truth_columns: None,
            demonstration: None,
            recorded: &[],
            reads_apart: false,
            published: None,
            instruments: &[],
            truth: None,
        }
    }
}

/// How `demo` shows a detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demonstration {
    /// What is simulated, for the help text: `400 modules`.
    pub extent: &'static str,
    /// Rate unless one is given.
    pub rate: &'static str,
    /// What the title of the file says behind `Fullcount demonstration: `.
    pub title: &'static str,
    /// Name of the geometry file; empty: the decoder has none.
    pub geometry_file: &'static str,
    /// `time.pulse`.
    pub pulse: &'static str,
    /// `time.tick`; `None`: the format says it.
    pub tick: Option<&'static str>,
    /// Options of the simulator.
    pub options: &'static [(&'static str, &'static str)],
    /// Keys of the decoder, as `detector.KEY=VALUE`.
    pub settings: &'static [&'static str],
}

/// Simulated packets that a decoder is measured with.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedLoad {
    /// Name of the input, as in `lab detectors --input`: `simulated` for the load that is measured where one has to do.
    pub name: &'static str,
    /// What that is.
    pub about: &'static str,
    /// Options of the simulator.
    pub options: TrafficOptions,
    /// Events a second.
    pub events_per_s: f64,
    /// True if the decoder gets the simulator's geometry; otherwise its own default.
    pub with_geometry: bool,
    /// Keys of the decoder, as `detector.KEY=VALUE`.
    pub settings: &'static [&'static str],
}

/// A decoder of a table of recorded readouts: text to packets.
pub type TableOfPackets = fn(&str) -> Result<Vec<Vec<u8>>, String>;

/// How recorded packets are stored.
#[derive(Debug, Clone, Copy)]
pub enum RecordedFile {
    /// One payload.
    Payload(&'static str),
    /// A capture, pcap or pcapng.
    Capture(&'static str),
    /// A table of readouts, and how packets are made of it.
    Table(&'static str, TableOfPackets),
}

impl RecordedFile {
    /// Path below the kind's folder.
    pub fn path(self) -> &'static str {
        match self {
            RecordedFile::Payload(path)
            | RecordedFile::Capture(path)
            | RecordedFile::Table(path, _) => path,
        }
    }
}

/// Recorded packets that a decoder is measured with. Paths are below the kind's folder of the vectors.
#[derive(Debug, Clone, Copy)]
pub struct RecordedInput {
    /// Name of the input, as in `lab detectors --input`.
    pub name: &'static str,
    /// What that is.
    pub about: &'static str,
    /// The packets.
    pub file: RecordedFile,
    /// Geometry file; empty: the decoder's default.
    pub geometry: &'static str,
    /// Calibration file; empty: none.
    pub calibration: &'static str,
    /// Keys of the decoder, as `detector.KEY=VALUE`.
    pub settings: &'static [&'static str],
}

/// What other software was published to do with such a detector; `None`: not given there.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PublishedRates {
    /// Packets/s.
    pub packets: Option<f64>,
    /// Bytes of a packet.
    pub packet_bytes: Option<f64>,
    /// Readouts/s.
    pub readouts: Option<f64>,
    /// Triggers/s.
    pub triggers: Option<f64>,
    /// Events/s, least and most.
    pub events: Option<(f64, f64)>,
    /// Cores used.
    pub cores: u32,
    /// What was measured there.
    pub about: &'static str,
}

/// An instrument as a paper plans it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperInstrument {
    /// Name, lower case.
    pub name: &'static str,
    /// Its detector, if it is not this one but one without a decoder, whose cost of an event is assumed to be this one's.
    pub technology: Option<&'static str>,
    /// Event rate over the detector, MHz.
    pub mhz: f64,
    /// Data rate into processing, MB/s.
    pub mb_per_s: f64,
}

/// Columns of a truth file in addition to those of every detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruthColumns {
    /// A tick of [`super::made::Made::time`]: numerator and denominator, ns.
    pub tick: (u32, u32),
    /// True with places finer than a pixel.
    pub spots: bool,
}

/// Where events and neutrons can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthGroup {
    /// At one time: that of a trigger.
    Time,
    /// In one packet.
    Packet,
}

/// How an event is found to be a neutron's.
#[derive(Debug, Clone, Copy)]
pub enum TruthMeeting {
    /// By pixel and time.
    Pixels {
        /// Where they can meet.
        group: TruthGroup,
        /// Events may lie so far from their neutron, ns.
        reach_ns: i64,
        /// Module of a pixel, of so many modules.
        module: fn(pixel: u32, modules: usize) -> u16,
    },
    /// By place along x and y, in strips, of the table of detector clusters.
    Places {
        /// Width of a strip, mm.
        pitch_mm: f64,
        /// Keys of a second decoder whose events have one more place, as `detector.KEY=VALUE`.
        second: &'static [&'static str],
        /// What the last two ways to a place are set by, for the text.
        ways: &'static str,
    },
}

/// How `lab truth` compares events with what was simulated.
#[derive(Debug, Clone, Copy)]
pub struct TruthRules {
    /// Rates unless given.
    pub rates: &'static [&'static str],
    /// Highest rate, Hz.
    pub most_hz: f64,
    /// Range of a rate, for texts.
    pub range: &'static str,
    /// True if rates are of each module; else over the detector.
    pub per_module: bool,
    /// Noise unless given.
    pub noise: &'static [&'static str],
    /// Modules unless given.
    pub modules: usize,
    /// Possible numbers of modules, for texts; empty: they cannot be set.
    pub modules_range: &'static str,
    /// What a module is called, many of them.
    pub modules_name: &'static str,
    /// Bytes that a neutron takes in a turn, about.
    pub bytes_per_neutron: usize,
    /// When a neutron is clean, for the help text: nothing else lies `in its trigger`.
    pub clean: &'static str,
    /// Keys of the decoder, as `detector.KEY=VALUE`.
    pub settings: &'static [&'static str],
    /// How events and neutrons meet.
    pub meeting: TruthMeeting,
}
