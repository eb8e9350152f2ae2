//! Declaration of SoNDe as a simulated detector.
//!
//! Published figures: M. J. Christensen et al., "Software-based data acquisition and processing for neutron detectors at
//! European Spallation Source – early experience from four detector designs", JINST 13 T11002, 2018, tables 1 and 5, as given
//! in `docs/formats/sonde.md`.

use std::net::Ipv4Addr;

use fullcount_core::simulator::facts::{
    Declared, Demonstration, PaperInstrument, PublishedRates, RecordedFile, RecordedInput,
    SimulatedLoad,
};
use fullcount_core::simulator::{
    Simulator, SimulatorOption, SimulatorPace, TrafficError, TrafficMade, TrafficOptions,
    TrafficOrder,
};

use super::panel::SimulatedPanel;
use super::{DeviceMode, SimulatedSonde, SondeSetup};

/// The kind for the registry.
#[derive(Debug, Clone, Copy)]
pub struct SondeKind;

const OPTIONS: [SimulatorOption; 3] = [
    SimulatorOption::new("entries", "N", "readouts per packet", "1 to 255", "250"),
    SimulatorOption::new("mode", "MODE", "data mode", "d6 (time), d5 or d4 (pulse height)", "d6"),
    SimulatorOption::new(
        "modules",
        "MODULES",
        "modules",
        "one, all (400 in 100 groups of 2 x 2, as in the demo) or COLUMNSxROWS",
        "one",
    ),
];

/// Events a second unless a rate is given.
const USUAL: f64 = 1e6;
/// Readouts per packet unless given.
const ENTRIES: usize = 250;

fn panel(order: &TrafficOrder<'_>) -> Result<SimulatedPanel, TrafficError> {
    let text = order.options.get("modules").unwrap_or("one");
    let panel = match text {
        "one" => SimulatedPanel::new(1, 1)?,
        "all" => SimulatedPanel::full(),
        other => {
            let wrong =
                || TrafficError::value("modules", other, "one, all, or COLUMNSxROWS such as 4x4");
            let (c, r) = other.split_once('x').ok_or_else(wrong)?;
            let (columns, rows) = c.parse().ok().zip(r.parse().ok()).ok_or_else(wrong)?;
            SimulatedPanel::new(columns, rows)?
        }
    };
    match order.first_port {
        Some(port) => panel.from_port(port),
        None => Ok(panel),
    }
}

const DECLARED: Declared = Declared {
    title: "SoNDe",
    options: &OPTIONS,
    usual_rate: Some("1Mev/s"),
    examples: &[
        "send --to udp://127.0.0.1:9000 --source sonde --rate 1Mev/s --duration 60s",
        "send --to udp://127.0.0.1:9000 --source sonde --modules all --print-geometry > all.toml",
        "send --to udp://daq1:9000 --source 'pcap:a.pcapng?repeat=100&shift' --detector sonde",
        "run --source udp://0.0.0.0:9000 --detector sonde --nexus run42.nxs",
        "run --source udp://0.0.0.0:9000 --detector sonde --kafka kafka://broker/sonde_detector",
        "run --source xdp://eth0:9000 --detector sonde --sink null",
        "run --source 'pcap:run42.pcapng?flat-out' --detector sonde --sink null --json",
        "inspect pcap:run42.pcapng --detector sonde --count 3",
        "lab detectors --detector sonde --input simulated --cores 1",
        "lab detectors --detector sonde --duration 2s --repeats 5 --out /var/tmp",
        "lab detectors --detector sonde --capture sonde=run42.pcapng --geometry sonde=all.toml",
        "lab detectors --detector sonde --instructions portable --name sonde-portable",
    ],
    demonstration: Some(Demonstration {
        extent: "400 modules",
        rate: "1Mev/s",
        title: "small-angle scattering",
        geometry_file: "geometry.toml",
        pulse: "grid(14Hz)",
        tick: Some("1ns"),
        options: &[("modules", "all")],
        settings: &[],
    }),
    recorded: &[RecordedInput {
        name: "recorded",
        about: "one recorded packet of 64 samples with amplitude (0xD5)",
        file: RecordedFile::Payload("d5_capture_all_channels_64_samples.bin"),
        geometry: "",
        calibration: "",
        settings: &[],
    }],
    published: Some(PublishedRates {
        packets: Some(94e3),
        // 1307 bytes of frame, 1261 of them UDP payload.
        packet_bytes: Some(1261.0),
        readouts: Some(23.5e6),
        triggers: None,
        events: Some((23.5e6, 23.5e6)),
        cores: 2,
        about: "UDP, whole chain",
    }),
    instruments: &[PaperInstrument {
        name: "skadi",
        technology: None,
        mhz: 37.0,
        mb_per_s: 1180.0,
    }],
    ..Declared::new("sonde", "panel of SoNDe modules behind a small-angle scattering sample")
};

impl Simulator for SondeKind {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        let panel = panel(order)?;
        let mode = match order.options.get("mode").unwrap_or("d6") {
            "d6" => DeviceMode::TriggerTime,
            "d5" => DeviceMode::SingleEvent,
            "d4" => DeviceMode::MultiEvent,
            other => return Err(TrafficError::value("mode", other, "d6, d5 or d4")),
        };
        let entries = order.options.whole("entries", "1 to 255")?.unwrap_or(ENTRIES);
        // The packet's shape decides how bits and packets become events.
        let (bytes, events) = SimulatedSonde::packet(mode, entries)?;
        let events_per_s = match order.pace {
            SimulatorPace::Usual => USUAL,
            SimulatorPace::Events(n) => n,
            SimulatorPace::Link(pps) => pps(bytes as f64) * events as f64,
        };
        let (seed, count) = (order.seed, None);
        let traffic =
            SimulatedSonde::new(&SondeSetup { panel, mode, entries, events_per_s, seed, count })?;
        let packets_per_s = match order.pace {
            SimulatorPace::Link(_) => events_per_s / events as f64,
            SimulatorPace::Usual | SimulatorPace::Events(_) => traffic.packets_per_s(),
        };
        Ok(TrafficMade {
            traffic: Box::new(traffic),
            packets_per_s: Some(packets_per_s),
            ports: self.ports(order)?,
            // Its prepared pulse goes as fast as the clock, too.
            faster: false,
            turn: None,
        })
    }

    fn geometry(&self, order: &TrafficOrder<'_>) -> Result<Option<String>, TrafficError> {
        Ok(Some(panel(order)?.geometry_toml(Ipv4Addr::LOCALHOST.into())))
    }

    fn ports(&self, order: &TrafficOrder<'_>) -> Result<Vec<u16>, TrafficError> {
        let panel = panel(order)?;
        Ok(match panel.lanes() {
            1 => vec![],
            n => (0..n).map(|lane| panel.source_port(lane)).collect(),
        })
    }

    fn loads(&self) -> Vec<SimulatedLoad> {
        vec![SimulatedLoad {
            name: "simulated",
            about: "32 modules of one sender, 250 trigger times a packet as in the paper (0xD6)",
            options: TrafficOptions::of(&[("modules", "8x4")]),
            events_per_s: 250e6,
            with_geometry: false,
            settings: &[],
        }]
    }
}
