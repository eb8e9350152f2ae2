//! `lab stcp sweep`: throughput over fragment sizes, simplified TCP and Linux sockets, as figure 3 of the paper.

use std::path::PathBuf;
use std::time::Duration;

use fullcount_io::host::unit::longest_unit;
use fullcount_io::raw::UNIT;
use fullcount_stcp::Strategy;
use serde_json::json;

use super::place::{CONTROL, limited};
use super::sender::LiveSender;
use super::tape::FrameTape;
use super::trial::LiveTrial;
use super::{LiveFound, gbps};
use crate::Tell;
use crate::error::LabError;
use crate::plot::{Chart, ChartLine, Dot, PlotAxis, Stroke};
use crate::record::{self, Record};

/// Sizes of fragments, bytes, as the reference was measured.
pub const SIZES: [usize; 7] = [16, 64, 256, 1024, 4096, 16384, 65536];
/// Plateaus of the paper's figure 3, Gb/s: Linux sockets, and its emulator. Where they begin is not known ([`PAPER_FROM`]).
pub const PAPER: [(&str, f64); 2] = [
    ("paper: plateau of its sockets, 9.89 Gb/s", 9.89),
    ("paper: plateau of its emulator, 6.89 Gb/s", 6.89),
];
/// The one size, bytes, that is known to be on both plateaus: the largest of the paper's figure.
pub const PAPER_FROM: usize = 65_536;
/// Rate of the paper's other line, Hz.
const TRIGGERS: f64 = 1e5;
/// Fragment that a 10GE link carries at this rate, bytes.
const FULL: f64 = 12_500.0;

/// What is asked.
#[derive(Debug, Clone)]
pub struct StcpSweep {
    /// Limits of the link, bit/s; `None`: no limit.
    pub links: Vec<Option<u64>>,
    /// Who.
    pub senders: Vec<LiveSender>,
    /// Sizes of fragments, bytes: 1 to the send buffer.
    pub sizes: Vec<usize>,
    /// Times each point is measured.
    pub repeats: usize,
    /// Longest IP packet, bytes.
    pub mtu: usize,
    /// Send buffer, bytes.
    pub buffer: usize,
    /// Of each trial.
    pub time: Duration,
    /// Frames go here too, up to so many bytes.
    pub frames_to: Option<(PathBuf, u64)>,
}

/// A measured point.
#[derive(Debug, Clone)]
struct Point {
    link: Option<u64>,
    sender: LiveSender,
    size: usize,
    figure: record::Figure,
    cpu: f64,
}

/// What a limit is called.
pub fn link_name(link: Option<u64>) -> String {
    link.map_or("no limit".to_owned(), |bits| format!("{} Gb/s", bits as f64 / 1e9))
}

impl StcpSweep {
    /// Measures all points, the senders of a size one after the other so that each meets the same host.
    ///
    /// # Errors
    /// No network, or a connection that ended.
    pub fn run(
        &self,
        record: &mut Record,
        stop: &dyn Fn() -> bool,
        tell: Tell,
    ) -> Result<LiveFound, LabError> {
        record.parameter("mtu", self.mtu).parameter("send_buffer", self.buffer);
        // A kernel before 6.3 tells of none, and its links keep 64 KiB.
        record.parameter("unit_without_limit", longest_unit("lo").map(|_| UNIT));
        record.parameter("tcp_congestion_control", CONTROL);
        record.parameter("seconds", self.time.as_secs_f64()).parameter("repeats", self.repeats);
        let tape = FrameTape::create(self.frames_to.as_ref())?;
        let mut points = vec![];
        for &link in &self.links {
            for &size in &self.sizes {
                points.extend(self.size((link, size), &tape, stop, tell)?);
            }
        }
        tape.finish(record)?;
        for p in &points {
            record.row(json!({
                "link": link_name(p.link), "sender": p.sender.name(), "fragment_bytes": p.size,
                "gbps": p.figure.value, "low": p.figure.interval.0, "high": p.figure.interval.1,
                "repeats": p.figure.repeats, "sender_cpu_s_per_gb": (p.cpu * 1e4).round() / 1e4,
            }));
        }
        let figure = |link: &Option<u64>| self.figure(record.name(), *link, &points);
        Ok(LiveFound {
            text: self.table(&points),
            figures: self.links.iter().map(figure).collect(),
            missed: missed(&points),
        })
    }

