//! The destination `stcp`: packets to a listening TCP socket, through an interface, with addresses of their own.
//!
//! A lane for each source port that the traffic needs; all share one link and its thread ([`super::carrier`]). Packets wait in a lane's
//! ring, then in the stream's buffer until they are acknowledged; while all streams of a lane are busy ([`super::lane`]), or its ring is
//! full, the source waits. Refuses what [`StcpUrl::check`] does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::destination::{
    Departed, Destination, DestinationEndpoint, DestinationError, DestinationKind,
    DestinationOpening, DestinationPart, HeldBack,
};
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::quantity::size_text;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::UrlKey;
use fullcount_core::url::{self, Scheme};
use rtrb::{Producer, RingBuffer};

use super::carrier::{Carrier, Shared};
use super::counters::{StcpSending, catalogue};
use super::lane::{Hold, LENGTH, Lane};
use super::url::StcpUrl;
use super::{FrameFile, RawError, RawLink, RawSetup};

/// Bytes of a lane's ring: 0.8 ms at 10 Gb/s. A longer packet does not fit.
const RING: usize = 1 << 20;
/// How long a connection may take: ARP, SYN and two repetitions of it.
const CONNECT: Duration = Duration::from_secs(10);
/// What is on its way when the sender is asked to end may take so long to be acknowledged; then a RST ends it.
const GRACE: Duration = Duration::from_secs(1);
/// Between looks at a full ring.
const LOOK: Duration = Duration::from_micros(50);

/// `stcp://ADDRESS:PORT`
pub struct StcpDestination;

impl StcpDestination {
    /// Longest packet that it takes, bytes, with what `framing=` puts in front of it.
    pub const LONGEST: usize = RING - LENGTH;
}

impl DestinationKind for StcpDestination {
    fn name(&self) -> &'static str {
        StcpUrl::NAME
    }

    fn about(&self) -> &'static str {
        "the simplified TCP to a listening socket, with an address of its own"
    }

    fn form(&self) -> &'static str {
        StcpUrl::FORM
    }

    fn example(&self) -> &'static str {
        "stcp://10.0.0.2:5000?interface=eth0&address=10.0.0.9"
    }

    fn keys(&self) -> Vec<UrlKey> {
        UrlKey::of::<StcpUrl>()
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("sending: stcp", catalogue())]
    }

    fn plan(&self, text: &str) -> Result<Box<dyn DestinationEndpoint>, Refusal> {
        let url: StcpUrl = url::read(text).map_err(|e| refuse("to", text, e.to_string()))?;
        url.check().map_err(|why| refuse("to", text, why))?;
        Ok(Box::new(url))
    }
}

impl StcpUrl {
    fn link(&self) -> Result<RawLink, RawError> {
        let address = self.address.map_or([0; 4], |a| a.octets());
        let setup = RawSetup::new(&self.interface, self.driver, address);
        let mut link = RawLink::open(RawSetup {
            mac: self.mac,
            gateway: self.gateway.map(|g| g.octets()),
            offload: self.offload.unwrap_or(setup.offload),
            unit: self.unit,
            large_pages: self.large_pages,
            key: RawSetup::secret(),
            ..setup
        })?;
        if let Some(path) = &self.frames_to {
            link.record(FrameFile::create(path, self.frames_limit)?);
        }
        Ok(link)
    }

    fn wrong(&self, why: impl std::fmt::Display) -> DestinationError {
        DestinationError::of(format!("{self}: {why}"))
    }
}

impl DestinationEndpoint for StcpUrl {
    fn label(&self) -> String {
        self.to_string()
    }

    fn cautions(&self) -> Vec<String> {
        self.cautions().into_iter().map(|why| format!("{self}: {why}")).collect()
    }

