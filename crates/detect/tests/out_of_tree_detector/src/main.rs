//! A detector outside the workspace: one byte per readout, from a pretend beam monitor.
//!
//! Shows what a detector needs: a `Kind` that reads its options, a `Detector`, a `Reader` with counters and a
//! run-time command, a `Builder` that holds readouts back, an `Inspector`. Refuses empty packets and
//! pixel bytes above 64. Registers itself beside the built-in kinds and runs the conformance suite.

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::time::{Nanos, PulseGrid, TickLength};
use fullcount_core::view::{PixelMap, Plot, PlotKind};
use fullcount_detect::conformance;
use fullcount_detect::detector::{
    Clock, CommandError, CommandInfo, Detector, Inspected, Inspector, Kind, Reader, Registry,
    Setup, SetupError, Sharding,
};

const PIXELS: u8 = 64;

fullcount_core::counters! {
    /// What the monitor counts.
    pub enum Count {
        Packets "monitor.packets" Packets Sum "decode" In "packets read" "";
        Accepted "monitor.accepted" Packets Sum "decode" Accepted "packets decoded" "";
        Empty "monitor.empty" Packets Sum "decode" Rejected "packets without a byte" "check the monitor's cable";
        Readouts "monitor.readouts" Readouts Sum "geometry" In "bytes read" "";
        Events "monitor.events" Readouts Sum "geometry" Accepted "bytes that are a pixel" "";
        Outside "monitor.outside" Readouts Sum "geometry" Rejected "bytes above 64 or 0" "check the monitor's threshold";
    }
}

struct Monitor;

impl Kind for Monitor {
    fn name(&self) -> &'static str {
        "monitor"
    }

    // Its readouts have no time at all.
    fn clock(&self) -> Clock {
        Clock::Absolute
    }

    fn about(&self) -> &'static str {
        "pretend beam monitor: one byte per readout"
    }

    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, SetupError> {
        if setup.options.trim().is_empty() {
            return Ok(Box::new(MonitorDetector(setup.time.grid)));
        }
        Err(SetupError::Value {
            key: "detector".into(),
            value: setup.options.clone(),
            allowed: "the monitor has no options".into(),
        })
    }
}

struct MonitorDetector(PulseGrid);

impl Detector for MonitorDetector {
    fn name(&self) -> &str {
        "monitor"
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(MonitorReader { sheet: Sheet::new(Count::catalogue()), grid: self.0 })
    }

    fn sharding(&self) -> Sharding {
        Sharding::Serial
    }

    fn tick(&self) -> (TickLength, bool) {
        (TickLength::NANOSECOND, false)
    }

    fn pixels(&self) -> PixelMap {
        let n = u32::from(PIXELS);
        PixelMap {
            name: "monitor".into(),
            columns: n,
            rows: 1,
            cell: (0..n).collect(),
            x_m: (0..n).map(|i| f64::from(i) * 1e-3).collect(),
            y_m: vec![0.0; PIXELS.into()],
            ..PixelMap::default()
        }
    }

    fn plots(&self) -> Vec<Plot> {
        let (id, title) = ("image".to_owned(), "Monitor".to_owned());
        vec![Plot { id, title, kind: PlotKind::Image, gates: Vec::new(), log: false }]
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(MonitorInspector)
    }
}

struct MonitorReader {
    sheet: Arc<Sheet>,
    grid: PulseGrid,
}

impl Reader for MonitorReader {
    fn read(&mut self, batch: &Batch, products: &mut Products) {
        for chunk in batch.trains().flat_map(|t| t.chunks()) {
            self.sheet.add(Count::Packets as usize, 1);
            let line = if chunk.is_empty() { Count::Empty } else { Count::Accepted };
            self.sheet.add(line as usize, 1);
            for (i, &byte) in chunk.iter().enumerate() {
                self.sheet.add(Count::Readouts as usize, 1);
                if !(1..=PIXELS).contains(&byte) {
                    self.sheet.add(Count::Outside as usize, 1);
                    continue;
                }
                self.sheet.add(Count::Events as usize, 1);
                let (pulse, _) = self.grid.around(Nanos(i as i64));
                products.events.open_pulse(pulse);
                products.events.push((i as i64 - pulse.0) as u32, byte.into());
            }
        }
    }

    fn finish(&mut self, _: &mut Products) {}

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn commands(&self) -> Vec<CommandInfo> {
        vec![CommandInfo { name: "MONITOR_PIXELS".into(), help: "number of pixels".into() }]
    }

    fn command(&mut self, name: &str, _: &[&str]) -> Result<String, CommandError> {
        match name {
            "MONITOR_PIXELS" => Ok(PIXELS.to_string()),
            _ => Err(CommandError::Unknown(name.to_owned())),
        }
    }
}

struct MonitorInspector;

impl Inspector for MonitorInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let row = |(i, &b): (usize, &u8)| vec![i as i64, i64::from(b)];
        Inspected {
            header: vec![("bytes", chunk.len().to_string())],
            error: chunk.is_empty().then_some(("bad_size", "empty")),
            columns: vec!["time", "byte"],
            rows: chunk.iter().enumerate().map(row).collect(),
            ..Inspected::default()
        }
    }
}

fn main() {
    let mut registry = Registry::builtin();
    registry.register(Box::new(Monitor));
    let names: Vec<_> = registry.kinds().map(|k| k.name()).collect();
    let detector = registry.configure("monitor", &Setup::default()).expect("no options");
    let mut reader = detector.reader();
    assert_eq!(reader.command("MONITOR_PIXELS", &[]), Ok("64".to_owned()));
    assert!(reader.command("NO_SUCH", &[]).is_err());
    let packets = [vec![1, 2, 64], vec![65, 0, 3], Vec::new(), vec![9; 40]];
    let packets: Vec<_> = packets.into_iter().map(|p| (p, Origin::NONE)).collect();
    match conformance::check(&Monitor, &Setup::default(), &packets, 5000, 11) {
        Ok(report) => println!("{}: {} events", names.join(" "), report.events),
        Err(failure) => panic!("{failure}"),
    }
}