    fn size(
        &self,
        (link, size): (Option<u64>, usize),
        tape: &FrameTape,
        stop: &dyn Fn() -> bool,
        tell: Tell,
    ) -> Result<Vec<Point>, LabError> {
        let fits = |s: &&LiveSender| link.is_none() || s.feels_limit();
        let senders: Vec<LiveSender> = self.senders.iter().filter(fits).copied().collect();
        let mut rates = vec![(vec![], vec![]); senders.len()];
        for _ in 0..self.repeats {
            for (&sender, rates) in senders.iter().zip(&mut rates) {
                if stop() {
                    return Err(LabError::Failed(anyhow::anyhow!("interrupted")));
                }
                let trial = LiveTrial {
                    sender,
                    fragment: size,
                    streams: 1,
                    mtu: self.mtu,
                    limit: link.map(limited),
                    buffer: self.buffer,
                    strategy: Strategy::SIMPLIFIED,
                    warm_up: Duration::from_millis(300),
                    time: self.time,
                };
                let outcome = trial.run(tape, stop)?;
                rates.0.push(gbps(outcome.bits_per_s));
                rates.1.push(outcome.cpu_s_per_gb);
            }
        }
        let mut points = vec![];
        for (&sender, (rates, cpu)) in senders.iter().zip(&rates) {
            let Some(figure) = record::Figure::of(rates, "Gb/s") else { continue };
            tell(&format!(
                "{}, {size} B, {}: {:.3} Gb/s ({:.3} to {:.3})",
                link_name(link),
                sender.name(),
                figure.value,
                figure.interval.0,
                figure.interval.1
            ));
            let cpu = record::Figure::of(cpu, "s").map_or(0.0, |f| f.value);
            points.push(Point { link, sender, size, figure, cpu });
        }
        Ok(points)
    }

    fn table(&self, points: &[Point]) -> String {
        let mut text = String::new();
        for &link in &self.links {
            text += &format!(
                "\nLink: {}. Gb/s that were read, median (least to most).\n\n",
                link_name(link)
            );
            text += &format!("| fragment, B | {} | 100 kHz |\n", self.names().join(" | "));
            text += &format!("|---|{}\n", "---|".repeat(self.senders.len() + 1));
            for &size in &self.sizes {
                let cell = |sender: &LiveSender| {
                    let of = |p: &&Point| (p.link, p.sender, p.size) == (link, *sender, size);
                    points.iter().find(of).map_or("—".to_owned(), |p| {
                        let (low, high) = p.figure.interval;
                        format!("{:.3} ({low:.3} to {high:.3})", p.figure.value)
                    })
                };
                let cells: Vec<String> = self.senders.iter().map(cell).collect();
                text +=
                    &format!("| {size} | {} | {:.3} |\n", cells.join(" | "), size as f64 * 8e-4);
            }
        }
        text
    }

