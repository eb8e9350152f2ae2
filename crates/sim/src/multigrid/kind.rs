//! Declaration of Multi-Grid as a simulated detector.
//!
//! Published figures: as in `docs/formats/multigrid.md` (the event formation paper of 2018, tables 1 and 5).

use fullcount_core::simulator::facts::{
    Declared, Demonstration, PaperInstrument, PublishedRates, RecordedFile, RecordedInput,
    SimulatedLoad, TruthColumns, TruthGroup, TruthMeeting, TruthRules,
};
use fullcount_core::simulator::{
    OptionUnit, Simulator, SimulatorOption, TrafficError, TrafficMade, TrafficOptions, TrafficOrder,
};

use super::{MOST_MODULES, MultiGrid, MultiGridSetup, REAL_TIME_HZ, modules_refused};
use crate::noise::NOISY;
use crate::orders;

/// The kind for the registry.
#[derive(Debug, Clone, Copy)]
pub struct MultiGridKind;

/// Modules of the published configuration.
const MODULES: usize = 3;
/// Neutrons per second and module unless a rate is given.
const USUAL_HZ: f64 = 10e3;
/// The load that is measured: neutrons a second of [`MODULES`], 100,000 each.
const LOAD_HZ: f64 = 300e3;

const OPTIONS: [SimulatorOption; 3] = [
    SimulatorOption::new("modules", "MODULES", "modules", "1 to 16", "3"),
    orders::NOISE,
    SimulatorOption {
        unit: OptionUnit::Hertz,
        ..SimulatorOption::new("pulse-rate", "RATE", "external triggers", "1Hz to 1000Hz", "14Hz")
    },
];

fn modules(order: &TrafficOrder<'_>) -> Result<usize, TrafficError> {
    let modules = order.options.whole("modules", "1 to 16")?.unwrap_or(MODULES);
    match (1..=MOST_MODULES).contains(&modules) {
        true => Ok(modules),
        false => Err(modules_refused(modules)),
    }
}

const DECLARED: Declared = Declared {
    title: "Multi-Grid",
    options: &OPTIONS,
    usual_rate: Some("10kev/s a module"),
    examples: &[
        "send --to udp://127.0.0.1:9000 --source multigrid --rate 100kev/s --truth truth.csv",
        "demo --detector multigrid --dir demo-multigrid",
        "lab truth --detector multigrid --require 99.9%",
    ],
    truth_columns: Some(TruthColumns { tick: (125, 2), spots: false }),
    demonstration: Some(Demonstration {
        extent: "3 modules",
        rate: "100kev/s",
        title: "Multi-Grid",
        geometry_file: "geometry.json",
        // The external triggers in the data.
        pulse: "data",
        tick: None,
        options: &[],
        settings: &[],
    }),
    recorded: &[RecordedInput {
        name: "vectors",
        about: "all packets of the vectors, damaged ones included; two recorded ones, mostly glitches",
        file: RecordedFile::Capture("multigrid.pcap"),
        geometry: "config/three_modules_mg24.json",
        calibration: "",
        settings: &[],
    }],
    published: Some(PublishedRates {
        packets: Some(86e3),
        packet_bytes: Some(1137.0),
        readouts: None,
        triggers: Some(3.0e6),
        events: Some((2.46e6, 2.46e6)),
        cores: 1,
        about: "UDP, whole chain",
    }),
    // LoKI's two options have no decoder here. This is the slower one of the two decoders with 8 B a neutron in that table.
    instruments: &[
        PaperInstrument { name: "c-spec", technology: None, mhz: 10.0, mb_per_s: 80.0 },
        PaperInstrument {
            name: "loki-band-gem",
            technology: Some("BAND-GEM"),
            mhz: 34.0,
            mb_per_s: 272.0,
        },
        PaperInstrument {
            name: "loki-bcs",
            technology: Some("BCS (boron-coated straws)"),
            mhz: 37.0,
            mb_per_s: 298.0,
        },
        PaperInstrument { name: "t-rex", technology: None, mhz: 10.0, mb_per_s: 80.0 },
    ],
    truth: Some(TruthRules {
        rates: &["1kHz", "10kHz", "100kHz"],
        most_hz: 100e3,
        range: "1Hz to 100kHz, for example 10kHz",
        per_module: true,
        noise: &["none", "dark=1%,bad=1%,coincidence=0.1%,packet=0.1%"],
        modules: MODULES,
        modules_range: "1 to 16",
        modules_name: "modules",
        bytes_per_neutron: 80,
        clean: "in its trigger",
        settings: &[],
        meeting: TruthMeeting::Pixels {
            group: TruthGroup::Time,
            reach_ns: 2010,
            module: |pixel, modules| (pixel.saturating_sub(1) as usize % (4 * modules) / 4) as u16,
        },
    }),
    ..Declared::new("multigrid", "Multi-Grid detector behind a Mesytec VMMR and an SIS3153")
};

impl Simulator for MultiGridKind {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        let base = MultiGridSetup::default();
        let modules = modules(order)?;
        let all = modules as f64;
        let neutrons_per_s = orders::neutrons(order.pace, USUAL_HZ * all, REAL_TIME_HZ * all);
        let pulse_hz = order.options.number("pulse-rate", "1Hz to 1000Hz")?;
        let setup = MultiGridSetup {
            modules,
            neutrons_per_s,
            noise: orders::noise_of_readouts(order)?,
            pulse_hz: pulse_hz.unwrap_or(base.pulse_hz),
            seed: order.seed,
            prepared_bytes: order.prepared_bytes.unwrap_or(base.prepared_bytes),
            count: None,
        };
        let made = MultiGrid::new(&setup)?;
        let (pps, turn) = (made.packets_per_s(), (made.turn().0, made.turn_s()));
        Ok(orders::made(Box::new(made), order.pace, pps, turn))
    }

    fn geometry(&self, order: &TrafficOrder<'_>) -> Result<Option<String>, TrafficError> {
        Ok(Some(MultiGrid::configuration(modules(order)?)))
    }

    fn loads(&self) -> Vec<SimulatedLoad> {
        let load = |name, about, options: &[(&str, &str)]| SimulatedLoad {
            name,
            about,
            options: TrafficOptions::of(options),
            events_per_s: LOAD_HZ,
            with_geometry: true,
            settings: &[],
        };
        vec![
            load(
                "noisy",
                "3 modules as simulated, with 10 % dark counts, 1 % inconsistent readouts, 1 % chance coincidences, 0.1 % broken \
                 packets, neutrons at random times",
                &[("noise", NOISY)],
            ),
            load(
                "simulated",
                "3 modules with 100,000 neutrons/s each, empty triggers between as recorded, no noise",
                &[],
            ),
        ]
    }
}
