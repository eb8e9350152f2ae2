//! Many readers into one receive stream: sockets, captures, interfaces, connections, memory.
//!
//! One thread reads them in turn and puts the heaps together; every packet is copied once, from the receive buffer into its heap. Time goes
//! on while nothing comes, so a lost end, a reset connection or a silent sender hangs nobody. The kernel's and the stream's counters
//! are one ledger. Source: `docs/formats/spead.md`, sections 8 and 9.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::refusal::Refusal;
use fullcount_core::source::{
    Received, Source, SourceEndpoint, SourceError, SourceOpenError, SourceOpening,
};
use fullcount_spead::HeapReceiver;
use fullcount_spead::receive::{
    Delivery, HeapStore, MemoryPool, Outcome, SpeadCounter, StreamEnd, StreamReceiver,
};

use super::back::{BackChannel, BackError};
use super::tcp::{Piece, TcpIntake, TcpIntakeOptions};
use super::url::{SpeadInput, SpeadUrl};

fullcount_core::counters! {
    /// What readers of heaps count beside the stream.
    pub enum IntakeCounter {
        TooLarge "spead.reader.too_large" Packets Sum "spead.reader" Note "packets or whole heaps above max_packet or max_heap, thrown away" "raise max_packet or max_heap if such are meant";
        Connections "spead.reader.connections" Times Sum "spead.reader" Note "TCP connections that were accepted" "";
        Resets "spead.reader.resets" Times Sum "spead.reader" Note "TCP connections that were reset, or whose peer no longer answered" "look at the sender: its heaps may be incomplete";
        Junk "spead.reader.junk_bytes" Bytes Sum "spead.reader" Note "bytes on TCP connections that belonged to no packet" "is the sender's framing the same as here?";
        Cut "spead.reader.cut" Times Sum "spead.reader" Note "TCP connections that ended inside of a packet or heap" "look at the sender";
        Reports "spead.reader.reports" Times Sum "spead.reader" Note "reports to the sender" "";
        Requests "spead.reader.requests" Times Sum "spead.reader" Note "requests to send packets again" "";
    }
}

/// How a delivery came.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrived {
    /// Who sent its last packet.
    pub origin: Origin,
    /// When that was received, ns since 1970; 0 if unknown.
    pub time_ns: i64,
}

/// What a step brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakeStep {
    /// Packets came.
    Data,
    /// Nothing came within the wait.
    Idle,
    /// The stream has ended; all that waited was delivered.
    Ended(StreamEnd),
}

enum Reader {
    Datagrams { source: Box<dyn Source>, batch: Batch, ended: bool },
    Tcp { intake: Box<TcpIntake>, ended: bool },
    Memory { bytes: Vec<u8>, at: usize },
}

/// Longest wait for one of several readers while another may have something.
const TURN: Duration = Duration::from_millis(1);
/// Between two looks at timeouts and the back-channel, ns.
const LOOK_NS: u64 = 5_000_000;

/// A receive stream with its readers.
pub struct SpeadIntake {
    stream: HeapReceiver,
    readers: Vec<Reader>,
    max_packet: usize,
    began: Instant,
    looked_ns: u64,
    sheet: Arc<Sheet>,
    back: Option<BackChannel>,
    facts: Vec<String>,
    lossless: bool,
    pool: Option<MemoryPool>,
}

