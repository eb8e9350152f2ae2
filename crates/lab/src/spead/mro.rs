//! The memo's long link: three, four and nine streams over links of 10 and 40 Gb/s, senders by number, and buffers over round trips.
//!
//! Rates and links are those of the memo times a scale, so that this machine can carry them; streams of one interface share a
//! receiving host here. A point is the mean over runs. Source: `docs/formats/spead.md`, section 20.

use std::time::Duration;

use serde_json::json;

use super::campaign::{Campaign, MemoOrder};
use super::ground::{SpeadGround, spead_share};
use super::limits::TrialSeries;
use super::memo::{self, MemoPoint, MemoTcp};
use super::tools::SpeadWish;
use super::trial::{FarEnd, HeapTrial, Runner};
use super::{mean_sd, pm};
use crate::error::LabError;
use crate::record::Record;

/// MTU of the long link.
const MTU: usize = 9000;

/// An experiment on the long link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Preset {
    pub name: &'static str,
    pub title: &'static str,
    /// Rate of each sending interface, Gb/s, and its streams.
    pub interfaces: &'static [(f64, usize)],
    /// Rates of each stream, Gb/s.
    pub rates: &'static [f64],
    pub memo: &'static [MemoPoint],
}

pub(super) const PRESETS: [Preset; 3] = [
    Preset {
        name: "mro10",
        title: "three streams on three interfaces of 10 Gb/s",
        interfaces: &[(10.0, 1), (10.0, 1), (10.0, 1)],
        rates: &[8.0, 9.0, 9.25, 9.5, 9.6, 9.7, 10.0],
        memo: memo::MRO10,
    },
    Preset {
        name: "mro40",
        title: "four streams on one interface of 40 Gb/s",
        interfaces: &[(40.0, 4)],
        rates: &[6.0, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5],
        memo: memo::MRO40,
    },
    Preset {
        name: "mro90",
        title: "nine streams on interfaces of 40, 40 and 10 Gb/s",
        interfaces: &[(40.0, 4), (40.0, 4), (10.0, 1)],
        rates: &[5.0, 6.0, 6.5, 6.75, 7.0, 8.0, 9.0, 9.5],
        memo: memo::MRO90,
    },
];

/// A measured point: means over runs, in Gb/s of the memo's scale.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub peer: &'static str,
    /// Rate of each stream; `None`: TCP, as fast as it can.
    pub target: Option<f64>,
    pub streams: usize,
    pub sum: Vec<f64>,
    pub loss: Vec<f64>,
    pub effective: Vec<f64>,
}

impl Point {
    fn new(peer: &'static str, target: Option<f64>, streams: usize) -> Point {
        Point { peer, target, streams, sum: vec![], loss: vec![], effective: vec![] }
    }

    fn add(&mut self, trial: &HeapTrial, scale: f64) {
        self.sum.push(trial.sum / scale);
        self.loss.extend(trial.loss.map(|share| 100.0 * share));
        self.effective.extend(trial.effective.map(|rate| rate / scale));
    }
}

/// Mean, for figures.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    mean_sd(values).map(|(mean, _)| mean)
}

pub(super) fn wish(asked: &MemoOrder, rate: Option<f64>, tcp: bool) -> SpeadWish {
    SpeadWish {
        tcp,
        heap_bytes: asked.heap_bytes,
        heaps: asked.heaps,
        packet: memo::PACKET,
        buffer: Some(memo::LINK_BUFFER),
        rate: rate.map(|gbps| gbps * asked.scale),
        pool: true,
        sockets: 1,
    }
}

/// Links of a layout: which link each stream takes.
fn streams(interfaces: &[(f64, usize)]) -> Vec<usize> {
    interfaces.iter().enumerate().flat_map(|(n, (_, many))| vec![n; *many]).collect()
}

fn build(interfaces: &[(f64, usize)], scale: f64) -> Result<SpeadGround, LabError> {
    let rates: Vec<f64> = interfaces.iter().map(|(rate, _)| rate * scale).collect();
    SpeadGround::links(&rates, MTU).map_err(|e| LabError::Failed(e.into()))
}

