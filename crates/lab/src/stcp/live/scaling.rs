//! `lab stcp streams`: throughput over the number of streams on one link, and how evenly they share it.

use std::path::PathBuf;
use std::time::Duration;

use fullcount_stcp::Strategy;
use serde_json::json;

use super::gbps;
use super::place::limited;
use super::sender::LiveSender;
use super::sweep::link_name;
use super::tape::FrameTape;
use super::trial::LiveTrial;
use crate::Tell;
use crate::error::LabError;
use crate::record::{self, Record};

/// What is asked.
#[derive(Debug, Clone)]
pub struct StcpScaling {
    /// Numbers of streams.
    pub streams: Vec<usize>,
    /// Who.
    pub senders: Vec<LiveSender>,
    /// Limit of the link, bit/s.
    pub link: Option<u64>,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Times each point is measured.
    pub repeats: usize,
    /// Longest IP packet, bytes.
    pub mtu: usize,
    /// Send buffer of each stream, bytes.
    pub buffer: usize,
    /// Of each trial.
    pub time: Duration,
    /// Frames go here too, up to so many bytes.
    pub frames_to: Option<(PathBuf, u64)>,
}

impl StcpScaling {
    /// Measures; the table comes back.
    ///
    /// # Errors
    /// No network, or a connection that ended.
    pub fn run(
        &self,
        record: &mut Record,
        stop: &dyn Fn() -> bool,
        tell: Tell,
    ) -> Result<String, LabError> {
        record.parameter("fragment_bytes", self.fragment).parameter("mtu", self.mtu);
        record.parameter("send_buffer", self.buffer).parameter("link", link_name(self.link));
        let tape = FrameTape::create(self.frames_to.as_ref())?;
        let mut text = "| streams | sender | Gb/s, all | least / most of a stream, of the mean |\n\
                        |---|---|---|---|\n"
            .to_owned();
        for &streams in &self.streams {
            for &sender in &self.senders {
                let (mut rates, mut shares) = (vec![], vec![]);
                for _ in 0..self.repeats {
                    if stop() {
                        return Err(LabError::Failed(anyhow::anyhow!("interrupted")));
                    }
                    let outcome = self.trial(sender, streams).run(&tape, stop)?;
                    rates.push(gbps(outcome.bits_per_s));
                    let sum: u64 = outcome.of_streams.iter().sum();
                    let mean = (sum as f64 / streams as f64).max(1.0);
                    let of = |b: Option<&u64>| b.copied().unwrap_or(0) as f64 / mean;
                    let all = &outcome.of_streams;
                    shares.push((of(all.iter().min()), of(all.iter().max())));
                }
                let Some(figure) = record::Figure::of(&rates, "Gb/s") else { continue };
                let least = shares.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
                let most = shares.iter().map(|s| s.1).fold(0.0, f64::max);
                let (low, high) = figure.interval;
                let line = format!(
                    "| {streams} | {} | {:.3} ({low:.3} to {high:.3}) | {least:.2} / {most:.2} |",
                    sender.name(),
                    figure.value
                );
                tell(&line);
                text += &format!("{line}\n");
                record.row(json!({
                    "streams": streams, "sender": sender.name(), "gbps": figure.value, "low": low,
                    "high": high, "repeats": figure.repeats, "least_share": least, "most_share": most,
                }));
            }
        }
        tape.finish(record)?;
        Ok(text)
    }

    fn trial(&self, sender: LiveSender, streams: usize) -> LiveTrial {
        LiveTrial {
            sender,
            fragment: self.fragment,
            streams,
            mtu: self.mtu,
            limit: self.link.map(limited),
            buffer: self.buffer,
            strategy: Strategy::SIMPLIFIED,
            warm_up: Duration::from_millis(300),
            time: self.time,
        }
    }
}
