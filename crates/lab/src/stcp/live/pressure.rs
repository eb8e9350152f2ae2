//! `lab stcp backpressure`: how soon the source of a destination `stcp://` sees that the send buffer passed its high mark, with a reader
//! that is slower than the source; and whether anything is lost meanwhile.
//!
//! The signal is the destination's own: its thread raises it, this one sends and is held. What a hold costs to see is told by
//! [`Destination::held`].

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fullcount_core::destination::{Destination, HeldBack};
use fullcount_io::raw::StcpSending;
use serde_json::json;

use super::place::LivePlace;
use super::sender::{LiveSender, Saving};
use super::sink::{SinkReading, TcpSink};
use super::trial::PORT;
use super::{LiveFound, gbps, pattern, tape};
use crate::error::LabError;
use crate::record::Record;

/// Most of the median delay, ns.
const MOST_NS: u64 = 1_000_000;
/// Percent of the holds that the source sees, at least. Others end before it has something to send and delay nobody: 0.3 to 0.8 % here while
/// nothing else runs, 5 to 9 % beside other processes.
const LEAST_SEEN: u64 = 90;
/// Shorter runs are not judged by that share: one of their few holds decides it.
const JUDGED: Duration = Duration::from_secs(5);
/// The source sleeps until so long before the next fragment is due and spins the rest, as `send` does: one that sleeps is woken too late to
/// see the shortest holds.
const NEAR: Duration = Duration::from_micros(100);
/// Longest sleep, so that a person who asks it to stop need not wait.
const NAP: Duration = Duration::from_millis(20);
/// Bytes of fragments that are given at once, if so many are due.
const BURST: usize = 64 << 10;
/// A reader that is kept waiting by a loaded host is no reason for a repetition: the least retransmission time is 200 ms.
const TIMES: &str = "profile=default&coalescing=1ms";
/// Own port, which tells the reader what to compare with.
const OWN_PORT: u16 = 10;

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

/// What the signal misses in a run of so long, if it does.
fn missed(held: &HeldBack, time: Duration) -> Vec<String> {
    let mut missed = vec![];
    let median_ns = held.seen_after_median_ns;
    if median_ns >= MOST_NS {
        let us = median_ns / 1000;
        missed.push(format!("the source sees a full buffer after {us} µs (median): below 1 ms"));
    }
    if time >= JUDGED && held.seen * 100 < held.times * LEAST_SEEN {
        let (seen, times) = (held.seen, held.times);
        missed.push(format!("the source saw {seen} of {times} holds: at least {LEAST_SEEN} %"));
    }
    missed
}

/// What the source did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Made {
    /// Fragments that it sent.
    sent: u64,
    /// Fragments that fell due while it was held: never made, as of a throttled trigger.
    throttled: u64,
    /// How often it was held while it ran. What is left of the ring may raise the signal after that, when nobody looks.
    held: HeldBack,
}

impl BackPressure {
    /// Measures; a line comes back, and what was not reached.
    ///
    /// # Errors
    /// A wrong or missing byte, a connection that ended, never held.
    pub fn run(&self, record: &mut Record, stop: &dyn Fn() -> bool) -> Result<LiveFound, LabError> {
        let keys = self.keys()?;
        let place = LivePlace::make(self.sender.on_tap(), self.mtu, None)?;
        let limit = Some((self.rate * self.reader) as u64);
        let sink = TcpSink::start(place.listen(PORT)?, 1, SinkReading { compare: true, limit });
        let mut lane = place.destination(PORT, &keys)?;
        let made = self.source(lane.as_mut(), stop)?;
        lane.finish().map_err(|e| LabError::Failed(e.into()))?;
        // Its thread ends with it, and the connection with that.
        let told = Told::of(lane.as_ref());
        drop(lane);
        let (bytes, wrong) = sink.finish();
        if self.frames_to.is_some() {
            record.parameter("frames_in_file", told.frames);
        }
        self.judge(record, made, &told, (bytes.iter().sum(), &wrong))
    }

    /// Keys of the destination's URL.
    fn keys(&self) -> Result<String, LabError> {
        let LiveSender::Simplified { driver, offload, without } = self.sender else {
            return Err(LabError::Refused("sender: the simplified TCP".into()));
        };
        let (driver, offload) = (driver.name(), u8::from(offload));
        let without = match without {
            None => "",
            Some(Saving::LongUnits) => "&unit=64KiB",
            Some(Saving::LargePages) => "&large_pages=0",
        };
        let frames = tape::keys(self.frames_to.as_ref())?;
        Ok(format!(
            "driver={driver}&offload={offload}&mtu={}&buffer={}&port={OWN_PORT}&{TIMES}{frames}{without}",
            self.mtu, self.buffer
        ))
    }