    fn open(
        &self,
        opening: &DestinationOpening<'_>,
    ) -> Result<Vec<Box<dyn Destination>>, DestinationError> {
        let mut link = self.link().map_err(|e| self.wrong(e))?;
        let add = |port: u16| {
            let peer = (self.peer.0.octets(), self.peer.1);
            link.add(peer, port, self.settings(), self.buffer as usize).map_err(|e| self.wrong(e))
        };
        // The traffic's ports, one stream each, or `streams` that share one lane.
        let own: Vec<u16> = (self.port..=u16::MAX).take(usize::from(self.streams)).collect();
        // Traffic that leaves a lane's port to the system gets those of this link, in order.
        let any = (self.port..=u16::MAX).chain(std::iter::repeat(0));
        let named = opening.source_ports.iter().zip(any);
        let named: Vec<u16> =
            named.map(|(&port, own)| if port == 0 { own } else { port }).collect();
        let ports = if named.is_empty() { own } else { named };
        let streams = ports.into_iter().map(add).collect::<Result<Vec<usize>, _>>()?;
        let lanes: Vec<Vec<usize>> = match opening.source_ports {
            [] => vec![streams],
            _ => streams.into_iter().map(|at| vec![at]).collect(),
        };
        // Streams that share a lane take its packets as they have room.
        let numbers = opening.numbers.filter(|_| lanes.iter().all(|lane| lane.len() == 1));
        let (shared, sheet) = (Arc::new(Shared::default()), Sheet::new(catalogue()));
        let (mut inputs, mut outputs) = (vec![], vec![]);
        for streams in lanes {
            let (producer, ring) = RingBuffer::new(RING);
            let hold = Arc::new(Hold::new());
            outputs.push(Lane::new(ring, streams, hold.clone()));
            inputs.push((producer, hold));
        }
        let carrier = Carrier {
            ended: vec![None; link.streams().len()],
            numbers,
            link,
            lanes: outputs,
            shared: shared.clone(),
            sheet: sheet.clone(),
            label: self.label(),
        };
        let thread = std::thread::Builder::new()
            .name("stcp".into())
            .spawn(move || carrier.run())
            .map_err(|e| self.wrong(format!("starting its thread: {e}")))?;
        let end = Ending { shared: shared.clone(), thread: Some(thread) };
        self.connected(&shared, opening.patience)?;
        let end = Arc::new(end);
        let lanes = inputs.len();
        let lane =
            |(at, (ring, hold)): (usize, (Producer<u8>, Arc<Hold>))| -> Box<dyn Destination> {
                Box::new(StcpSendLane {
                    url: self.clone(),
                    ring,
                    hold,
                    seen_ns: 0,
                    // Only the first counts the link, or its counters would stand there once for each lane.
                    sheet: if at == 0 { sheet.clone() } else { Sheet::new(vec![]) },
                    own: sheet.clone(),
                    first: at == 0,
                    lanes,
                    shared: shared.clone(),
                    wish: opening.wish.cloned(),
                    patience: opening.patience,
                    failed: 0,
                    taken: 0,
                    end: end.clone(),
                })
            };
        Ok(inputs.into_iter().enumerate().map(lane).collect())
    }
}

