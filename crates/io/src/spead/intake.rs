//! Many readers into one receive stream: sockets, captures, interfaces, connections, memory.
//!
//! One thread reads them in turn and puts the heaps together; every packet is copied once, from the receive buffer into its heap. Time goes
//! on while nothing comes, so a lost end, a reset connection or a silent sender hangs nobody. The kernel's and the stream's counters
//! are one ledger. Source: `docs/formats/spead.md`, sections 8 and 9.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Origin, Train};
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::{
    Received, Source, SourceEndpoint, SourceError, SourceOpenError, SourceOpening,
};
use fullcount_spead::HeapReceiver;
use fullcount_spead::receive::{
    Delivery, HeapStore, MemoryPool, SpeadCounter, StreamEnd, StreamReceiver,
};

use super::back::{BackChannel, BackError};
use super::carrier::below;
use super::spread::SpreadSockets;
use super::taking::{Taking, hand_over, take_batch, take_train};
use super::tcp::{StreamWaste, TcpIntake, TcpIntakeOptions};
use super::url::{SpeadInput, SpeadUrl};

fullcount_core::counters! {
    /// What readers of heaps count beside the stream.
    pub enum IntakeCounter {
        TooLarge "spead.reader.too_large" Packets Sum "spead.reader" Dropped(Unknown) "packets or whole heaps above max_packet or max_heap, thrown away" "raise max_packet or max_heap if such are meant";
        NoMemory "spead.reader.no_memory" Packets Sum "spead.reader" Dropped(Unknown) "whole heaps on TCP connections for which there was no memory within max_live" "raise max_live, or lower max_heap or the number of senders";
        Connections "spead.reader.connections" Times Sum "spead.reader" Note "TCP connections that were accepted" "";
        Resets "spead.reader.resets" Times Sum "spead.reader" Note "TCP connections that were reset, or whose peer no longer answered" "look at the sender: its heaps may be incomplete";
        Silent "spead.reader.silent" Times Sum "spead.reader" Note "TCP connections that were ended to make room: they had sent no packet, and more than 64 such were open" "find out who connects without sending SPEAD";
        Junk "spead.reader.junk_bytes" Bytes Sum "spead.reader" Dropped(Unknown) "bytes on TCP connections that belonged to no packet" "is the sender's framing the same as here?";
        NotWhole "spead.reader.not_whole" Packets Sum "spead.reader" Dropped(Unknown) "packets on TCP connections of whole heaps (framing=heap) that were only parts of one" "the sender cuts its heaps: leave framing=heap out here, or set it at the sender";
        Cut "spead.reader.cut" Times Sum "spead.reader" Dropped(Unknown) "TCP connections that ended inside of a packet or heap" "look at the sender";
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

enum ReadFrom {
    Datagrams { source: Box<dyn Source>, batch: Batch },
    Spread(SpreadSockets),
    Tcp(Box<TcpIntake>),
    Memory { bytes: Vec<u8>, at: usize },
}

struct Reader {
    from: ReadFrom,
    ended: bool,
    /// Its endpoint.
    endpoint: usize,
    /// Largest datagram; 0: no limit.
    max_packet: usize,
}

/// An endpoint: its readers, and how many of its senders are done.
struct Endpoint {
    senders: u32,
    /// Readers that have not ended.
    open: u32,
    /// Stop items that came in there.
    stops: u32,
    /// Senders whose reader or connection has ended.
    ended: u32,
}

impl Endpoint {
    /// A sender that stopped and whose connection then ended is one.
    fn done(&self) -> u32 {
        self.stops.min(self.senders).max(self.ended)
    }

    /// One of its readers has come to its end; with the last one all its senders have.
    fn reader_ended(&mut self, stream: &mut HeapReceiver, now: u64) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.ended = self.senders;
            // Readers that bring no sender of their own end the stream as spead2 has it.
            for _ in 0..self.senders.max(1) {
                stream.reader_ended(now);
            }
        }
    }
}

/// Longest wait for one of several readers while another may have something.
const TURN: Duration = Duration::from_millis(1);
/// Between two looks at timeouts and the back-channel, ns.
const LOOK_NS: u64 = 5_000_000;

