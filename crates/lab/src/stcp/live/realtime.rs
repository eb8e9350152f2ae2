//! `lab stcp realtime`: the congestion experiment with real frames, a bridge and real receivers, at a tenth of its rates: five senders
//! through a bridge into one port of 1 Gb/s with a finite queue.
//!
//! Two cores cannot carry the full rates, and a busy host has pauses of milliseconds: the numbers are those of the simulation
//! (docs/stcp-congestion.md), this shows that live senders behave like simulated ones.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use fullcount_io::raw::{Driver, RawLink, RawSetup};
use fullcount_stcp::{StcpSettings, SubmitError};
use serde_json::json;

use super::sender::{abort, connect, notices, step};
use super::sink::{SinkReading, TcpSink};
use super::tape::FrameTape;
use super::trial::PORT;
use super::{LiveFound, during};
use crate::Tell;
use crate::error::LabError;
use crate::namespace::{Layout, NamespaceNetwork, TokenBucket, VethPair};
use crate::plot::{Chart, ChartLine, Dot, PlotAxis, Stroke};
use crate::record::Record;
use crate::stcp::variant::Variant;

/// Headers of a segment on the wire as a queue counts it, bytes: Ethernet, IP, TCP.
const HEADERS: u64 = 54;
/// Width of a bin.
const BIN: Duration = Duration::from_millis(100);
/// Shorter parts are not judged: the queues fill and empty for a second at these rates.
pub(in crate::stcp) const JUDGED: Duration = Duration::from_secs(5);
/// Send buffer of a sender, bytes.
const BUFFER: usize = 4 << 20;

/// What is asked.
#[derive(Debug, Clone)]
pub struct RealTime {
    /// Senders that are compared.
    pub variants: Vec<Variant>,
    /// Senders; the last is there for the middle part.
    pub senders: usize,
    /// Fragments of 2048 bytes a second of each.
    pub fragments: f64,
    /// Rate of each sender's link, bit/s.
    pub emit_bps: u64,
    /// Rate of the port, bit/s.
    pub port_bps: u64,
    /// Its queue, bytes.
    pub queue: u64,
    /// Retransmission time, µs.
    pub rto_us: u32,
    /// Length of each of three parts.
    pub part: Duration,
    /// Frames of the first sender go here too, up to so many bytes.
    pub frames_to: Option<(PathBuf, u64)>,
}

/// Useful rate and rate on the link, Gb/s.
type PartRates = (f64, f64);

/// What a sender misses of docs/stcp.md, "Measured": `parts` are before, during and after.
pub(in crate::stcp) fn missed(variant: Variant, parts: &[PartRates]) -> Option<String> {
    let [_, (during, _), (after, wire)] = *parts else { return None };
    match variant {
        Variant::None if after >= 0.14 || wire <= 0.4 => Some(format!(
            "none: {after:.3} Gb/s at {wire:.3} on the link after the last sender: below 0.14 at more than 0.4"
        )),
        Variant::Simplified if during < 0.19 || after < 0.19 => Some(format!(
            "simplified: {during:.3} Gb/s with the last sender and {after:.3} after: at least 0.19"
        )),
        _ => None,
    }
}

/// Bytes in a bin: on the link, and acknowledged.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    wire: u64,
    useful: u64,
}

const FRAGMENT: usize = 2048;
const MTU: usize = 9000;

impl RealTime {
    /// The paper's experiment, divided by ten.
    pub fn tenth(variants: Vec<Variant>, part: Duration) -> RealTime {
        RealTime {
            variants,
            senders: 5,
            fragments: 12_500.0,
            emit_bps: 500_000_000,
            port_bps: 1_000_000_000,
            queue: 1_000_000,
            rto_us: 20_000,
            part,
            frames_to: None,
        }
    }

    fn network(&self) -> Result<NamespaceNetwork, LabError> {
        let bucket = |bits_per_s, limit| TokenBucket { bits_per_s, burst: 70_000, limit };
        let port = VethPair {
            shaped: Some(bucket(self.port_bps, self.queue)),
            ..VethPair::between(0, 1, MTU)
        };
        let emit = |i| VethPair {
            shaped: Some(bucket(self.emit_bps, 1_000_000)),
            ..VethPair::between(2 + i, 0, MTU)
        };
        let links = std::iter::once(port).chain((0..self.senders).map(emit)).collect();
        let layout = Layout { purpose: "stcprt".into(), hosts: 2 + self.senders, links };
        let network = during("making the network", NamespaceNetwork::build(&layout))?;
        let bridge = ["link", "add", "br0", "type", "bridge", "stp_state", "0"];
        let ip = |words: &[&str]| during("making the bridge", network.ip(0, words.iter().copied()));
        ip(&[&bridge[..], &["forward_delay", "0", "mcast_snooping", "0"]].concat())?;
        ip(&["link", "set", "br0", "mtu", "9000", "up"])?;
        for i in 0..=self.senders {
            ip(&["link", "set", &network.interface(i), "master", "br0"])?;
        }
        Ok(network)
    }