impl StcpUrl {
    fn connected(
        &self,
        shared: &Shared,
        patience: Option<Duration>,
    ) -> Result<(), DestinationError> {
        let begun = Instant::now();
        // The probe of the own address alone takes 0.2 s.
        let limit = patience.map_or(CONNECT, |p| p.max(Duration::from_secs(1)));
        while !shared.connected.load(Acquire) {
            if let Some(why) = shared.failed() {
                return Err(self.wrong(why));
            }
            if begun.elapsed() > limit {
                return Err(self.wrong(format!("no connection within {limit:?}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Ends the link's thread when the last lane is dropped.
#[derive(Debug)]
struct Ending {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.shared.hurry.store(true, Release);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// One lane.
#[derive(Debug)]
struct StcpSendLane {
    url: StcpUrl,
    ring: Producer<u8>,
    hold: Arc<Hold>,
    /// When the hold that it saw last was raised.
    seen_ns: u64,
    sheet: Arc<Sheet>,
    own: Arc<Sheet>,
    first: bool,
    lanes: usize,
    shared: Arc<Shared>,
    wish: Option<Arc<AtomicBool>>,
    patience: Option<Duration>,
    failed: u64,
    taken: u64,
    #[expect(dead_code, reason = "its drop ends the thread")]
    end: Arc<Ending>,
}

impl StcpSendLane {
    /// The source is to give nothing. The first look at a hold notes how long ago it was raised: a packet that need not wait costs one load.
    fn holds(&mut self) -> bool {
        let Some(raised_ns) = self.hold.raised_ns() else { return false };
        if std::mem::replace(&mut self.seen_ns, raised_ns) != raised_ns {
            let delay_ns = self.hold.now_ns().saturating_sub(raised_ns);
            if let Ok(mut delays) = self.shared.delays.lock() {
                delays.add(delay_ns);
            }
        }
        true
    }

    /// A whole packet into the ring; false: the sender is asked to end.
    fn put(&mut self, packet: &[u8]) -> Result<bool, DestinationError> {
        let length = self.url.prefix.bytes() + packet.len();
        if packet.len() > self.url.prefix.most() || length > StcpDestination::LONGEST {
            return Err(self.url.wrong(format!("a packet of {} bytes is too long", packet.len())));
        }
        if self.shared.over.load(Acquire) {
            let why = self.shared.failed();
            return Err(self.url.wrong(why.unwrap_or_else(|| "it has ended".into())));
        }
        let mut since = None;
        let mut moved = self.hold.moved();
        while self.holds() || self.ring.slots() < length + LENGTH {
            if let Some(why) = self.shared.failed() {
                return Err(self.url.wrong(why));
            }
            if self.wish.as_ref().is_some_and(|wish| wish.load(Relaxed)) {
                return Ok(false);
            }
            let since = since.get_or_insert_with(Instant::now);
            // From the high mark to the low one may take longer; who acknowledges takes something.
            let now = self.hold.moved();
            if std::mem::replace(&mut moved, now) != now {
                *since = Instant::now();
            }
            if self.patience.is_some_and(|patience| since.elapsed() > patience) {
                return Err(self.url.wrong("it takes nothing"));
            }
            std::thread::sleep(LOOK);
        }
        let (own, prefix) = ((length as u32).to_le_bytes(), self.url.prefix.of(packet.len()));
        if let Ok(mut chunk) = self.ring.write_chunk(LENGTH + length) {
            let (first, second) = chunk.as_mut_slices();
            let (mut place, mut at) = (first, 0);
            let mut rest = Some(second);
            for mut bytes in [&own[..], &prefix[..self.url.prefix.bytes()], packet] {
                while !bytes.is_empty() {
                    if at == place.len() {
                        let Some(next) = rest.take() else { break };
                        (place, at) = (next, 0);
                        continue;
                    }
                    let n = bytes.len().min(place.len() - at);
                    place[at..at + n].copy_from_slice(&bytes[..n]);
                    (at, bytes) = (at + n, &bytes[n..]);
                }
            }
            chunk.commit_all();
        }
        self.taken += 1;
        Ok(true)
    }
}

impl Destination for StcpSendLane {
    fn send(&mut self, bytes: &[u8], stride: usize) -> Result<(), DestinationError> {
        let each = if stride == 0 { bytes.len().max(1) } else { stride };
        let packets = bytes.len().div_ceil(each).max(1) as u64;
        let before = self.taken;
        let mut put = |packet: &[u8]| match self.put(packet)? {
            true => Ok(()),
            false => Err(self.url.wrong("asked to end while the receiver took nothing")),
        };
        let done = match bytes.is_empty() {
            true => put(&[]),
            false => bytes.chunks(each).try_for_each(put),
        };
        let failed = packets - (self.taken - before);
        self.failed += failed;
        self.own.add(StcpSending::Offered as usize, packets);
        self.own.add(StcpSending::Failed as usize, failed);
        done
    }

    fn finish(&mut self) -> Result<(), DestinationError> {
        // The thread ends once all lanes have said so.
        if self.shared.finished.fetch_add(1, AcqRel) + 1 < self.lanes {
            return Ok(());
        }
        let mut asked = None;
        while !self.shared.over.load(Acquire) {
            if self.wish.as_ref().is_some_and(|wish| wish.load(Relaxed)) {
                let since = asked.get_or_insert_with(Instant::now);
                if since.elapsed() > GRACE {
                    self.shared.hurry.store(true, Release);
                }
            }
            std::thread::sleep(LOOK);
        }
        match self.shared.failed() {
            Some(why) => Err(self.url.wrong(why)),
            None => Ok(()),
        }
    }

    fn departed(&self) -> Departed {
        // The link's own are told once.
        let get = |line: StcpSending| if self.first { self.own.get(line as usize) } else { 0 };
        let lost = get(StcpSending::Lost) + get(StcpSending::UnacknowledgedPackets);
        let calls = get(StcpSending::Calls);
        Departed { datagrams: self.taken, failed: self.failed + lost, calls }
    }

    fn held(&self) -> Option<HeldBack> {
        // All lanes count in one place.
        let get = |line: StcpSending| self.own.get(line as usize);
        if !self.first {
            return None;
        }
        let delays = self.shared.delays.lock().ok()?;
        Some(HeldBack {
            times: get(StcpSending::Held),
            time_ns: get(StcpSending::HeldTime),
            seen: delays.seen(),
            seen_after_median_ns: delays.share_ns(50),
            seen_after_p99_ns: delays.share_ns(99),
            seen_after_most_ns: delays.most_ns(),
        })
    }

    fn parts(&self) -> Vec<DestinationPart> {
        if !self.first {
            return vec![];
        }
        self.shared.parts.lock().map(|parts| parts.clone()).unwrap_or_default()
    }

    fn lossless(&self) -> bool {
        true
    }

    fn wire_bits(&self, payload: usize) -> u64 {
        // Full segments: packets have no borders on the wire. Preamble, Ethernet, gap: 38 bytes; IP and TCP: 40.
        let mss = u64::from(self.url.settings().mss());
        let bytes = (payload + self.url.prefix.bytes()) as u64;
        bytes * 8 * (mss + 78) / mss
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        let url = &self.url;
        let from = url.address.map_or(String::new(), |address| format!(" from {address}"));
        let streams = match url.streams {
            1 => "a stream".to_owned(),
            many => format!("{many} streams"),
        };
        let buffer = size_text(u64::from(url.buffer));
        vec![format!("{url}: {}{from}, {streams}, send buffer {buffer} each", url.driver.name())]
    }
}

#[cfg(test)]
#[path = "destination_tests.rs"]
mod tests;