    fn names(&self) -> Vec<&'static str> {
        self.senders.iter().map(|s| s.name()).collect()
    }

    fn figure(&self, record: &str, link: Option<u64>, points: &[Point]) -> Chart {
        let dot = |x: f64, y: f64| Dot { x, y, spread: None, below: false };
        let of = |sender: LiveSender| {
            let mine = points.iter().filter(move |p| (p.link, p.sender) == (link, sender));
            mine.map(|p| Dot {
                spread: Some(p.figure.interval),
                ..dot(p.size as f64, p.figure.value)
            })
        };
        let mut lines: Vec<ChartLine> = self
            .senders
            .iter()
            .enumerate()
            .map(|(i, &sender)| ChartLine {
                name: sender.name().to_owned(),
                colour: i,
                stroke: Stroke::Solid,
                dots: of(sender).collect(),
            })
            .filter(|line| !line.dots.is_empty())
            .collect();
        lines.extend(self.of_paper(lines.len()));
        let file = link.map_or("unlimited".to_owned(), |bits| format!("{}g", bits / 1_000_000_000));
        Chart {
            name: format!("{record}-{file}"),
            title: format!("Fragment size and throughput, link: {}", link_name(link)),
            x_label: "Fragment, B".to_owned(),
            y_label: "Read by a Linux receiver, Gb/s".to_owned(),
            x_axis: PlotAxis::Logarithmic,
            axis: PlotAxis::Linear(10.0),
            lines,
        }
    }

    /// What the paper's figure 3 has at the sizes of this one; colours from `colour` on.
    fn of_paper(&self, colour: usize) -> Vec<ChartLine> {
        let dot = |x: f64, y: f64| Dot { x, y, spread: None, below: false };
        let ends = self.sizes.iter().min().zip(self.sizes.iter().max());
        let Some((&least, &most)) = ends else { return vec![] };
        let mut lines = vec![];
        if (least..=most).contains(&PAPER_FROM) {
            let plateau = |(i, (name, y)): (usize, (&str, f64))| ChartLine {
                name: name.into(),
                colour: colour + i,
                stroke: Stroke::Dashed,
                dots: vec![dot(PAPER_FROM as f64, y)],
            };
            lines.extend(PAPER.into_iter().enumerate().map(plateau));
        }
        // As far as the rate of a 10GE link; a curve, since the axis is logarithmic.
        let (from, to) = (least as f64, (most as f64).min(FULL));
        if from <= to {
            let curve = (0..=64).map(|i| from * (to / from).powf(f64::from(i) / 64.0));
            let dots = curve.map(|size| dot(size, size * 8.0 * TRIGGERS / 1e9)).collect();
            let name = "100 kHz".to_owned();
            lines.push(ChartLine { name, colour: 6, stroke: Stroke::Floor, dots });
        }
        lines
    }
}

/// The targets of docs/stcp.md that these points are about.
fn missed(points: &[Point]) -> Vec<String> {
    let mut missed = vec![];
    let value = |link: Option<u64>, sender: &str, size: usize| {
        let of = |p: &&Point| (p.link, p.sender.name(), p.size) == (link, sender, size);
        points.iter().find(of).map(|p| p.figure.value)
    };
    for p in points {
        let (name, got) = (p.sender.name(), p.figure.value);
        let mut want = |least: f64, why: &str| {
            if got < least {
                let link = link_name(p.link);
                missed.push(format!(
                    "{link}, {name}, {} B: {got:.3} Gb/s of {least:.3} ({why})",
                    p.size
                ));
            }
        };
        let linux = value(p.link, "linux", p.size);
        match (p.link, name) {
            (Some(10_000_000_000), "offload") => {
                if p.size >= 16 {
                    want(if p.size >= 64 { 9.0 } else { 8.0 }, "target of the size");
                }
                if let Some(linux) = linux {
                    want(0.98 * linux, "0.98 of Linux sockets");
                    if p.size == 16 {
                        want(50.0 * linux, "50 times Linux sockets");
                    }
                }
            }
            (Some(10_000_000_000), "frames") => want(5.0, "one frame per send"),
            (None, "offload") if p.size == 65_536 => {
                if let Some(linux) = linux {
                    want(0.9 * linux, "0.9 of Linux sockets");
                }
            }
            (None, "frames") if p.size == 65_536 => want(10.0, "one frame per send"),
            (None, "tap") if p.size == 65_536 => want(23.0, "10 times smoltcp's 2.3 Gb/s"),
            _ => {}
        }
    }
    missed
}

/// Refuses what cannot be measured.
///
/// # Errors
/// A size or number out of range.
pub fn check(sweep: &StcpSweep) -> Result<(), LabError> {
    let refuse = |what: String| Err(LabError::Refused(what));
    if let Some(size) = sweep.sizes.iter().find(|s| !(1..=sweep.buffer / 2).contains(*s)) {
        return refuse(format!(
            "sizes {size}: 1 B to half of the send buffer, {} B",
            sweep.buffer / 2
        ));
    }
    if !(576..=9000).contains(&sweep.mtu) {
        return refuse(format!("mtu {}: 576 to 9000 bytes", sweep.mtu));
    }
    if !sweep.buffer.is_power_of_two() || !(1 << 17..=1 << 30).contains(&sweep.buffer) {
        return refuse(format!("buffer {}: a power of two, 128 KiB to 1 GiB", sweep.buffer));
    }
    Ok(())
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
