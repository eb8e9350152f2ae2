//! A send stream and its way out: packets that are due leave in trains, at the rate that is set or tuned.
//!
//! [`SpeadOutlet::pump`] sends what the queue of the [`HeapSender`] holds. Pacing is spead2's: bursts at full speed with a sleep
//! after each; the last 100 µs of a sleep are spun, because a timer ends late. What could not be sent is said with its endpoint, and the
//! heap's completion says it too. Source: `docs/formats/spead.md`, sections 7, 9 and 13.

use std::io;
use std::time::{Duration, Instant};

use fullcount_core::link::Wire;
use fullcount_core::refusal::Refusal;
use fullcount_spead::feedback::TunerConfig;
use fullcount_spead::send::{HeapSender, NextPacket, SenderConfig};

use super::back::{SenderSide, SenderSideError};
use super::heaps::LINGER;
use super::link;
use super::train::HeapTrain;
use super::url::{SpeadOutput, SpeadTransport, SpeadUrl};
use super::way::{CaptureWay, TcpWay, Way};
use crate::udp::url::UdpUrl;
use crate::udp::{SendOptions, UdpError, UdpSender};

/// Why heaps could not be sent.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum OutletError {
    /// A setting.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The socket could not be opened.
    #[error(transparent)]
    Open(#[from] UdpError),
    /// The system refused a datagram for good.
    #[error(transparent)]
    Send(#[from] crate::udp::TransmitError),
    /// A connection.
    #[error("{endpoint}: {what}: {cause}")]
    Tcp { endpoint: String, what: &'static str, cause: io::Error },
    /// A capture.
    #[error("{path}: writing the capture: {cause}")]
    Capture { path: String, cause: String },
    /// The back-channel.
    #[error(transparent)]
    Back(#[from] SenderSideError),
    /// What the transport cannot do.
    #[error("{0}")]
    Unfit(String),
}

/// What the system took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransportCount {
    /// SPEAD bytes that the system took.
    pub bytes: u64,
    /// Datagrams, frames of a capture, or TCP segments as the kernel counts them.
    pub packets: u64,
    /// Send calls.
    pub calls: u64,
    /// TCP: payload of segments that left, by the kernel's count.
    pub sent_bytes: Option<u64>,
    /// TCP: of these, sent again.
    pub again_bytes: Option<u64>,
}

/// What a pump did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// The queue is empty.
    Idle,
    /// There is more; the time was over.
    More,
}

/// Bytes that are gathered for one call on a connection.
const GATHER: usize = 1 << 20;
/// Packets of a gather: with their payloads they fill one call.
const GATHERED: usize = 512;
/// The last part of a wait is spun.
const NEAR_NS: u64 = 100_000;
/// From one look at the back-channel to the next while a receiver is waited for.
const SETTLE: Duration = Duration::from_millis(2);
/// Packets between two looks at clock and back-channel.
const LOOK: u32 = 512;

/// Why several destinations have no back-channel.
pub(super) const ONE_RECEIVER: &str = "feedback goes with one destination only: rate, totals and kept heaps are those of the whole stream";

/// A send stream with its way out.
pub struct SpeadOutlet {
    sender: HeapSender,
    way: Way,
    began: Instant,
    train: HeapTrain,
    /// Packets after which the train leaves.
    most: usize,
    back: Option<SenderSide>,
    wire: Option<Wire>,
    facts: Vec<String>,
}

impl std::fmt::Debug for SpeadOutlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeadOutlet").field("sender", &self.sender).finish_non_exhaustive()
    }
}

impl SpeadOutlet {
    fn with(
        config: SenderConfig,
        way: Way,
        facts: Vec<String>,
    ) -> Result<SpeadOutlet, OutletError> {
        // Only makes sleeps end earlier.
        let _ = crate::sys::precise_sleep();
        Ok(SpeadOutlet {
            wire: config.wire,
            sender: HeapSender::new(config)?,
            way,
            began: Instant::now(),
            train: HeapTrain::new(true),
            most: 1,
            back: None,
            facts,
        })
    }

