//! Multi-Grid packets for people: what the packet holds, then one row per readout or external trigger.
//!
//! Same checks and same verdict as the reader, by the same functions. A packet that is refused in its third
//! event shows the first two. Rows of a glitch and of readouts without hit are there too, with `hit` 0. Source:
//! `docs/formats/multigrid.md` sections 2 to 4.

use std::sync::Arc;

use crate::hits::PlaneHit;
use fullcount_core::batch::Origin;

use super::channels::{Channels, ReadoutPlace, bus_channel};
use super::container;
use super::file::{DatagramFormat, MultiGridConfig};
use super::mapping::Plane;
use super::records;
use super::words::{HighTime, Take};
use crate::detector::{Inspected, Inspector};

/// `time` is in ticks of 62.5 ns; `plane` as the format numbers it (2 × bus for wires, one more for grids,
/// 254 external trigger, 255 none); `coordinate` 65535: none; `hit` 0: filtered, glitch or no place.
const COLUMNS: [&str; 9] =
    ["trigger", "time", "bus", "channel", "adc", "time_diff", "plane", "coordinate", "hit"];

/// Shows packets in the order of the stream: the high part of the time is carried on.
pub(super) struct MultigridInspector {
    format: DatagramFormat,
    channels: Arc<Channels>,
    glitch_limit: usize,
    high: HighTime,
}

/// Word and time difference of a readout; `None`: an external trigger.
type Seen = Option<(u32, u16)>;

#[derive(Default)]
struct Entries(Vec<Seen>);

impl Take for Entries {
    fn readout(&mut self, word: u32, time_diff: u16) {
        self.0.push(Some((word, time_diff)));
    }
    fn pulse(&mut self, _: u32) {
        self.0.push(None);
    }
}

/// A readout as it stands in a row.
struct Row {
    trigger: i64,
    time: i64,
    bus: u8,
    channel: u16,
    adc: u16,
    time_diff: u16,
}

impl MultigridInspector {
    pub fn new(config: &MultiGridConfig, channels: Arc<Channels>, glitch_limit: usize) -> Self {
        let high = HighTime::new(config.spoof_high_time);
        MultigridInspector { format: config.format, channels, glitch_limit, high }
    }

    fn row(&self, row: Row, glitch: bool) -> Vec<i64> {
        let place = self.channels.of(row.bus, row.channel);
        let (plane, coordinate) = match place {
            Some(ReadoutPlace { coordinate, plane: Plane::Wires, .. }) => {
                (2 * i64::from(row.bus), coordinate)
            }
            Some(ReadoutPlace { coordinate, plane: Plane::Grids, .. }) => {
                (2 * i64::from(row.bus) + 1, coordinate)
            }
            None => (255, u16::MAX),
        };
        let hit = !glitch && place.is_some_and(|p| self.channels.weight(p, row.adc).is_some());
        vec![
            row.trigger,
            row.time,
            row.bus.into(),
            row.channel.into(),
            row.adc.into(),
            row.time_diff.into(),
            plane,
            coordinate.into(),
            hit.into(),
        ]
    }

    /// A row of an external trigger: it has no bus and no channel.
    fn pulse(trigger: i64, time: i64, glitch: bool) -> Vec<i64> {
        let plane = PlaneHit::PULSE.into();
        vec![trigger, time, 0, 0, 0, 0, plane, u16::MAX.into(), (!glitch).into()]
    }

    fn packet(&mut self, chunk: &[u8], shown: &mut Inspected) {
        let mut triggers = Vec::new();
        let rest = container::sub_buffers(chunk, |data, sequence| triggers.push((data, sequence)));
        let first = triggers.first().map(|t| t.1);
        let (mut empty, mut external, mut refused) = (0, 0, Vec::new());
        for (n, (data, _)) in (1i64..).zip(&triggers) {
            let mut entries = Entries::default();
            match self.high.decode(data, &mut entries) {
                Ok(good) => {
                    let glitch = entries.0.len() > self.glitch_limit;
                    empty += usize::from(entries.0.is_empty());
                    for entry in &entries.0 {
                        external += usize::from(entry.is_none());
                        shown.rows.push(match *entry {
                            None => Self::pulse(n, good.time, glitch),
                            Some((word, time_diff)) => {
                                let (bus, channel) = bus_channel(word);
                                let adc = word as u16 & 0xfff;
                                let time = good.time;
                                let row = Row { trigger: n, time, bus, channel, adc, time_diff };
                                self.row(row, glitch)
                            }
                        });
                    }
                    if glitch {
                        refused.push(format!("{n} (glitch)"));
                    }
                }
                Err(bad) => refused.push(format!("{n} ({})", bad.error.reason())),
            }
        }
        let kind = chunk.first().map_or("none".to_owned(), |b| format!("0x{b:02x}"));
        shown.header.push(("type", kind));
        shown.header.extend(first.map(|n| ("first_event", n.to_string())));
        shown.header.push(("triggers", triggers.len().to_string()));
        for (name, n) in [("empty", empty), ("external", external)] {
            if n > 0 {
                shown.header.push((name, n.to_string()));
            }
        }
        if !refused.is_empty() {
            shown.header.push(("refused_triggers", refused.join(", ")));
        }
        for (name, n) in [("discarded_bytes", rest.discarded), ("ignored_bytes", rest.ignored)] {
            if n > 0 {
                shown.header.push((name, n.to_string()));
            }
        }
        shown.error = rest.refusal.map(|refusal| ("container", refusal.reason()));
    }

    fn records(&self, chunk: &[u8], shown: &mut Inspected) {
        for r in records::records(chunk) {
            let trigger = r.trigger as i64;
            let (time, bus, channel, adc, time_diff) =
                (r.time, r.bus, r.channel, r.adc, r.time_diff);
            shown.rows.push(match r.external {
                true => Self::pulse(trigger, time, false),
                false => self.row(Row { trigger, time, bus, channel, adc, time_diff }, false),
            });
        }
        shown.header.push(("records", shown.rows.len().to_string()));
    }
}

impl Inspector for MultigridInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let mut shown = Inspected { columns: COLUMNS.to_vec(), ..Inspected::default() };
        match self.format {
            DatagramFormat::Mesytec => self.packet(chunk, &mut shown),
            DatagramFormat::Records => self.records(chunk, &mut shown),
        }
        shown
    }
}
