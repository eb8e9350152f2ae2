//! Declaration of Multi-Blade as a simulated detector.
//!
//! Published figures: as in `docs/formats/multiblade.md` (the event formation paper of 2018, tables 1 and 5).

use fullcount_core::simulator::facts::{
    Declared, Demonstration, PaperInstrument, PublishedRates, RecordedFile, RecordedInput,
    SimulatedLoad, TruthColumns, TruthGroup, TruthMeeting, TruthRules,
};
use fullcount_core::simulator::{
    Simulator, SimulatorOption, TrafficError, TrafficMade, TrafficOptions, TrafficOrder,
};

use super::recorded;
use super::{MultiBladeSetup, REAL_TIME_HZ, SimulatedMultiBlade, TICK_NS};
use crate::noise::NOISY;
use crate::orders;

/// The kind for the registry.
#[derive(Debug, Clone, Copy)]
pub struct MultiBladeKind;

/// Cassettes of the prototype.
const CASSETTES: usize = 6;
/// Neutrons per second and cassette unless a rate is given.
const USUAL_HZ: f64 = 10e3;
/// The load that is measured: neutrons a second of [`CASSETTES`], 100,000 each.
const LOAD_HZ: f64 = 600e3;

const OPTIONS: [SimulatorOption; 3] = [
    SimulatorOption::new("entries", "N", "readouts per packet", "2 to 1121", "8 to 70 by rate"),
    SimulatorOption::new("modules", "MODULES", "cassettes", "6 or 50", "6"),
    SimulatorOption {
        about: "what it sends beside single neutrons, as shares of them: dark=1%,bad=0.1%,coincidence=0.1%; packet=0.1% \
                (of the packets); pileup=random or =1%; monitor=1% (of 6 cassettes)",
        ..orders::NOISE
    },
];

fn cassettes(order: &TrafficOrder<'_>) -> Result<usize, TrafficError> {
    Ok(order.options.whole("modules", "6 or 50")?.unwrap_or(CASSETTES))
}

const DECLARED: Declared = Declared {
    title: "Multi-Blade",
    options: &OPTIONS,
    usual_rate: Some("10kev/s a cassette"),
    examples: &[
        "send --to udp://127.0.0.1:9000 --source multiblade --noise dark=1%,bad=0.1%",
        "send --to kafka://localhost/logs --print-structure --events loki_detector/loki \\\n      \
             --detector multiblade --geometry loki.json > run.json",
        "lab truth --detector multiblade --modules 50 --rates 10kHz --noise none --noise dark=5%",
        "lab truth --detector multiblade --set detector.resolve_doubles=true --name truth-doubles",
    ],
    truth_columns: Some(TruthColumns { tick: (TICK_NS, 1), spots: false }),
    demonstration: Some(Demonstration {
        extent: "6 cassettes",
        rate: "100kev/s",
        title: "Multi-Blade",
        geometry_file: "geometry.json",
        // Its times begin anew every 20 ms and know no pulse.
        pulse: "none",
        tick: None,
        options: &[],
        settings: &[],
    }),
    recorded: &[RecordedInput {
        name: "recorded",
        about: "1000 recorded packets of about 12 readouts, MB18 in Freia orientation, 2018",
        file: RecordedFile::Table("readouts_a01000.csv", |text| {
            recorded::packets(text).map_err(|e| e.to_string())
        }),
        geometry: "config/MB18Freia.json",
        calibration: "",
        settings: &[],
    }],
    published: Some(PublishedRates {
        packets: Some(82e3),
        packet_bytes: None,
        readouts: Some(5.6e6),
        triggers: None,
        events: Some((2.31e6, 2.31e6)),
        cores: 2,
        about: "UDP, whole chain",
    }),
    instruments: &[
        PaperInstrument { name: "estia", technology: None, mhz: 500.0, mb_per_s: 4000.0 },
        PaperInstrument { name: "freia", technology: None, mhz: 100.0, mb_per_s: 800.0 },
    ],
    truth: Some(TruthRules {
        rates: &["1kHz", "10kHz", "100kHz"],
        most_hz: 100e3,
        range: "1Hz to 100kHz, for example 10kHz",
        per_module: true,
        noise: &["none", "dark=1%,bad=1%,coincidence=0.1%,packet=0.1%"],
        modules: CASSETTES,
        modules_range: "6 or 50",
        modules_name: "cassettes",
        bytes_per_neutron: 40,
        clean: "within 2010 ns before or behind its readouts",
        settings: &[],
        meeting: TruthMeeting::Pixels {
            group: TruthGroup::Packet,
            // An event's time may be that of a readout before the neutron in the same box of 2010 ns.
            reach_ns: 2010,
            module: |pixel, cassettes| {
                let strips = if cassettes == CASSETTES { 32 } else { 64 };
                (pixel.saturating_sub(1) as usize / strips / 32) as u16
            },
        },
    }),
    ..Declared::new("multiblade", "Multi-Blade detector behind CAEN digitisers")
};

impl Simulator for MultiBladeKind {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        let base = MultiBladeSetup::default();
        let cassettes = cassettes(order)?;
        let all = cassettes as f64;
        let setup = MultiBladeSetup {
            cassettes,
            neutrons_per_s: orders::neutrons(order.pace, USUAL_HZ * all, REAL_TIME_HZ * all),
            readouts: order.options.whole("entries", "2 to 1121")?,
            noise: orders::noise_of_readouts(order)?,
            seed: order.seed,
            prepared_bytes: order.prepared_bytes.unwrap_or(base.prepared_bytes),
            count: None,
        };
        let made = SimulatedMultiBlade::new(&setup)?;
        let (pps, turn) = (made.packets_per_s(), (made.turn().0, made.turn_s()));
        Ok(orders::made(Box::new(made), order.pace, pps, turn))
    }

    fn geometry(&self, order: &TrafficOrder<'_>) -> Result<Option<String>, TrafficError> {
        SimulatedMultiBlade::configuration(cassettes(order)?).map(Some)
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
                "dense",
                "6 cassettes with 100,000 neutrons/s each in packets of 8,976 bytes, no noise",
                // 32 + 8 · 1118 = 8976 bytes, a frame of MTU 9000 with its headers.
                &[("entries", "1118")],
            ),
            load(
                "noisy",
                "6 cassettes as simulated, with 10 % dark counts, 1 % inconsistent readouts, 1 % chance \
                 coincidences, 0.1 % broken packets, neutrons at random times",
                &[("noise", NOISY)],
            ),
            load(
                "simulated",
                "6 cassettes with 100,000 neutrons/s each in packets as recorded, no noise",
                &[],
            ),
        ]
    }
}