impl Preset {
    /// All rates over UDP, then TCP.
    pub fn run(
        &self,
        campaign: &mut Campaign<'_>,
        record: &mut Record,
    ) -> Result<Vec<Point>, LabError> {
        let ground = build(self.interfaces, campaign.asked.scale)?;
        let links = streams(self.interfaces);
        let mut points = Vec::new();
        let targets = campaign.asked.few(self.rates).into_iter().map(Some).chain([None]);
        for target in targets {
            points.extend(self.point(campaign, record, &ground, &links, target)?);
        }
        Ok(points)
    }

    fn point(
        &self,
        campaign: &mut Campaign<'_>,
        record: &mut Record,
        ground: &SpeadGround,
        links: &[usize],
        target: Option<f64>,
    ) -> Result<Vec<Point>, LabError> {
        let (stop, scale) = (campaign.stop, campaign.asked.scale);
        let mut points = Vec::new();
        for peer in campaign.peers.clone() {
            let mut point = Point::new(peer.name(), target, links.len());
            let wish = wish(campaign.asked, target, target.is_none());
            for run in 0..campaign.asked.link_repeats {
                let rate = target.map_or("tcp".to_owned(), |rate| format!("{rate}"));
                let key = format!("{} {} {} {rate} {run}", self.name, links.len(), peer.name());
                let measure = || {
                    Runner { ground, peer: &peer, stop, cores: None }.trial(
                        &wish,
                        links,
                        FarEnd::Full,
                    )
                };
                let series =
                    TrialSeries { part: self.name, peer: peer.name(), tcp: target.is_none() };
                let (trial, line) = campaign.trial(&key, series, measure)?;
                record.row(json!({
                    "part": self.name, "peer": peer.name(), "streams": links.len(), "target_gbps": target,
                    "scale": scale, "run": run, "trial": line,
                }));
                point.add(&trial, scale);
            }
            points.push(point);
        }
        Ok(points)
    }

    /// As a table.
    pub fn text(&self, points: &[Point], scale: f64) -> String {
        let mut text = format!(
            "\n## {}: {}\n\nLinks and rates times {scale}; figures divided by it. Packets of {} B fill {:.1} % of a link.\n\n\
             | | target of each Gb/s | sum Gb/s | effective Gb/s | heap loss % |\n|---|---|---|---|---|\n",
            self.name.to_uppercase(),
            self.title,
            memo::PACKET,
            100.0 * spead_share(memo::PACKET),
        );
        for point in points {
            let target = point.target.map_or("TCP".to_owned(), |t| format!("{t}"));
            let (sum, effective, loss) = (pm(&point.sum), pm(&point.effective), pm(&point.loss));
            text += &format!("| {} | {target} | {sum} | {effective} | {loss} |\n", point.peer);
        }
        let number = |v: Option<f64>| v.map_or("–".to_owned(), |v| format!("{v}"));
        for m in self.memo {
            text +=
                &format!("| memo | {} | {} | – | {} |\n", m.target, number(m.sum), number(m.loss));
        }
        text += &match memo::tcp_sum(self.name) {
            Some(MemoTcp::Sum(sum)) => format!("| memo | TCP | {sum} | – | 0 |\n"),
            Some(MemoTcp::AsLossless(sum)) => {
                format!("| memo | TCP | as UDP without loss, about {sum} | – | 0 |\n")
            }
            None => String::new(),
        };
        text
    }
}

/// One to four senders on one interface of 40 Gb/s.
pub(super) fn scaling(
    campaign: &mut Campaign<'_>,
    record: &mut Record,
) -> Result<Vec<Point>, LabError> {
    let preset = Preset { name: "scaling", interfaces: &[(40.0, 4)], ..PRESETS[1] };
    let ground = build(preset.interfaces, campaign.asked.scale)?;
    let mut points = Vec::new();
    for senders in 1..=4 {
        for rate in campaign.asked.few(&[9.0, 10.0, 12.0, 14.0, 17.0, 20.0]) {
            let links = vec![0; senders];
            points.extend(preset.point(campaign, record, &ground, &links, Some(rate))?);
        }
    }
    Ok(points)
}