/// A receive stream with its readers.
pub struct SpeadIntake {
    stream: HeapReceiver,
    readers: Vec<Reader>,
    endpoints: Vec<Endpoint>,
    /// Datagrams above the limit of their reader.
    too_large: u64,
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
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (lower, upper) = (size(told.pool_range.0), size(told.pool_range.1));
        let pool = match told.pool {
            0 => None,
            most => {
                let made = MemoryPool::new(lower, upper, most, told.pool_initial);
                let many = format!("{} blocks of {upper} B", told.pool_initial);
                Some(made.ok_or_else(|| refuse("pool_initial", many, "what memory has room for"))?)
            }
        };
        SpeadIntake::with_pool(told, pool)
    }

    /// The same with that memory.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn with_pool(told: &SpeadInput, pool: Option<MemoryPool>) -> Result<SpeadIntake, Refusal> {
        let config = told.config.clone();
        let mut store = HeapStore::new(config.ring_heaps, config.incomplete)
            .with_ring_bytes(config.max_live_bytes)
            .copies(told.copies());
        if let Some(pool) = &pool {
            store = store.with_memory(pool.clone());
        }
        Ok(SpeadIntake {
            stream: StreamReceiver::with_store(config, store)?,
            readers: vec![],
            endpoints: vec![],
            too_large: 0,
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

    /// Opens endpoints as readers of one stream, whose settings are those of the first. `inner` are the endpoints below SPEAD, in the same
    /// order; of TCP there is none.
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
        // With spead2 the first stop and the first reader's end are the stream's.
        told.config.stops = match told.spead2 && urls.iter().all(|url| !url.told.senders_said) {
            true => 1,
            false => urls.iter().map(|url| url.told.senders).sum(),
        };
        told.config.readers = told.config.stops;
        let mut intake = SpeadIntake::new(&told)?;
        for (url, inner) in urls.iter().zip(inner) {
            match (inner, &url.address) {
                (Some(endpoint), _) => {
                    let below = below(url, opening);
                    let opened = endpoint.open(&below)?;
                    let sources = opened.into_iter().map(|one| one.source).collect();
                    intake.add_endpoint_of(sources, &url.told, below.spread);
                }
                (None, Some(address)) => {
                    let options = TcpIntakeOptions {
                        senders: url.told.senders.max(1),
                        framing: url.told.framing,
                        max_packet: url.told.max_packet,
                        max_heap: told.config.max_heap_bytes,
                        max_live: told.config.max_live_bytes,
                        memory: intake.pool.clone(),
                        ignore_stop: !told.config.stop_on_stop_item,
                        low_water: url.told.low_water,
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
            intake.report_to(if urls.len() > 1 { back.beside_others() } else { back });
        }
        Ok(intake)
    }

    /// Datagrams from there are packets, of one sender.
    pub fn add_source(&mut self, source: Box<dyn Source>) {
        self.add_endpoint_of(vec![source], &SpeadInput::default(), false);
    }

    /// Those of an endpoint with several sources; its senders have ended when all of these have. `spread`: trains of one sender come in any
    /// of them.
    pub(super) fn add_endpoint_of(
        &mut self,
        sources: Vec<Box<dyn Source>>,
        told: &SpeadInput,
        spread: bool,
    ) {
        let (senders, max_packet) = (told.senders, told.max_packet);
        if !spread {
            let endpoint = self.add_endpoint(senders, sources.len() as u32);
            for source in sources {
                self.facts.extend(source.describe());
                self.lossless &= source.lossless();
                let from = ReadFrom::Datagrams { batch: source.batch(), source };
                self.readers.push(Reader { from, ended: false, endpoint, max_packet });
            }
            return;
        }
        let endpoint = self.add_endpoint(senders, 1);
        self.facts
            .push(format!("{} sockets share the port: trains go to any of them", sources.len()));
        self.facts.extend(sources.iter().take(1).flat_map(|source| source.describe()));
        self.lossless &= sources.iter().all(|source| source.lossless());
        let from = ReadFrom::Spread(SpreadSockets::new(sources));
        self.readers.push(Reader { from, ended: false, endpoint, max_packet });
    }

    fn add_endpoint(&mut self, senders: u32, open: u32) -> usize {
        self.endpoints.push(Endpoint { senders, open, stops: 0, ended: 0 });
        self.endpoints.len() - 1
    }

    /// Connections bring packets or heaps.
    pub fn add_tcp(&mut self, intake: TcpIntake) {
        if let Ok(at) = intake.local_addr() {
            self.facts.push(format!("listening on spead+tcp://{at}"));
        }
        let endpoint = self.add_endpoint(intake.senders(), 1);
        let from = ReadFrom::Tcp(Box::new(intake));
        self.readers.push(Reader { from, ended: false, endpoint, max_packet: 0 });
    }

    /// Packets back to back in memory.
    pub fn add_memory(&mut self, bytes: Vec<u8>) {
        let endpoint = self.add_endpoint(1, 1);
        let from = ReadFrom::Memory { bytes, at: 0 };
        self.readers.push(Reader { from, ended: false, endpoint, max_packet: 0 });
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
        let sheets = |reader: &Reader| match &reader.from {
            ReadFrom::Datagrams { source, .. } => vec![source.sheet()],
            ReadFrom::Spread(sockets) => sockets.sheets(),
            ReadFrom::Tcp(_) | ReadFrom::Memory { .. } => vec![],
        };
        self.readers.iter().flat_map(sheets).collect()
    }

    /// Read later, nothing is lost.
    pub fn lossless(&self) -> bool {
        self.lossless
    }

    /// Addresses of listening TCP readers.
    pub fn tcp_addrs(&self) -> Vec<std::net::SocketAddr> {
        let address = |reader: &Reader| match &reader.from {
            ReadFrom::Tcp(intake) => intake.local_addr().ok(),
            _ => None,
        };
        self.readers.iter().filter_map(address).collect()
    }

    /// Bytes of all TCP connections.
    pub fn stream_bytes(&self) -> u64 {
        let bytes = |reader: &Reader| match &reader.from {
            ReadFrom::Tcp(intake) => intake.bytes(),
            _ => 0,
        };
        self.readers.iter().map(bytes).sum()
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
        let SpeadIntake { stream, readers, endpoints, too_large, sheet, .. } = self;
        let began = self.began;
        let mut above = |over| {
            *too_large += over;
            sheet.add(SpeadCounter::LINES + IntakeCounter::TooLarge as usize, over);
        };
        let now = || began.elapsed().as_nanos() as u64;
        let mut came = false;
        for reader in readers.iter_mut().filter(|reader| !reader.ended) {
            if stream.ended().is_some() {
                break;
            }
            let endpoint = &mut endpoints[reader.endpoint];
            let (stops, most) = (stream.stop_items(), reader.max_packet);
            came |= match &mut reader.from {
                ReadFrom::Datagrams { source, batch } => match source.recv(batch, wait)? {
                    Received::Data => {
                        above(take_batch(stream, batch, now(), most, deliver));
                        true
                    }
                    Received::Idle | Received::Flush(_) => false,
                    Received::End => {
                        reader.ended = true;
                        endpoint.reader_ended(stream, now());
                        true
                    }
                },
                ReadFrom::Spread(sockets) => {
                    let mut take =
                        |train: Train<'_>| above(take_train(stream, &train, now(), most, deliver));
                    let came = sockets.read(wait, &mut take)?;
                    stream.end_batch();
                    came
                }
                ReadFrom::Tcp(intake) => {
                    let before = intake.bytes_of_senders();
                    let came = intake.read(wait, &mut Taking { stream, began, deliver });
                    if intake.bytes_of_senders() > before {
                        stream.bytes_came(now());
                    }
                    stream.end_batch();
                    reader.ended = intake.is_over();
                    endpoint.ended = intake.ended();
                    came
                }
                ReadFrom::Memory { bytes, at } => {
                    while *at < bytes.len() && stream.ended().is_none() {
                        *at += stream.push_buffer(now(), &bytes[*at..]);
                        hand_over(stream, Arrived::default(), deliver);
                    }
                    stream.end_batch();
                    reader.ended = true;
                    endpoint.reader_ended(stream, now());
                    true
                }
            };
            endpoint.stops += stream.stop_items() - stops;
            hand_over(stream, Arrived::default(), deliver);
        }
        let wanted = stream.config().stops.max(stream.config().readers);
        let over = !readers.is_empty() && readers.iter().all(|reader| reader.ended);
        if over || endpoints.iter().map(Endpoint::done).sum::<u32>() >= wanted {
            stream.readers_over(now());
            hand_over(stream, Arrived::default(), deliver);
        }
        Ok(came)
    }

    /// Timeouts, silent connections, reports.
    fn look(&mut self, now: u64, deliver: &mut dyn FnMut(Delivery, Arrived)) {
        self.stream.expire(now);
        let timeout = self.stream.config().heap_timeout_ns;
        let mut waste = StreamWaste { too_large: self.too_large, ..StreamWaste::default() };
        for reader in &mut self.readers {
            let ReadFrom::Tcp(intake) = &mut reader.from else { continue };
            let silent =
                intake.waits_since_ns().is_some_and(|at| now.saturating_sub(at) >= timeout);
            if timeout > 0 && silent {
                let (stream, began) = (&mut self.stream, self.began);
                intake.give_up(now - timeout, &mut Taking { stream, began, deliver });
                reader.ended = intake.is_over();
                self.endpoints[reader.endpoint].ended = intake.ended();
            }
            let of = intake.waste();
            waste.connections += of.connections;
            waste.resets += of.resets;
            waste.silent += of.silent;
            waste.junk_bytes += of.junk_bytes;
            waste.too_large += of.too_large;
            waste.no_memory += of.no_memory;
            waste.cut += of.cut;
            waste.not_whole += of.not_whole;
        }
        if waste.connections > 0 {
            let set =
                |line: IntakeCounter, n| self.sheet.set(SpeadCounter::LINES + line as usize, n);
            set(IntakeCounter::Connections, waste.connections);
            set(IntakeCounter::Resets, waste.resets);
            set(IntakeCounter::Silent, waste.silent);
            set(IntakeCounter::Junk, waste.junk_bytes);
            set(IntakeCounter::TooLarge, waste.too_large);
            set(IntakeCounter::NoMemory, waste.no_memory);
            set(IntakeCounter::Cut, waste.cut);
            set(IntakeCounter::NotWhole, waste.not_whole);
        }
        if let Some(back) = &mut self.back {
            back.tell(&mut self.stream, now);
            let (reports, requests) = back.counts();
            let base = SpeadCounter::LINES;
            self.sheet.set(base + IntakeCounter::Reports as usize, reports);
            self.sheet.set(base + IntakeCounter::Requests as usize, requests);
        }
        hand_over(&mut self.stream, Arrived::default(), deliver);
        // So far: a heap that is not finished may be the one that a number is missing of.
        let lost = self.stream.losses().heaps.unwrap_or(0);
        let lost = lost.saturating_sub(self.stream.live_heaps());
        self.sheet.set(SpeadCounter::LostHeaps as usize, lost);
    }

    /// The stream has ended: what waits is handed over, connections are closed, the last counts are written down.
    fn settle(&mut self, deliver: &mut dyn FnMut(Delivery, Arrived)) {
        let now = self.now_ns();
        for reader in &mut self.readers {
            let ReadFrom::Tcp(intake) = &mut reader.from else { continue };
            let (stream, began) = (&mut self.stream, self.began);
            intake.close_all(&mut Taking { stream, began, deliver });
        }
        if let Some(back) = &mut self.back {
            // The sender's totals may be on their way.
            back.listen(&mut self.stream);
        }
        self.look(now, deliver);
        self.stream.tally().flush(&self.sheet);
        let losses = self.stream.losses();
        for (line, lost) in [
            (SpeadCounter::LostHeaps, losses.heaps),
            (SpeadCounter::RestBytes, losses.rest_bytes),
            (SpeadCounter::RestPackets, losses.rest_packets),
        ] {
            self.sheet.set(line as usize, lost.unwrap_or(0));
        }
    }

    /// What went wrong on the back-channel last.
    pub fn back_error(&self) -> Option<&BackError> {
        self.back.as_ref().and_then(BackChannel::error)
    }
}

impl From<BackError> for io::Error {
    fn from(e: BackError) -> io::Error {
        io::Error::other(e.to_string())
    }
}
