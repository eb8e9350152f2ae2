//! `lab stcp backpressure`: how soon a source on another thread sees that the send buffer passed its high mark, with a reader that
//! is slower than the source; and whether anything is lost meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use fullcount_io::raw::RawLink;
use fullcount_stcp::{Pressure, Strategy, SubmitError};
use serde_json::json;

use super::place::LivePlace;
use super::sender::{LiveSender, abort, connect, notices, step};
use super::sink::{SinkReading, TcpSink};
use super::tape::FrameTape;
use super::trial::{LiveTrial, PORT};
use super::{LiveFound, gbps, pattern};
use crate::error::LabError;
use crate::record::Record;

/// Most of the median delay, ns.
const MOST_NS: u64 = 1_000_000;
/// The source looks so often.
const LOOK: Duration = Duration::from_micros(50);

/// What is asked.
#[derive(Debug, Clone)]
pub struct BackPressure {
    /// Who: not Linux.
    pub sender: LiveSender,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Payload of the source, bit/s.
    pub rate: f64,
    /// The reader's share of it.
    pub reader: f64,
    /// How long the source runs.
    pub time: Duration,
    /// Longest IP packet, bytes.
    pub mtu: usize,
    /// Send buffer, bytes.
    pub buffer: usize,
    /// Frames go here too, up to so many bytes.
    pub frames_to: Option<(PathBuf, u64)>,
}

/// What the median delay misses, if it does.
fn missed(median_ns: u64) -> Option<String> {
    (median_ns >= MOST_NS).then(|| {
        format!("the source sees a full buffer after {} µs (median): below 1 ms", median_ns / 1000)
    })
}

/// Between the source and the link.
#[derive(Debug, Default)]
struct Line {
    made: AtomicU64,
    busy: AtomicBool,
    /// When busy was raised, ns from the beginning.
    raised: AtomicU64,
    over: AtomicBool,
}

/// What the source saw.
#[derive(Debug, Default)]
struct Seen {
    delays_ns: Vec<u64>,
    throttled: u64,
}

impl BackPressure {
    /// Measures; a line comes back, and what was not reached.
    ///
    /// # Errors
    /// A wrong or missing byte, a connection that ended, never busy.
    pub fn run(&self, record: &mut Record, stop: &dyn Fn() -> bool) -> Result<LiveFound, LabError> {
        let LiveSender::Simplified { driver, offload } = self.sender else {
            return Err(LabError::Refused("sender: the simplified TCP".into()));
        };
        let place = LivePlace::make(self.sender.on_tap(), self.mtu, None)?;
        let mut link = place.link(driver, self.mtu, |s| s.offload = offload)?;
        let tape = FrameTape::create(self.frames_to.as_ref())?;
        tape.lend(&mut link);
        let limit = Some((self.rate * self.reader) as u64);
        let sink = TcpSink::start(place.listen(PORT)?, 1, SinkReading { compare: true, limit });
        let settings = self.trial().settings();
        let peer = (place.peer().octets(), PORT);
        let streams = connect(&mut link, peer, 1, settings, self.buffer)?;
        let (line, begun) = (Line::default(), Instant::now());
        let (seen, sent) = std::thread::scope(|scope| -> Result<_, LabError> {
            let source = scope.spawn(|| self.source(&line, begun));
            let sent = self.carry(&mut link, streams[0], &line, begun, stop);
            line.over.store(true, Release);
            let seen = source.join().map_err(|_| anyhow::anyhow!("the source panicked"))?;
            Ok((seen, sent?))
        })?;
        abort(&mut link, &streams)?;
        tape.take_back(&mut link);
        tape.finish(record)?;
        let (bytes, wrong) = sink.finish();
        let counted = *link.stream(streams[0]).sender().memory().counted();
        let mut delays = seen.delays_ns.clone();
        delays.sort_unstable();
        let at = |share: f64| delays.get((delays.len() as f64 * share) as usize).copied();
        let (Some(median), Some(p99), Some(most)) = (at(0.5), at(0.99), delays.last()) else {
            return Err(LabError::Failed(anyhow::anyhow!("the buffer never became full")));
        };
        let us = |ns: u64| ns as f64 / 1e3;
        let read: u64 = bytes.iter().sum();
        record.row(json!({
            "sender": self.sender.name(), "fragment_bytes": self.fragment, "source_gbps": gbps(self.rate),
            "reader_share": self.reader, "seconds": self.time.as_secs_f64(), "busy": delays.len(),
            "seen_after_us": {"median": us(median), "p99": us(p99), "most": us(*most)}, "bytes": sent,
            "read_and_compared": read, "throttled_fragments": seen.throttled, "xoff": counted.xoff,
            "busy_s": counted.busy_ns as f64 / 1e9, "wrong": wrong,
        }));
        if read != sent || !wrong.is_empty() {
            let what = wrong.first().map_or("bytes are missing", |w| w);
            return Err(LabError::Failed(anyhow::anyhow!(
                "{sent} bytes sent, {read} read: {what}"
            )));
        }
        let text = format!(
            "busy {} times; the source saw it after {:.0} µs (median), {:.0} µs (p99), {:.0} µs (most); {} fragments \
             not made meanwhile; {:.3} GB sent and read, none lost\n",
            delays.len(),
            us(median),
            us(p99),
            us(*most),
            seen.throttled,
            sent as f64 / 1e9
        );
        let missed = missed(median).into_iter().collect();
        Ok(LiveFound { text, missed, ..LiveFound::default() })
    }