    /// Opens endpoints: each is a substream; `rate` in SPEAD bytes/s, 0: no limit.
    ///
    /// # Errors
    /// What could not be opened; several endpoints that are not all UDP, or a back-channel with several.
    pub fn open(urls: &[SpeadUrl<SpeadOutput>], rate: f64) -> Result<SpeadOutlet, OutletError> {
        let Some(first) = urls.first() else {
            return Err(OutletError::Unfit("no endpoint".into()));
        };
        if urls.len() > 1 && urls.iter().any(|url| url.told.feedback.is_some()) {
            return Err(OutletError::Unfit(ONE_RECEIVER.into()));
        }
        let config = SenderConfig { substreams: urls.len(), ..first.sender_config(rate) };
        let alone = |what: &str| match urls.len() {
            1 => Ok(()),
            _ => Err(OutletError::Unfit(format!(
                "{what}: only spead+udp:// has several destinations"
            ))),
        };
        let mut outlet = match (first.transport, &first.address, &first.file) {
            (SpeadTransport::Udp, Some(_), _) => {
                let addresses: Vec<&UdpUrl> = urls
                    .iter()
                    .filter(|url| url.transport == SpeadTransport::Udp)
                    .filter_map(|url| url.address.as_ref())
                    .collect();
                if addresses.len() < urls.len() {
                    let why = "several destinations of one stream are all spead+udp://";
                    return Err(OutletError::Unfit(why.into()));
                }
                SpeadOutlet::udp(config, &addresses)?
            }
            (SpeadTransport::Tcp, Some(address), _) => {
                alone("spead+tcp://")?;
                SpeadOutlet::tcp(config, address, first.told.congestion.as_deref())?
            }
            (SpeadTransport::Pcap, _, Some(path)) => {
                alone("spead+pcap:")?;
                let way = CaptureWay::create(path)?;
                let facts = vec![format!("writing {}", path.display())];
                SpeadOutlet::with(config, Way::Capture(Box::new(way)), facts)?
            }
            (other, ..) => {
                let why = format!("{} only receives", other.scheme());
                return Err(OutletError::Unfit(why));
            }
        };
        outlet.gather(first.told.gather);
        if let Some(at) = first.told.feedback {
            let most = if rate > 0.0 { rate } else { TunerConfig::default().max_rate };
            let start = TunerConfig::default().start_rate.min(most);
            let least = first.told.min_rate.unwrap_or(TunerConfig::default().min_rate.min(start));
            let tune = first.told.tune.then(|| TunerConfig {
                max_rate: most,
                start_rate: start.max(least),
                min_rate: least,
                loss_target: first.told.loss_target,
                max_burst: first.told.config.pace.burst_size,
                packet_bytes: first.told.config.cut.max_packet_size as u64,
                ..TunerConfig::default()
            });
            outlet.listen_to(SenderSide::listen(at, tune)?);
        }
        Ok(outlet)
    }

    /// Over UDP; an address for each substream.
    ///
    /// # Errors
    /// What could not be opened.
    pub fn udp(mut config: SenderConfig, to: &[&UdpUrl]) -> Result<SpeadOutlet, OutletError> {
        // 4 MiB unless the URL says otherwise: with spead2's 512 KiB a sender waits for the kernel at every fourth train.
        let options = SendOptions::default();
        let senders = to.iter().map(|url| UdpSender::open(url, &options));
        let senders = senders.collect::<Result<Vec<_>, _>>()?;
        let facts = senders.iter().flat_map(UdpSender::describe).collect();
        config.substreams = senders.len();
        config.wire = config.wire.or_else(|| link::of_all(to, &senders));
        SpeadOutlet::with(config, Way::Udp(senders), facts)
    }