impl std::fmt::Debug for SpeadIntake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpeadIntake").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl SpeadIntake {
    /// A stream without readers. `told` gives its settings; several endpoints of one stream are added one by one.
    ///
    /// # Errors
    /// A setting outside its range, or no memory for the pool.
    pub fn new(told: &SpeadInput) -> Result<SpeadIntake, Refusal> {
        let pool = match told.pool {
            0 => None,
            most => MemoryPool::new(
                usize::try_from(told.pool_range.0).unwrap_or(usize::MAX),
                usize::try_from(told.pool_range.1).unwrap_or(usize::MAX),
                most,
                0,
            ),
        };
        SpeadIntake::with_pool(told, pool)
    }

    /// The same with that memory.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn with_pool(told: &SpeadInput, pool: Option<MemoryPool>) -> Result<SpeadIntake, Refusal> {
        let config = told.config.clone();
        let mut store = HeapStore::new(config.ring_heaps, config.incomplete);
        if let Some(pool) = &pool {
            store = store.with_memory(pool.clone());
        }
        Ok(SpeadIntake {
            stream: StreamReceiver::with_store(config, store)?,
            readers: vec![],
            max_packet: told.max_packet,
            began: Instant::now(),
            looked_ns: 0,
            sheet: Sheet::new(SpeadIntake::catalogue()),
            back: None,
            facts: vec![],
            lossless: true,
            pool,
        })
    }

    /// Lines of the ledger.
    pub fn catalogue() -> Vec<Info> {
        [SpeadCounter::catalogue(), IntakeCounter::catalogue()].concat()
    }

    /// Counts on that sheet, which begins with the lines of [`SpeadIntake::catalogue`].
    pub(super) fn count_on(&mut self, sheet: Arc<Sheet>) {
        self.sheet = sheet;
    }

    /// Opens endpoints as readers of one stream. `inner` are the endpoints below SPEAD, in the same order; of TCP there is none.
    ///
    /// # Errors
    /// What could not be opened, with its address or path.
    pub fn open(
        urls: &[SpeadUrl<SpeadInput>],
        inner: &[Option<Box<dyn SourceEndpoint>>],
        opening: &SourceOpening<'_>,
    ) -> Result<SpeadIntake, SourceOpenError> {
        let Some(first) = urls.first() else {
            return Err(SourceOpenError::failed("no endpoint".to_owned()));
        };
        let mut told = first.told.clone();
        told.config.stops = urls.iter().map(|url| url.told.senders).sum();
        told.config.readers = told.config.stops;
        let mut intake = SpeadIntake::new(&told)?;
        for (url, inner) in urls.iter().zip(inner) {
            match (inner, &url.address) {
                (Some(endpoint), _) => {
                    for opened in endpoint.open(opening)? {
                        intake.add_source(opened.source);
                    }
                }
                (None, Some(address)) => {
                    let options = TcpIntakeOptions {
                        senders: url.told.senders.max(1),
                        framing: url.told.framing,
                        max_packet: url.told.max_packet,
                        max_heap: url.told.config.max_heap_bytes,
                        memory: intake.pool.clone(),
                        ignore_stop: !url.told.config.stop_on_stop_item,
                    };
                    let tcp =
                        TcpIntake::listen(address, options).map_err(SourceOpenError::failed)?;
                    intake.add_tcp(tcp);
                }
                (None, None) => {}
            }
        }
        if let Some(to) = told.feedback {
            let back = BackChannel::to(to, told.resend).map_err(SourceOpenError::failed)?;
            intake.report_to(back);
        }
        Ok(intake)
    }

    /// Datagrams from there are packets.
    pub fn add_source(&mut self, source: Box<dyn Source>) {
        self.facts.extend(source.describe());
        self.lossless &= source.lossless();
        let batch = source.batch();
        self.readers.push(Reader::Datagrams { source, batch, ended: false });
    }

    /// Connections bring packets or heaps.
    pub fn add_tcp(&mut self, intake: TcpIntake) {
        if let Ok(at) = intake.local_addr() {
            self.facts.push(format!("listening on spead+tcp://{at}"));
        }
        self.readers.push(Reader::Tcp { intake: Box::new(intake), ended: false });
    }

    /// Packets back to back in memory.
    pub fn add_memory(&mut self, bytes: Vec<u8>) {
        self.readers.push(Reader::Memory { bytes, at: 0 });
    }

    /// Tells the sender what came.
    pub fn report_to(&mut self, back: BackChannel) {
        self.facts.extend(back.describe());
        self.back = Some(back);
    }

    /// The stream: statistics, losses, settings.
    pub fn stream(&self) -> &HeapReceiver {
        &self.stream
    }

    /// The stream, to be stopped by the user.
    pub fn stop(&mut self) {
        let now = self.now_ns();
        self.stream.stop(now);
    }

    /// What was counted, up to now.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    /// Sheets of the readers below.
    pub fn reader_sheets(&self) -> Vec<Arc<Sheet>> {
        let sheet = |reader: &Reader| match reader {
            Reader::Datagrams { source, .. } => Some(source.sheet()),
            _ => None,
        };
        self.readers.iter().filter_map(sheet).collect()
    }

    /// Read later, nothing is lost.
    pub fn lossless(&self) -> bool {
        self.lossless
    }

    /// Addresses of listening TCP readers.
    pub fn tcp_addrs(&self) -> Vec<std::net::SocketAddr> {
        let address = |reader: &Reader| match reader {
            Reader::Tcp { intake, .. } => intake.local_addr().ok(),
            _ => None,
        };
        self.readers.iter().filter_map(address).collect()
    }

    /// For people, one fact a line.
    pub fn describe(&self) -> Vec<String> {
        let mut facts = self.facts.clone();
        if let Some(pool) = &self.pool {
            facts.push(format!("memory pool: {} free blocks now", pool.free_blocks()));
        }
        facts
    }

    /// ns since it was made.
    pub fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Reads once from each reader that has something; waits at most about `wait` if none has. Heaps go to `deliver`.
    ///
    /// # Errors
    /// A reader that failed for good.
    pub fn step(
        &mut self,
        wait: Duration,
        deliver: &mut dyn FnMut(Delivery, Arrived),
    ) -> Result<IntakeStep, SourceError> {
        if let Some(why) = self.stream.ended() {
            self.settle(deliver);
            return Ok(IntakeStep::Ended(why));
        }
        let several = self.readers.len() > 1;
        let mut came = self.round(if several { Duration::ZERO } else { wait }, deliver)?;
        if !came && several && !wait.is_zero() {
            came = self.round(TURN.min(wait), deliver)?;
        }
        let now = self.now_ns();
        if !came || now - self.looked_ns >= LOOK_NS {
            self.looked_ns = now;
            self.look(now, deliver);
        }
        self.stream.tally().flush(&self.sheet);
        Ok(match self.stream.ended() {
            Some(why) => {
                self.settle(deliver);
                IntakeStep::Ended(why)
            }
            None if came => IntakeStep::Data,
            None => IntakeStep::Idle,
        })
    }

    fn round(
        &mut self,
        wait: Duration,
        deliver: &mut dyn FnMut(Delivery, Arrived),
    ) -> Result<bool, SourceError> {
        let (stream, began, most) = (&mut self.stream, self.began, self.max_packet);
        let now = || began.elapsed().as_nanos() as u64;
        let mut came = false;
        for reader in &mut self.readers {
            if stream.ended().is_some() {
                break;
            }
            came |= match reader {
                Reader::Datagrams { ended: true, .. } | Reader::Tcp { ended: true, .. } => false,
                Reader::Datagrams { source, batch, ended } => match source.recv(batch, wait)? {
                    Received::Data => {
                        let over = take_batch(stream, batch, now(), most, deliver);
                        self.sheet
                            .add(SpeadCounter::LINES + IntakeCounter::TooLarge as usize, over);
                        true
                    }
                    Received::Idle | Received::Flush(_) => false,
                    Received::End => {
                        *ended = true;
                        stream.reader_ended(now());
                        true
                    }
                },
                Reader::Tcp { intake, ended } => {
                    let came = intake.read(now, wait, |piece| take(stream, piece, now(), deliver));
                    stream.end_batch();
                    *ended = intake.is_over();
                    came
                }
                Reader::Memory { bytes, at } => {
                    while *at < bytes.len() && stream.ended().is_none() {
                        *at += stream.push_buffer(now(), &bytes[*at..]);
                        hand_over(stream, Arrived::default(), deliver);
                    }
                    stream.end_batch();
                    stream.reader_ended(now());
                    true
                }
            };
            hand_over(stream, Arrived::default(), deliver);
        }
        Ok(came)
    }

    /// Timeouts, silent connections, reports.
    fn look(&mut self, now: u64, deliver: &mut dyn FnMut(Delivery, Arrived)) {
        self.stream.expire(now);
        let timeout = self.stream.config().heap_timeout_ns;
        let mut waste = super::tcp::StreamWaste::default();
        for reader in &mut self.readers {
            let Reader::Tcp { intake, ended } = reader else { continue };
            let silent =
                intake.waits_since_ns().is_some_and(|at| now.saturating_sub(at) >= timeout);
            if timeout > 0 && silent {
                let stream = &mut self.stream;
                intake.give_up(now - timeout, |piece| take(stream, piece, now, deliver));
                *ended = intake.is_over();
            }
            let of = intake.waste();
            waste.connections += of.connections;
            waste.resets += of.resets;
            waste.junk_bytes += of.junk_bytes;
            waste.too_large += of.too_large;
            waste.cut += of.cut;
        }
        if waste.connections > 0 {
            let set =
                |line: IntakeCounter, n| self.sheet.set(SpeadCounter::LINES + line as usize, n);
            set(IntakeCounter::Connections, waste.connections);
            set(IntakeCounter::Resets, waste.resets);
            set(IntakeCounter::Junk, waste.junk_bytes);
            set(IntakeCounter::TooLarge, waste.too_large);
            set(IntakeCounter::Cut, waste.cut);
        }
        if let Some(back) = &mut self.back {
            back.tell(&mut self.stream, now);
            let (reports, requests) = back.counts();
            let base = SpeadCounter::LINES;
            self.sheet.set(base + IntakeCounter::Reports as usize, reports);
            self.sheet.set(base + IntakeCounter::Requests as usize, requests);
        }
        hand_over(&mut self.stream, Arrived::default(), deliver);
    }

    /// The stream has ended: what waits is handed over, the last counts are written down.
    fn settle(&mut self, deliver: &mut dyn FnMut(Delivery, Arrived)) {
        let now = self.now_ns();
        if let Some(back) = &mut self.back {
            // The sender's totals may be on their way.
            back.listen(&mut self.stream);
        }
        self.look(now, deliver);
        self.stream.tally().flush(&self.sheet);
        let lost = self.stream.losses().heaps.unwrap_or(0);
        self.sheet.set(SpeadCounter::LostHeaps as usize, lost);
    }

    /// What went wrong on the back-channel last.
    pub fn back_error(&self) -> Option<&BackError> {
        self.back.as_ref().and_then(BackChannel::error)
    }
}

