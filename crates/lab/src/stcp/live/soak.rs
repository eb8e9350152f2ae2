//! `lab stcp soak`: so many bytes or so long, whichever is first, with every byte compared at the receiver; over a good link, or
//! with seeded loss, duplication and reordering in both directions.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use fullcount_core::sim::Spec;
use fullcount_io::raw::{FrameFile, RawLink};
use fullcount_stcp::{Coalescing, StcpCounters, Strategy};
use serde_json::json;

use super::gbps;
use super::place::LivePlace;
use super::sender::{LivePayload, LiveSender, LiveSource, abort, connect, notices, step};
use super::sink::{SinkReading, TcpSink};
use super::trial::{PORT, settings};
use crate::Tell;
use crate::error::LabError;
use crate::record::Record;

/// Between lines about progress.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How long the readers may take for what is acknowledged.
const LEAVE: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Debug, Clone)]
pub struct StcpSoak {
    /// Who: not Linux.
    pub sender: LiveSender,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Streams, which share the bytes.
    pub streams: usize,
    /// Bytes in all.
    pub bytes: u64,
    /// At most so long.
    pub time: Duration,
    /// Longest IP packet, bytes.
    pub mtu: usize,
    /// Send buffer of each stream, bytes.
    pub buffer: usize,
    /// Faults in both directions.
    pub fault: Spec,
    /// Frames go here too, up to so many bytes.
    pub frames_to: Option<(PathBuf, u64)>,
}

impl StcpSoak {
    /// Sends and compares; a line comes back.
    ///
    /// # Errors
    /// A wrong or missing byte, a connection that ended.
    pub fn run(
        &self,
        record: &mut Record,
        stop: &dyn Fn() -> bool,
        tell: Tell,
    ) -> Result<String, LabError> {
        let LiveSender::Simplified { driver, .. } = self.sender else {
            return Err(LabError::Refused("sender: the simplified TCP".into()));
        };
        let place = LivePlace::make(self.sender.on_tap(), self.mtu, None)?;
        let mut link = place.link(driver, |s| {
            self.sender.set_up(s);
            s.fault = self.fault;
        })?;
        if let Some((path, limit)) = &self.frames_to {
            let file = FrameFile::create(path, *limit);
            link.record(file.map_err(|e| LabError::Refused(e.to_string()))?);
        }
        let reading = SinkReading { compare: true, limit: None };
        let sink = TcpSink::start(place.listen(PORT)?, self.streams, reading);
        let mut settings = settings(self.mtu, self.fragment, Strategy::SIMPLIFIED);
        (settings.rto_min_us, settings.coalescing) = (20_000, Coalescing::Within(1000));
        let peer = (place.peer().octets(), PORT);
        let streams = connect(&mut link, peer, self.streams, settings, self.buffer)?;
        let (sent, seconds) = self.send(&mut link, &streams, &sink, stop, tell)?;
        // What is acknowledged may still wait to be read.
        let (begun, tally) = (Instant::now(), sink.tally());
        while tally.bytes.load(Relaxed) < sent && tally.clean() && begun.elapsed() < LEAVE {
            step(&mut link, false)?;
        }
        let arrived = tally.bytes.load(Relaxed);
        abort(&mut link, &streams)?;
        let frames = link.take_file().map(FrameFile::finish).transpose();
        let frames = frames.map_err(|e| LabError::Failed(e.into()))?;
        let wrong = sink.tally().wrong.lock().map(|w| w.clone()).unwrap_or_default();
        self.judge(record, &link, (sent, arrived, seconds, frames), &wrong)
    }

    /// Until everything is acknowledged; bytes accepted, and seconds.
    fn send(
        &self,
        link: &mut RawLink,
        streams: &[usize],
        sink: &TcpSink,
        stop: &dyn Fn() -> bool,
        tell: Tell,
    ) -> Result<(u64, f64), LabError> {
        let mut source = LiveSource::new(link, streams, self.fragment, LivePayload::Marked);
        source.most = self.bytes.div_ceil(self.streams as u64);
        let begun = Instant::now();
        let mut told = begun;
        loop {
            let over = source.exhausted() || begun.elapsed() >= self.time || stop();
            let more = if over { false } else { source.portion(link)? };
            if over {
                streams.iter().for_each(|&at| link.flush(at));
                let done = |at: &usize| link.stream(*at).sender().used() == 0;
                if streams.iter().all(done) {
                    break;
                }
            }
            step(link, more)?;
            notices(link, streams)?;
            if !sink.tally().clean() {
                break;
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                let (s, bytes) = (begun.elapsed().as_secs_f64(), source.accepted() as f64);
                tell(&format!("{s:.0} s, {:.1} GB, {:.2} Gb/s", bytes / 1e9, bytes * 8e-9 / s));
            }
        }
        Ok((source.accepted(), begun.elapsed().as_secs_f64()))
    }

    fn judge(
        &self,
        record: &mut Record,
        link: &RawLink,
        (sent, arrived, seconds, frames): (u64, u64, f64, Option<u64>),
        wrong: &[String],
    ) -> Result<String, LabError> {
        let sum = |of: fn(&StcpCounters) -> u64| -> u64 {
            link.streams().iter().map(|s| of(s.sender().memory().counted())).sum()
        };
        let again = sum(|c| c.again_bytes);
        let rate = gbps(sent as f64 * 8.0 / seconds);
        record.parameter("fault", self.fault.to_string()).parameter("streams", self.streams);
        record.row(json!({
            "sender": self.sender.name(), "fragment_bytes": self.fragment, "bytes": sent,
            "read_and_compared": arrived, "seconds": seconds, "gbps": rate, "again_bytes": again,
            "again_fast": sum(|c| c.again_fast), "again_rto": sum(|c| c.again_rto),
            "rto_expired": sum(|c| c.rto_expired), "xoff": sum(|c| c.xoff), "wrong": wrong,
            "frames_in_file": frames, "link": format!("{:?}", link.counters()),
        }));
        if arrived != sent || !wrong.is_empty() {
            return Err(LabError::Failed(anyhow::anyhow!(
                "{sent} bytes sent, {arrived} read and right; {}",
                wrong.first().map_or("nothing else is known", |w| w)
            )));
        }
        Ok(format!(
            "{:.3} GB in {seconds:.1} s ({rate:.2} Gb/s) over {} streams, {:.3} % of them sent again: every byte compared, none wrong, none missing\n",
            sent as f64 / 1e9,
            self.streams,
            again as f64 * 100.0 / sent.max(1) as f64
        ))
    }
}