pub(super) fn scaling_text(points: &[Point]) -> String {
    let mut text = "\n## Senders on one interface of 40 Gb/s\n\nThe memo: one sender at most about 17 Gb/s, four at 9 or 10 about 32; \
                    packets dropped in the kernel, before the card, with four fast ones.\n\n\
                    | | senders | target of each Gb/s | sum Gb/s | effective Gb/s | heap loss % |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for p in points {
        let target = p.target.map_or("–".to_owned(), |t| format!("{t}"));
        let (sum, effective, loss) = (pm(&p.sum), pm(&p.effective), pm(&p.loss));
        let (peer, senders) = (p.peer, p.streams);
        text += &format!("| {peer} | {senders} | {target} | {sum} | {effective} | {loss} |\n");
    }
    for (senders, points) in memo::SCALING {
        for p in points {
            let sum = p.sum.map_or("–".to_owned(), |sum| format!("{sum}"));
            text += &format!("| memo | {senders} | {} | {sum} | – | – |\n", p.target);
        }
    }
    text
}

/// A point of the part `buffers`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BufferPoint {
    pub peer: &'static str,
    pub tcp: bool,
    pub round_trip_ms: f64,
    pub buffer: u64,
    pub gbps: Vec<f64>,
    pub loss: Vec<f64>,
}

/// TCP and UDP over socket buffers, at two round trips of the emulated link.
pub(super) fn buffers(
    campaign: &mut Campaign<'_>,
    record: &mut Record,
) -> Result<Vec<BufferPoint>, LabError> {
    let gbps = campaign.asked.emulated_gbps;
    let mut points = Vec::new();
    for round_trip_ms in [0.1, memo::ROUND_TRIP_MS] {
        let round_trip = Duration::from_secs_f64(round_trip_ms / 1e3);
        let ground = SpeadGround::round_trip(gbps, round_trip, MTU)
            .map_err(|e| LabError::Failed(e.into()))?;
        for peer in campaign.peers.clone() {
            for tcp in [true, false] {
                for buffer in campaign.asked.few(&[0.2, 1.0, 4.0, 12.0, 16.0]) {
                    let buffer = (buffer * f64::from(1 << 20)) as u64;
                    let rate = (!tcp)
                        .then_some(0.95 * gbps * spead_share(memo::PACKET) / campaign.asked.scale);
                    let wish =
                        SpeadWish { buffer: Some(buffer), tcp, ..wish(campaign.asked, rate, tcp) };
                    let mut point = BufferPoint {
                        peer: peer.name(),
                        tcp,
                        round_trip_ms,
                        buffer,
                        gbps: vec![],
                        loss: vec![],
                    };
                    for run in 0..campaign.asked.link_repeats {
                        let key =
                            format!("buffers {round_trip_ms} {} {tcp} {buffer} {run}", peer.name());
                        let stop = campaign.stop;
                        let measure = || {
                            Runner { ground: &ground, peer: &peer, stop, cores: None }.trial(
                                &wish,
                                &[0],
                                FarEnd::Full,
                            )
                        };
                        let series = TrialSeries { part: "buffers", peer: peer.name(), tcp };
                        let (trial, line) = campaign.trial(&key, series, measure)?;
                        record.row(json!({
                            "part": "buffers", "peer": peer.name(), "tcp": tcp, "round_trip_ms": round_trip_ms,
                            "buffer_bytes": buffer, "link_gbps": gbps, "run": run, "trial": line,
                        }));
                        point.gbps.push(trial.effective.unwrap_or(trial.sum));
                        point.loss.extend(trial.loss.map(|share| 100.0 * share));
                    }
                    points.push(point);
                }
            }
        }
    }
    Ok(points)
}

pub(super) fn buffers_text(points: &[BufferPoint], gbps: f64) -> String {
    let mut text = format!(
        "\n## Buffers and round trips\n\nOne stream over the emulated link of {gbps} Gb/s; whole heaps that arrived. UDP at 95 % of the link.\n\n\
         | | transport | round trip ms | buffers MiB | Gb/s | heap loss % |\n|---|---|---|---|---|---|\n"
    );
    for p in points {
        let transport = if p.tcp { "TCP" } else { "UDP" };
        let buffer = p.buffer as f64 / f64::from(1 << 20);
        text += &format!(
            "| {} | {transport} | {} | {buffer:.1} | {} | {} |\n",
            p.peer,
            p.round_trip_ms,
            pm(&p.gbps),
            pm(&p.loss)
        );
    }
    text
}