    fn trial(&self) -> LiveTrial {
        LiveTrial {
            sender: self.sender,
            fragment: self.fragment,
            streams: 1,
            mtu: self.mtu,
            limit: None,
            buffer: self.buffer,
            strategy: Strategy::SIMPLIFIED,
            warm_up: Duration::ZERO,
            time: self.time,
        }
    }

    /// Makes fragments at the rate; what is due while the link is busy is never made, as a throttled trigger.
    fn source(&self, line: &Line, begun: Instant) -> Seen {
        let (mut seen, mut due, mut busy) = (Seen::default(), 0u64, false);
        while !line.over.load(Acquire) && begun.elapsed() < self.time {
            let was = std::mem::replace(&mut busy, line.busy.load(Acquire));
            let now = begun.elapsed().as_nanos() as u64;
            if busy && !was {
                seen.delays_ns.push(now.saturating_sub(line.raised.load(Acquire)));
            }
            let target = (now as f64 / 1e9 * self.rate / 8.0 / self.fragment as f64) as u64;
            match busy {
                true => seen.throttled += target - due,
                false => drop(line.made.fetch_add(target - due, Release)),
            }
            due = target;
            std::thread::sleep(LOOK);
        }
        line.over.store(true, Release);
        seen
    }

    /// Carries fragments from the source to the stream; bytes accepted.
    fn carry(
        &self,
        link: &mut RawLink,
        at: usize,
        line: &Line,
        begun: Instant,
        stop: &dyn Fn() -> bool,
    ) -> Result<u64, LabError> {
        let salt = u64::from(link.stream(at).ends().local_port);
        let (mut fragment, mut taken, mut raised) = (vec![0; self.fragment], 0u64, false);
        loop {
            let over = line.over.load(Acquire);
            let made = line.made.load(Acquire);
            while taken < made {
                pattern::fill(&mut fragment, taken * self.fragment as u64, salt);
                match link.submit(at, &fragment) {
                    Ok(_) => taken += 1,
                    Err(SubmitError::WouldBlock) => break,
                    Err(e) => return Err(LabError::Failed(e.into())),
                }
                if !raised && link.stream(at).sender().pressure() == Pressure::Busy {
                    raised = true;
                    line.raised.store(begun.elapsed().as_nanos() as u64, Release);
                    line.busy.store(true, Release);
                }
            }
            if over && taken == line.made.load(Acquire) {
                link.flush(at);
                if link.stream(at).sender().used() == 0 {
                    return Ok(taken * self.fragment as u64);
                }
            }
            step(link, false)?;
            notices(link, &[at])?;
            if raised && link.stream(at).sender().pressure() != Pressure::Busy {
                raised = false;
                line.busy.store(false, Release);
            }
            if stop() {
                line.over.store(true, Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_below_a_millisecond() {
        assert_eq!(missed(999_999), None);
        assert!(missed(1_000_000).is_some_and(|said| said.contains("1000 µs")));
    }
}