/// Datagrams of a batch; how many were above the limit.
fn take_batch(
    stream: &mut HeapReceiver,
    batch: &Batch,
    now: u64,
    most: usize,
    deliver: &mut dyn FnMut(Delivery, Arrived),
) -> u64 {
    let mut over = 0;
    for train in batch.trains() {
        let arrived = Arrived { origin: train.origin, time_ns: train.time_ns };
        for datagram in train.chunks() {
            if most > 0 && datagram.len() > most {
                over += 1;
                continue;
            }
            while stream.push(now, datagram) == Outcome::Full {
                hand_over(stream, arrived, deliver);
            }
            if stream.store().waiting() > 0 {
                hand_over(stream, arrived, deliver);
            }
        }
    }
    stream.end_batch();
    over
}

fn take(
    stream: &mut HeapReceiver,
    piece: Piece<'_>,
    now: u64,
    deliver: &mut dyn FnMut(Delivery, Arrived),
) {
    let origin = match piece {
        Piece::Packet(packet, origin) => {
            let arrived = Arrived { origin, time_ns: 0 };
            while stream.push(now, packet) == Outcome::Full {
                hand_over(stream, arrived, deliver);
            }
            origin
        }
        Piece::Heap(heap, bytes, origin) => {
            stream.push_heap(now, heap, bytes);
            origin
        }
        Piece::Stop(bytes) => {
            stream.push_stop(now, bytes);
            Origin::NONE
        }
        Piece::Ended => {
            stream.reader_ended(now);
            Origin::NONE
        }
    };
    if stream.store().waiting() > 0 {
        hand_over(stream, Arrived { origin, time_ns: 0 }, deliver);
    }
}

fn hand_over(
    stream: &mut HeapReceiver,
    arrived: Arrived,
    deliver: &mut dyn FnMut(Delivery, Arrived),
) {
    while let Some(delivery) = stream.pop() {
        deliver(delivery, arrived);
    }
}

impl From<BackError> for io::Error {
    fn from(e: BackError) -> io::Error {
        io::Error::other(e.to_string())
    }
}
