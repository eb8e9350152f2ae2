//! One trial: a sender as fast as it is let, for a time, and what arrives meanwhile.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fullcount_io::sys::thread_cpu_time;
use fullcount_stcp::{StcpSettings, Strategy};

use super::place::LivePlace;
use super::sender::{LivePayload, LiveSender, LiveSource, abort, connect, notices, step, write};
use super::sink::{SinkReading, TcpSink};
use super::tape::FrameTape;
use crate::error::LabError;
use crate::namespace::TokenBucket;

/// Port of the receiver.
pub const PORT: u16 = 5000;

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub struct LiveTrial {
    /// Who.
    pub sender: LiveSender,
    /// Bytes of a fragment.
    pub fragment: usize,
    /// Connections.
    pub streams: usize,
    /// Longest IP packet, bytes.
    pub mtu: usize,
    /// The link's limit.
    pub limit: Option<TokenBucket>,
    /// Send buffer of each stream, bytes: a power of two.
    pub buffer: usize,
    /// Congestion control.
    pub strategy: Strategy,
    /// Before the measurement.
    pub warm_up: Duration,
    /// The measurement.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct LiveOutcome {
    /// Bits a second that were read.
    pub bits_per_s: f64,
    /// Seconds of the sender's thread for each 10⁹ bytes, where the system tells.
    pub cpu_s_per_gb: f64,
    /// Bytes of each stream, of the whole trial.
    pub of_streams: Vec<u64>,
}

/// Settings of a stream of these fragments, bytes, on a link of this MTU.
pub fn settings(mtu: usize, fragment: usize, strategy: Strategy) -> StcpSettings {
    StcpSettings {
        mtu: mtu as u16,
        strategy,
        largest_fragment: fragment as u32,
        // A reader that is kept waiting by a loaded host is no reason for a repetition.
        rto_min_us: 200_000,
        ..StcpSettings::daq()
    }
}

impl LiveTrial {
    /// Runs it in a network of its own; frames go to the tape, if it has a file.
    ///
    /// # Errors
    /// The network, a connection that ended, wrong bytes.
    pub fn run(&self, tape: &FrameTape, stop: &dyn Fn() -> bool) -> Result<LiveOutcome, LabError> {
        let place = LivePlace::make(self.sender.on_tap(), self.mtu, self.limit)?;
        match self.sender {
            LiveSender::Simplified { driver, .. } => {
                let mut link = place.link(driver, |s| self.sender.set_up(s))?;
                tape.lend(&mut link);
                let sink =
                    TcpSink::start(place.listen(PORT)?, self.streams, SinkReading::default());
                let peer = (place.peer().octets(), PORT);
                let settings = settings(self.mtu, self.fragment, self.strategy);
                let streams = connect(&mut link, peer, self.streams, settings, self.buffer)?;
                let mut source = LiveSource::new(
                    &link,
                    &streams,
                    self.fragment,
                    LivePayload::Same { buffer: self.buffer },
                );
                let measured = self.measure(&sink, stop, |over| {
                    while !over() {
                        let more = source.portion(&mut link)?;
                        step(&mut link, more)?;
                    }
                    notices(&mut link, &streams)
                })?;
                abort(&mut link, &streams)?;
                tape.take_back(&mut link);
                finish(sink, measured)
            }
            LiveSender::Linux { no_delay } => {
                let sink =
                    TcpSink::start(place.listen(PORT)?, self.streams, SinkReading::default());
                let connect = || -> Result<_, LabError> {
                    let stream = place.connect(PORT)?;
                    stream.set_nodelay(no_delay).map_err(anyhow::Error::from)?;
                    Ok(stream)
                };
                let mut streams =
                    (0..self.streams).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
                let last = streams.pop();
                let size = self.fragment;
                let over = AtomicBool::new(false);
                let measured = std::thread::scope(|scope| {
                    for stream in streams {
                        let over = &over;
                        scope.spawn(move || write(stream, size, || over.load(Relaxed)));
                    }
                    let measured = self.measure(&sink, stop, |over| match last {
                        Some(stream) => write(stream, size, over),
                        None => Ok(()),
                    });
                    over.store(true, Relaxed);
                    measured
                })?;
                finish(sink, measured)
            }
        }
    }

    /// Runs `send` on this thread until it is over, and looks at the sink at the ends of the measurement.
    fn measure(
        &self,
        sink: &TcpSink,
        stop: &dyn Fn() -> bool,
        send: impl FnOnce(&dyn Fn() -> bool) -> Result<(), LabError>,
    ) -> Result<LiveOutcome, LabError> {
        let done = AtomicBool::new(false);
        let (warm_up, time) = (self.warm_up, self.time);
        let looked = |at: &Instant| (at.elapsed(), sink.tally().bytes.load(Relaxed));
        let cpu = thread_cpu_time().ok();
        let (first, last) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let begun = Instant::now();
                std::thread::sleep(warm_up);
                let first = looked(&begun);
                std::thread::sleep(time);
                let last = looked(&begun);
                done.store(true, Relaxed);
                (first, last)
            });
            let sent = send(&|| done.load(Relaxed) || stop());
            done.store(true, Relaxed);
            let looks = watch.join().map_err(|_| anyhow::anyhow!("the watch panicked"))?;
            sent.map(|()| looks)
        })?;
        let (seconds, bytes) = ((last.0 - first.0).as_secs_f64(), last.1 - first.1);
        let cpu = cpu.zip(thread_cpu_time().ok()).map_or(0.0, |(then, now)| {
            (now.user_ns + now.system_ns).saturating_sub(then.user_ns + then.system_ns) as f64
                / last.1.max(1) as f64
        });
        Ok(LiveOutcome {
            bits_per_s: bytes as f64 * 8.0 / seconds.max(1e-9),
            cpu_s_per_gb: cpu,
            of_streams: vec![],
        })
    }
}

fn finish(sink: TcpSink, measured: LiveOutcome) -> Result<LiveOutcome, LabError> {
    let (of_streams, wrong) = sink.finish();
    match wrong.first() {
        Some(what) => Err(LabError::Failed(anyhow::anyhow!("{what}"))),
        None => Ok(LiveOutcome { of_streams, ..measured }),
    }
}