    /// Fragments that are due after so long.
    fn due(&self, after: Duration) -> u64 {
        (after.as_secs_f64() * self.rate / 8.0 / self.fragment as f64) as u64
    }

    /// When so many are due.
    fn falls_due(&self, fragments: u64) -> Duration {
        let seconds = fragments as f64 * self.fragment as f64 * 8.0 / self.rate;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Sends fragments at the rate; what falls due while it is held is never made.
    fn source(
        &self,
        lane: &mut dyn Destination,
        stop: &dyn Fn() -> bool,
    ) -> Result<Made, LabError> {
        // Only makes sleeps end earlier.
        let _ = fullcount_io::sys::precise_sleep();
        let most = (BURST / self.fragment).max(1);
        let mut burst = vec![0; most * self.fragment];
        let (mut made, begun) = (Made::default(), Instant::now());
        loop {
            let now = begun.elapsed();
            if now >= self.time || stop() {
                return Ok(made);
            }
            let open = self.due(now).saturating_sub(made.sent + made.throttled);
            if open == 0 {
                let next = self.falls_due(made.sent + made.throttled + 1);
                match next.saturating_sub(now).checked_sub(NEAR) {
                    Some(far) if !far.is_zero() => std::thread::sleep(far.min(NAP)),
                    _ => std::hint::spin_loop(),
                }
                continue;
            }
            let count = open.min(most as u64);
            let bytes = &mut burst[..count as usize * self.fragment];
            pattern::fill(bytes, made.sent * self.fragment as u64, u64::from(OWN_PORT));
            lane.send(bytes, self.fragment).map_err(|e| LabError::Failed(e.into()))?;
            made.sent += count;
            let held = lane.held().unwrap_or_default();
            if std::mem::replace(&mut made.held, held).seen < held.seen {
                made.throttled = self.due(begun.elapsed()).saturating_sub(made.sent);
            }
        }
    }

    fn judge(
        &self,
        record: &mut Record,
        made: Made,
        told: &Told,
        (read, wrong): (u64, &[String]),
    ) -> Result<LiveFound, LabError> {
        let (held, sent) = (made.held, made.sent * self.fragment as u64);
        let us = |ns: u64| ns as f64 / 1e3;
        let [median, p99, most] =
            [held.seen_after_median_ns, held.seen_after_p99_ns, held.seen_after_most_ns].map(us);
        if held.seen == 0 {
            let times = held.times;
            return Err(LabError::Failed(anyhow::anyhow!(
                "the source was told to hold {times} times, and never saw it"
            )));
        }
        record.parameter("median_below_us", MOST_NS / 1000);
        if self.time >= JUDGED {
            record.parameter("seen_at_least_percent", LEAST_SEEN);
        }
        record.row(json!({
            "signal": "stcp://", "sender": self.sender.name(), "fragment_bytes": self.fragment,
            "source_gbps": gbps(self.rate), "reader_share": self.reader,
            "seconds": self.time.as_secs_f64(), "busy": held.times, "seen": held.seen,
            "seen_after_us": {"median": median, "p99": p99, "most": most}, "bytes": sent,
            "read_and_compared": read, "throttled_fragments": made.throttled, "xoff": told.xoff,
            "busy_s": told.busy_ns.map(|ns| ns as f64 / 1e9), "wrong": wrong,
        }));
        if read != sent || !wrong.is_empty() {
            let what = wrong.first().map_or("bytes are missing", |w| w);
            return Err(LabError::Failed(anyhow::anyhow!(
                "{sent} bytes sent, {read} read: {what}"
            )));
        }
        let text = format!(
            "stcp:// told its source to hold {} times, and it saw {} of these, after {median:.0} µs (median), {p99:.0} µs (p99), \
             {most:.0} µs (most); {} fragments not made meanwhile; {:.3} GB sent and read, none lost\n",
            held.times,
            held.seen,
            made.throttled,
            sent as f64 / 1e9
        );
        Ok(LiveFound { text, missed: missed(&held, self.time), ..LiveFound::default() })
    }
}

/// What the destination told at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Told {
    /// Times that its stream was busy, and how long.
    xoff: Option<u64>,
    busy_ns: Option<u64>,
    /// Frames in the file of frames.
    frames: u64,
}

impl Told {
    fn of(lane: &dyn Destination) -> Told {
        let parts = lane.parts();
        let value = |name: &str| {
            let mut values = parts.iter().flat_map(|part| &part.values);
            values.find(|(known, _)| *known == name).map(|(_, value)| *value)
        };
        let frames = lane.sheet().get(StcpSending::Recorded as usize);
        Told { xoff: value("xoff"), busy_ns: value("busy_ns"), frames }
    }
}

#[cfg(test)]
#[path = "pressure_tests.rs"]
mod tests;
