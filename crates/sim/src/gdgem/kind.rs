//! Declaration of Gd-GEM as a simulated detector.
//!
//! Published figures: as in `docs/formats/gdgem.md` (the event formation paper of 2018, tables 1 and 5).

use fullcount_core::simulator::facts::{
    Declared, Demonstration, PaperInstrument, PublishedRates, RecordedFile, RecordedInput,
    SimulatedLoad, TruthColumns, TruthMeeting, TruthRules,
};
use fullcount_core::simulator::{
    Simulator, SimulatorOption, TrafficError, TrafficMade, TrafficOptions, TrafficOrder,
};

use super::{GdGemSetup, PITCH_MM, REAL_TIME_HZ, SimulatedGdGem};
use crate::noise::NOISY;
use crate::orders;

/// The kind for the registry.
#[derive(Debug, Clone, Copy)]
pub struct GdGemKind;

/// The load that is measured: the most neutrons a second that are played in real time if they keep apart.
const LOAD_HZ: f64 = 1e6;

const OPTIONS: [SimulatorOption; 3] = [
    SimulatorOption::new("entries", "N", "words of a frame", "50 to 1492", "1492"),
    SimulatorOption::new(
        "hits",
        "N",
        "hits of each track in each plane",
        "1 to 20",
        "as the track goes",
    ),
    SimulatorOption {
        about: "what it sends beside single neutrons, as shares of them: dark=1%,bad=0.1%,coincidence=0.1%; packet=0.1% \
                (of the packets); pileup=random or =1%; dead=1% (of the strips)",
        ..orders::NOISE
    },
];

/// It has its four sectors and nothing else.
fn sectors(order: &TrafficOrder<'_>) -> Result<(), TrafficError> {
    match order.options.get("modules") {
        None => Ok(()),
        Some(text) => {
            Err(TrafficError::value("modules", text, "none: the Gd-GEM has its four sectors"))
        }
    }
}

// Settings: how the captures' makers convert them.
const EXAMPLE: &[&str] = &[
    "detector.bc=44.444",
    "detector.ccs=3",
    "detector.dt=100",
    "detector.spc=200",
    "detector.crl=0.2",
    "detector.cru=10",
];

const XYU: &[&str] = &["detector.ccs=3", "detector.crl=0.2", "detector.cru=10"];

const DECLARED: Declared = Declared {
    title: "Gd-GEM",
    options: &OPTIONS,
    usual_rate: Some("100kev/s"),
    examples: &[
        "send --to udp://127.0.0.1:9000 --source gdgem --rate 1Mev/s --noise pileup=random",
        "run --source 'pcap:a.pcapng?flat-out' --detector gdgem --hits h.h5 --clusters c.h5",
        "lab detectors --detector gdgem --build-threads 2 --repeats 5",
        "lab truth --detector gdgem --rates 100kHz,1MHz,5MHz --neutrons 1M",
    ],
    // ns, and where each neutron converted.
    truth_columns: Some(TruthColumns { tick: (1, 1), spots: true }),
    demonstration: Some(Demonstration {
        extent: "4 sectors",
        rate: "100kev/s",
        title: "Gd-GEM",
        geometry_file: "geometry.json",
        pulse: "none",
        tick: None,
        options: &[],
        // Its sectors stand side by side.
        settings: &["detector.one_picture=true"],
    }),
    recorded: &[
        RecordedInput {
            name: "recorded-xyu",
            about: "a recorded capture of three planes, 66,912 hits in clusters of 3, VMM3a at 40 MHz",
            file: RecordedFile::Capture("example_xyu.pcapng"),
            geometry: "vmm/example_geometry_xyu.json",
            calibration: "",
            settings: XYU,
        },
        RecordedInput {
            name: "recorded-calibrated",
            about: "the next one with a calibration that corrects amplitude, time and time walk",
            file: RecordedFile::Capture("example.pcapng"),
            geometry: "vmm/example_geometry.json",
            calibration: "calibration/full_calibration.json",
            settings: EXAMPLE,
        },
        RecordedInput {
            name: "recorded",
            about: "a recorded capture of two planes, 149,180 hits in clusters of 5, VMM3a at 44.4 MHz",
            file: RecordedFile::Capture("example.pcapng"),
            geometry: "vmm/example_geometry.json",
            calibration: "",
            settings: EXAMPLE,
        },
    ],
    reads_apart: true,
    published: Some(PublishedRates {
        packets: None,
        packet_bytes: None,
        readouts: Some(18.6e6),
        triggers: None,
        // "0.5 to 1 million".
        events: Some((0.5e6, 1e6)),
        cores: 1,
        about: "the algorithm alone",
    }),
    instruments: &[PaperInstrument { name: "nmx", technology: None, mhz: 5.0, mb_per_s: 300.0 }],
    truth: Some(TruthRules {
        rates: &["100kHz", "1MHz", "5MHz"],
        most_hz: 20e6,
        range: "1Hz to 20MHz over the detector, e.g. 5MHz",
        per_module: false,
        noise: &["none", "dark=1%,bad=1%,coincidence=0.1%,packet=0.1%", "dead=1%"],
        modules: 1,
        modules_range: "",
        modules_name: "four sectors of 640 strips in x and y",
        bytes_per_neutron: 105,
        clean: "within 300 ns before or behind its track in its sector",
        settings: &["detector.one_picture=true", "detector.algo=6"],
        meeting: TruthMeeting::Places {
            pitch_mm: PITCH_MM,
            second: &["detector.algo=100"],
            ways: "Weighted µTPC: `algo = 6` unless set otherwise. Late end: `algo = 100`.",
        },
    }),
    ..Declared::new("gdgem", "Gd-GEM of four sectors behind SRS electronics with VMM3a chips")
};

impl Simulator for GdGemKind {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        sectors(order)?;
        let base = GdGemSetup::default();
        let setup = GdGemSetup {
            neutrons_per_s: orders::neutrons(order.pace, base.neutrons_per_s, REAL_TIME_HZ),
            hits: order.options.whole("hits", "1 to 20")?,
            words: order.options.whole("entries", "50 to 1492")?,
            noise: orders::noise(order)?,
            seed: order.seed,
            prepared_bytes: order.prepared_bytes.unwrap_or(base.prepared_bytes),
            count: None,
        };
        let made = SimulatedGdGem::new(&setup)?;
        let (pps, turn) = (made.packets_per_s(), (made.turn().0, made.turn_s()));
        Ok(orders::made(Box::new(made), order.pace, pps, turn))
    }

    fn geometry(&self, order: &TrafficOrder<'_>) -> Result<Option<String>, TrafficError> {
        sectors(order)?;
        Ok(Some(SimulatedGdGem::configuration()))
    }

    fn loads(&self) -> Vec<SimulatedLoad> {
        let load = |name, about, options: &[(&str, &str)]| SimulatedLoad {
            name,
            about,
            options: TrafficOptions::of(options),
            events_per_s: LOAD_HZ,
            with_geometry: true,
            settings: &["detector.one_picture=true"],
        };
        vec![
            load(
                "noisy",
                "4 sectors with 1,000,000 neutrons/s in all, tracks of any length at random times, 10 % dark counts, 1 % \
                 refused words, 1 % chance coincidences, 0.1 % broken packets",
                &[("noise", NOISY)],
            ),
            load(
                "simulated",
                "4 sectors with 1,000,000 neutrons/s in all, tracks of 10 + 10 hits, full frames of 1492 words, no noise",
                &[("hits", "10")],
            ),
        ]
    }
}