    /// Runs all variants; tables and figures come back, and what was not reached.
    ///
    /// # Errors
    /// No network, or a connection that ended.
    pub fn run(
        &self,
        record: &mut Record,
        stop: &dyn Fn() -> bool,
        tell: Tell,
    ) -> Result<LiveFound, LabError> {
        record.parameter("senders", self.senders).parameter("port_bps", self.port_bps);
        record.parameter("queue_bytes", self.queue).parameter("part_s", self.part.as_secs_f64());
        let mut text = "Gb/s of the first sender, useful / on the link.\n\n\
                        | sender | before | with the last | after |\n|---|---|---|---|\n"
            .to_owned();
        let (mut figures, mut missing) = (vec![], vec![]);
        let tape = FrameTape::create(self.frames_to.as_ref())?;
        for &variant in &self.variants {
            if stop() {
                return Err(LabError::Failed(anyhow::anyhow!("interrupted")));
            }
            let bins = self.one(variant.settings(self.rto_us), &tape)?;
            let parts: Vec<PartRates> = (0..3).map(|part| self.part_of(&bins, part)).collect();
            let cells: Vec<String> =
                parts.iter().map(|(useful, wire)| format!("{useful:.3} / {wire:.3}")).collect();
            let line = format!("| {} | {} |", variant.name(), cells.join(" | "));
            tell(&line);
            text += &format!("{line}\n");
            if self.part >= JUDGED {
                missing.extend(missed(variant, &parts));
            }
            let of = |p: PartRates| json!({"useful_gbps": p.0, "link_gbps": p.1});
            record.row(json!({
                "variant": variant.name(), "before": of(parts[0]), "during": of(parts[1]), "after": of(parts[2]),
            }));
            figures.push(self.figure(variant, &bins));
        }
        tape.finish(record)?;
        Ok(LiveFound { text, figures, missed: missing })
    }

    /// Rates of a part in Gb/s, without its first fifth.
    fn part_of(&self, bins: &[Bin], part: u32) -> PartRates {
        let bin = BIN.as_secs_f64();
        let from = ((f64::from(part) + 0.2) * self.part.as_secs_f64() / bin) as usize;
        let to = (f64::from(part + 1) * self.part.as_secs_f64() / bin) as usize;
        let some = bins.get(from..to.min(bins.len())).unwrap_or_default();
        let rate = |f: fn(&Bin) -> u64| {
            let sum: u64 = some.iter().map(f).sum();
            super::gbps(sum as f64 * 8.0 / (some.len().max(1) as f64 * bin))
        };
        (rate(|b| b.useful), rate(|b| b.wire))
    }