    /// Over a TCP connection.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn tcp(
        config: SenderConfig,
        to: &UdpUrl,
        congestion: Option<&str>,
    ) -> Result<SpeadOutlet, OutletError> {
        let way = TcpWay::connect(to, congestion)?;
        let facts = vec![way.describe()];
        SpeadOutlet::with(config, Way::Tcp(way), facts)
    }

    /// Into memory: see [`SpeadOutlet::take_memory`].
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn memory(config: SenderConfig) -> Result<SpeadOutlet, OutletError> {
        SpeadOutlet::with(config, Way::Memory(vec![]), vec![])
    }

    /// Datagrams with their substreams that were sent into memory since the last call.
    pub fn take_memory(&mut self) -> Vec<(usize, Vec<u8>)> {
        match &mut self.way {
            Way::Memory(all) => std::mem::take(all),
            _ => vec![],
        }
    }

    /// Whether payload goes to the system from the heaps where it lies; otherwise packets are put together first. On by default: over TCP
    /// in packets of 8972 B a connection carries 48 in place of 35 Gb/s, in 65,483 B 51 in place of 35 (Xeon, `lab spead switches`).
    pub fn gather(&mut self, on: bool) {
        self.train = HeapTrain::new(on);
    }

    /// Reports come in there.
    pub fn listen_to(&mut self, back: SenderSide) {
        if let Ok(at) = back.local_addr() {
            self.facts.push(format!("feedback at {at}"));
        }
        self.back = Some(back);
    }

    /// The queue: heaps are put in here.
    pub fn sender(&mut self) -> &mut HeapSender {
        &mut self.sender
    }

    /// The back-channel.
    pub fn back_mut(&mut self) -> Option<&mut SenderSide> {
        self.back.as_mut()
    }

    /// Its back-channel.
    pub fn back(&self) -> Option<&SenderSide> {
        self.back.as_ref()
    }

    /// ns since it was opened.
    pub fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// The link that its datagrams take; `None`: it is not known, as on TCP.
    pub fn wire(&self) -> Option<Wire> {
        self.wire
    }

    /// What the system took.
    pub fn transport(&self) -> TransportCount {
        self.way.transport()
    }

    /// For people, one fact a line.
    pub fn describe(&self) -> Vec<String> {
        self.facts.clone()
    }

    /// Sends what is due for at most about `longest`; returns earlier once the queue is empty.
    ///
    /// # Errors
    /// Sending failed for good; heaps of which packets are missing complete as not whole.
    pub fn pump(&mut self, longest: Duration) -> Result<Pumped, OutletError> {
        let end = self.now_ns().saturating_add(longest.as_nanos() as u64);
        match self.way {
            Way::Tcp(_) => self.pump_stream(end),
            _ => self.pump_datagrams(end),
        }
    }

    /// Sends packets of one substream that somebody else has made: datagrams of `stride` bytes, the last may be shorter.
    ///
    /// # Errors
    /// Sending failed for good.
    pub fn send_train(
        &mut self,
        substream: usize,
        bytes: &[u8],
        stride: usize,
    ) -> Result<(), OutletError> {
        self.way.train(substream, bytes, stride)
    }

    fn look(&mut self) -> u64 {
        let now = self.now_ns();
        if let Some(back) = &mut self.back {
            back.poll(&mut self.sender, now);
        }
        now
    }

    fn pump_datagrams(&mut self, end: u64) -> Result<Pumped, OutletError> {
        let mut since = 0;
        let mut now = self.look();
        loop {
            match self.train.take_next(&mut self.sender, now) {
                NextPacket::Packet { bytes, substream, ticket } => {
                    let before = self.train.len() - 1;
                    let train = &self.train;
                    if before > 0 && (substream != train.substream || bytes > train.stride) {
                        self.flush(before)?;
                    }
                    if self.train.len() == 1 {
                        (self.train.stride, self.train.substream) = (bytes, substream);
                        let gathers = self.train.gathers();
                        self.most = self.way.packets_a_train(substream, bytes, gathers);
                    }
                    self.train.note(ticket);
                    // A shorter one is the last of a train.
                    if bytes < self.train.stride || self.train.len() >= self.most {
                        self.flush(self.train.len())?;
                        since = LOOK;
                    }
                    since += 1;
                    if since >= LOOK {
                        since = 0;
                        now = self.look();
                        if now >= end {
                            self.flush(self.train.len())?;
                            return Ok(Pumped::More);
                        }
                    }
                }
                NextPacket::Wait(until) => {
                    if until >= end || !self.leaves_with_the_next(until.saturating_sub(now)) {
                        self.flush(self.train.len())?;
                    }
                    now = self.wait(until.min(end));
                    if now >= end {
                        self.flush(self.train.len())?;
                        return Ok(Pumped::More);
                    }
                }
                NextPacket::Idle => {
                    self.flush(self.train.len())?;
                    return Ok(Pumped::Idle);
                }
            }
        }
    }

    /// What a burst left behind its last full train may wait for the next burst.
    fn leaves_with_the_next(&self, wait_ns: u64) -> bool {
        is_rest(self.train.len() * self.train.stride, self.sender.burst_size(), wait_ns)
    }

    /// The first `many` packets of the train leave.
    fn flush(&mut self, many: usize) -> Result<(), OutletError> {
        if many == 0 {
            return Ok(());
        }
        let sent = self.way.send(&self.train, many);
        for ticket in self.train.left(many) {
            if sent.is_err() {
                self.sender.packet_failed(ticket);
            }
        }
        sent
    }

    fn pump_stream(&mut self, end: u64) -> Result<Pumped, OutletError> {
        let mut now = self.look();
        loop {
            let (mut bytes, mut wait) = (0, None);
            while bytes < GATHER && self.train.len() < GATHERED {
                match self.train.take_next(&mut self.sender, now) {
                    NextPacket::Packet { bytes: more, ticket, .. } => {
                        bytes += more;
                        self.train.note(ticket);
                    }
                    NextPacket::Wait(until) => {
                        wait = Some(until);
                        break;
                    }
                    NextPacket::Idle => {
                        wait = Some(0);
                        break;
                    }
                }
            }
            self.flush(self.train.len())?;
            now = match wait {
                Some(0) => return Ok(Pumped::Idle),
                Some(until) => self.wait(until.min(end)),
                None => self.look(),
            };
            if now >= end {
                return Ok(Pumped::More);
            }
        }
    }

    /// Waits until then, and listens to the back-channel meanwhile.
    fn wait(&mut self, until: u64) -> u64 {
        loop {
            let now = self.look();
            if now >= until {
                return now;
            }
            match (until - now).checked_sub(NEAR_NS) {
                // A new rate is worth a look every 2 ms.
                Some(far) if far > 0 => {
                    std::thread::sleep(Duration::from_nanos(far.min(2_000_000)))
                }
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Everything that is queued leaves.
    ///
    /// # Errors
    /// Sending failed for good.
    pub fn drain(&mut self) -> Result<(), OutletError> {
        while self.pump(Duration::from_secs(1))? == Pumped::More {}
        Ok(())
    }

    /// What a stop would put an end to: everything that is queued leaves, the receiver is told the totals and sent again what it asks for, until
    /// it says that all heaps have ended there; at most for so long. Without a back-channel nothing is waited for.
    ///
    /// # Errors
    /// Sending failed for good.
    pub fn settle(&mut self, most: Duration, stop: &dyn Fn() -> bool) -> Result<(), OutletError> {
        self.drain()?;
        let (begun, mut answered) = (Instant::now(), None);
        loop {
            // Who is told to stop stays no longer than it takes by default.
            let most = if stop() { most.min(LINGER) } else { most };
            let (Some(left), Some(back)) = (most.checked_sub(begun.elapsed()), self.back.as_ref())
            else {
                break;
            };
            // A message may be lost: each report is answered.
            let reports = back.counts().reports;
            if answered != Some(reports) {
                answered = Some(reports);
                back.say_totals(&self.sender);
            }
            if back.has_ended(self.sender.totals().heaps) {
                break;
            }
            if self.pump(left.min(SETTLE))? == Pumped::Idle {
                std::thread::sleep(SETTLE);
                self.look();
            }
        }
        Ok(())
    }

    /// Everything that is queued leaves, then the receiver is told the totals, a connection is ended, a file closed.
    ///
    /// # Errors
    /// Sending failed for good.
    pub fn finish(&mut self) -> Result<(), OutletError> {
        self.drain()?;
        if let Some(back) = &self.back {
            back.say_totals(&self.sender);
        }
        match &mut self.way {
            Way::Tcp(tcp) => tcp.finish(),
            Way::Capture(capture) => capture.finish()?,
            Way::Udp(_) | Way::Memory(_) => {}
        }
        Ok(())
    }

    /// On a connection, waits until the kernel has sent all: before that its counts are not the whole.
    pub fn departed(&self) {
        if let Way::Tcp(tcp) = &self.way {
            tcp.settle();
        }
    }
}

/// So many bytes may wait for the next burst: it is near and they are few. A burst of 64 KiB is a message of 44 packets of 1472 B and one
/// packet more, which would cost a call and a slot of the receiver for itself.
fn is_rest(bytes: usize, burst: u64, wait_ns: u64) -> bool {
    wait_ns <= NEAR_NS && (bytes as u64) < burst / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_waits_for_a_near_burst_and_nothing_else_waits() {
        assert!(is_rest(1472, 64 << 10, 20_000));
        assert!(!is_rest(1472, 64 << 10, NEAR_NS + 1), "the next burst is far");
        assert!(!is_rest(8192, 64 << 10, 20_000), "more than a rest");
        // A burst of one packet: each leaves when it is due.
        assert!(!is_rest(1472, 1, 20_000) && !is_rest(1472, 1472, 20_000));
        assert!(!is_rest(0, 0, 0), "no burst, no rest");
    }

    #[test]
    fn a_pump_leaves_nothing_behind_whatever_the_pace() {
        let pace = fullcount_spead::send::PaceSettings { rate: 2e9, ..Default::default() };
        let mut outlet = SpeadOutlet::memory(SenderConfig { pace, ..Default::default() }).unwrap();
        let mut heap = fullcount_spead::send::OutHeap::default();
        heap.add_item(0x1000, vec![7; 1 << 20], false);
        outlet.sender().send(heap, Default::default()).unwrap();
        let mut bytes = 0;
        loop {
            let pumped = outlet.pump(Duration::from_micros(70)).unwrap();
            assert_eq!(outlet.train.len(), 0);
            bytes += outlet.take_memory().iter().map(|(_, packet)| packet.len()).sum::<usize>();
            assert_eq!(bytes as u64, outlet.sender().counts().packet_bytes);
            if pumped == Pumped::Idle {
                break;
            }
        }
        assert!(bytes > 1 << 20);
    }
}