    /// One run; the bins of the first sender.
    fn one(&self, settings: StcpSettings, tape: &FrameTape) -> Result<Vec<Bin>, LabError> {
        let network = self.network()?;
        let peer = network.address(0, 1);
        let bound = network.inside(1, || std::net::TcpListener::bind((peer, PORT)));
        let listener = during("listening", during("entering the namespace", bound)?)?;
        let sink = TcpSink::start(listener, self.senders, SinkReading::default());
        let settings = StcpSettings { largest_fragment: FRAGMENT as u32, ..settings };
        let open = |i: usize| -> Result<(RawLink, Vec<usize>), LabError> {
            let mut setup = RawSetup::new(
                &network.interface(1 + i),
                Driver::Packet,
                [10, 201, 0, 11 + i as u8],
            );
            (setup.offload, setup.key) = (false, RawSetup::secret());
            let opened = network.inside(2 + i, || RawLink::open(setup));
            let mut link = during("opening", during("entering the namespace", opened)?)?;
            if i == 0 {
                tape.lend(&mut link);
            }
            let streams = connect(&mut link, (peer.octets(), PORT), 1, settings, BUFFER)?;
            Ok((link, streams))
        };
        let links = (0..self.senders).map(open).collect::<Result<Vec<_>, _>>()?;
        let ready = Barrier::new(self.senders);
        let outcomes: Vec<Result<Vec<Bin>, LabError>> = std::thread::scope(|scope| {
            let (ready, last) = (&ready, self.senders - 1);
            let each = links.into_iter().enumerate().map(|(i, (link, streams))| {
                let span = match i == last {
                    true => (self.part, self.part * 2),
                    false => (Duration::ZERO, self.part * 3),
                };
                scope.spawn(move || {
                    ready.wait();
                    self.sender(link, &streams, span, tape)
                })
            });
            let each: Vec<_> = each.collect();
            let panicked = || LabError::Failed(anyhow::anyhow!("a sender panicked"));
            each.into_iter().map(|s| s.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        drop(sink);
        outcomes.into_iter().next().unwrap_or_else(|| Ok(vec![]))
    }

    /// A source at its rate from one time to another; lost trigger time is not made up.
    fn sender(
        &self,
        mut link: RawLink,
        streams: &[usize],
        (from, to): (Duration, Duration),
        tape: &FrameTape,
    ) -> Result<Vec<Bin>, LabError> {
        let (at, fragment, begun) = (streams[0], [0x5a; FRAGMENT], Instant::now());
        let (mut bins, mut due) = (vec![], 0u64);
        let (mut wire, mut useful) = (0, 0);
        let end = self.part * 3;
        while begun.elapsed() < end {
            let now = begun.elapsed();
            let running = now.clamp(from, to) - from;
            let target = (running.as_secs_f64() * self.fragments) as u64;
            for _ in due..target {
                match link.submit(at, &fragment) {
                    Ok(_) | Err(SubmitError::WouldBlock) => {}
                    Err(e) => return Err(LabError::Failed(e.into())),
                }
            }
            due = target;
            step(&mut link, false)?;
            notices(&mut link, streams)?;
            while bins.len() < (now.as_nanos() / BIN.as_nanos()) as usize {
                let c = link.stream(at).sender().memory().counted();
                let sent = c.bytes + c.segments * HEADERS;
                bins.push(Bin { wire: sent - wire, useful: c.acked_bytes - useful });
                (wire, useful) = (sent, c.acked_bytes);
            }
        }
        abort(&mut link, streams)?;
        tape.take_back(&mut link);
        Ok(bins)
    }

    fn figure(&self, variant: Variant, bins: &[Bin]) -> Chart {
        let bin = BIN.as_secs_f64();
        let series = |f: fn(&Bin) -> u64| {
            let dot = |(i, b): (usize, &Bin)| Dot {
                x: (i as f64 + 0.5) * bin,
                y: f(b) as f64 * 8.0 / bin / 1e9,
                spread: None,
                below: false,
            };
            bins.iter().enumerate().map(dot).collect()
        };
        let line = |name: &str, colour, dots| ChartLine {
            name: name.to_owned(),
            colour,
            stroke: Stroke::Line,
            dots,
        };
        Chart {
            name: format!("stcp-realtime-{}", variant.name().replace('=', "-")),
            title: format!(
                "{} senders into {} Gb/s, live, {}",
                self.senders,
                self.port_bps as f64 / 1e9,
                variant.name()
            ),
            x_label: "Time, s".to_owned(),
            y_label: "Rate of one sender, Gb/s".to_owned(),
            x_axis: PlotAxis::Linear(0.0),
            axis: PlotAxis::Linear(0.0),
            lines: vec![
                line("on the link", 1, series(|b| b.wire)),
                line("useful", 0, series(|b| b.useful)),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collapse_and_a_recovery_are_told_apart() {
        let before = (0.205, 0.206);
        let collapsed = [before, (0.069, 0.499), (0.114, 0.498)];
        let steady = [before, (0.198, 0.202), (0.205, 0.206)];
        assert_eq!(missed(Variant::None, &collapsed), None);
        assert_eq!(missed(Variant::Simplified, &steady), None);
        assert!(missed(Variant::None, &steady).is_some_and(|said| said.starts_with("none: 0.205")));
        let said = missed(Variant::Simplified, &collapsed).unwrap();
        assert!(said.contains("0.069 Gb/s with the last sender"), "{said}");
        assert!(missed(Variant::None, &[before, (0.069, 0.499), (0.114, 0.4)]).is_some());
        assert_eq!(missed(Variant::Figure6, &collapsed), None);
    }
}
