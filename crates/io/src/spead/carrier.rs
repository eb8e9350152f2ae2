//! The sources `spead+udp`, `spead+tcp`, `spead+pcap`, `spead+xdp` and `spead+packet`: a readout's datagrams, one in an item of each heap.
//!
//! A carrier: below is the transport's own source (TCP listens itself), above it looks like any other source. The item is named by id or by
//! the name in its descriptor. Heaps without it are counted and passed over. Source: `docs/architecture.md`, "Seams".

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Edge};
use fullcount_core::ledger::{Info, Role, Sheet, Unit};
use fullcount_core::refusal::Refusal;
use fullcount_core::source::{
    OpenedSource, Received, Source, SourceEndpoint, SourceError, SourceKind, SourceOpenError,
    SourceOpening, SourceSetup, UrlKey,
};
use fullcount_core::url::Scheme as _;
use fullcount_spead::receive::{Delivery, Heap, ItemValue};
use fullcount_spead::{BugCompat, Descriptor};

use super::intake::{IntakeStep, SpeadIntake};
use super::url::{ItemChoice, SpeadInput, SpeadTransport, SpeadUrl};
use crate::source::refused;

fullcount_core::counters! {
    /// What a carrier counts.
    pub enum CarrierCounter {
        Packets "receive.packets" Packets Sum "receive" In "datagrams received" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted "datagrams handed on to the decoder" "";
        Bytes "receive.bytes" Bytes Sum "receive" Note "payload bytes received" "";
        KernelDrops "receive.kernel_drops" Times Sum "receive" Note
            "times that the socket's buffer was full (a train of many datagrams counts once: the amount lost is in packets.lost)"
            "raise receive_buffer and net.core.rmem_max, pin the receiver to a core of its own, or lower the rate";
        Heaps "carrier.heaps" Messages Sum "carrier" In "heaps that came over SPEAD" "";
        Datagrams "carrier.datagrams" Messages Sum "carrier" Accepted "datagrams taken out of heaps" "";
        NoItem "carrier.no_item" Messages Sum "carrier" Rejected "heaps without the item that holds the datagram" "set item= in the URL to the id or name that the sender uses";
    }
}

/// `spead+TRANSPORT`
pub struct SpeadKind(pub SpeadTransport);

impl SourceKind for SpeadKind {
    fn name(&self) -> &'static str {
        self.0.scheme()
    }

    fn about(&self) -> &'static str {
        match self.0 {
            SpeadTransport::Udp => {
                "SPEAD heaps in datagrams; run: a readout's datagram in an item of each heap"
            }
            SpeadTransport::Tcp => {
                "SPEAD heaps on TCP connections, in packets as spead2 sends them or whole"
            }
            SpeadTransport::Pcap => "SPEAD heaps of a capture",
            SpeadTransport::Xdp => "SPEAD heaps from an interface's driver",
            SpeadTransport::Packet => "SPEAD heaps from an interface's copies",
        }
    }

    fn form(&self) -> &'static str {
        SpeadInput::FORM
    }

    fn example(&self) -> &'static str {
        match self.0 {
            SpeadTransport::Udp => "spead+udp://0.0.0.0:8888",
            SpeadTransport::Tcp => "spead+tcp://0.0.0.0:8888",
            SpeadTransport::Pcap => "spead+pcap:run.pcapng",
            SpeadTransport::Xdp => "spead+xdp://eth0:8888",
            SpeadTransport::Packet => "spead+packet://eth0:8888",
        }
    }

    fn keys(&self) -> Vec<UrlKey> {
        SpeadUrl::<SpeadInput>::keys(self.0)
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("receiving: SPEAD heaps", lines())]
    }

    fn plan(
        &self,
        text: &str,
        setup: &SourceSetup<'_>,
    ) -> Result<Box<dyn SourceEndpoint>, Refusal> {
        let (url, inner) = plan(text, setup)?;
        Ok(Box::new(CarrierEndpoint { text: text.to_owned(), url, inner }))
    }
}

/// Lines of the sheet. What a decoder gets are the carried datagrams, so SPEAD's own packets are notes beside them.
fn lines() -> Vec<Info> {
    let mut lines = SpeadIntake::catalogue();
    for line in &mut lines {
        if line.unit == Unit::Packets && line.role != Role::Rejected {
            line.role = Role::Note;
        }
    }
    lines.extend(CarrierCounter::catalogue());
    lines
}

/// Where the carrier's own lines begin.
fn own() -> usize {
    SpeadIntake::catalogue().len()
}

/// A checked URL and the endpoint below it.
pub type PlannedSpead = (SpeadUrl<SpeadInput>, Option<Box<dyn SourceEndpoint>>);

/// A receiving URL and the endpoint below it; TCP has none.
///
/// # Errors
/// What is wrong with it.
pub fn plan(text: &str, setup: &SourceSetup<'_>) -> Result<PlannedSpead, Refusal> {
    let url = SpeadUrl::<SpeadInput>::read(text).map_err(|e| refused(text, e))?;
    let told = &url.told;
    let why = match &url.address {
        Some(at) if url.transport == SpeadTransport::Tcp && at.interface.is_some() => {
            Some("bind is for sending: the URL's address says where it listens")
        }
        _ if told.pool > 0 && told.pool_range.0 > told.pool_range.1 => {
            Some("pool_lower is at most pool_upper")
        }
        _ if told.sockets > 1 && url.transport != SpeadTransport::Udp => {
            Some("sockets is for spead+udp")
        }
        _ if told.pool_initial > told.pool => Some("pool_initial is at most pool"),
        _ => None,
    };
    if let Some(why) = why {
        return Err(refused(text, why));
    }
    let inner = match url.transport {
        SpeadTransport::Tcp => None,
        _ => Some(setup.endpoint(&url.inner)?),
    };
    url.told.config.check()?;
    Ok((url, inner))
}

/// How the endpoint below is opened.
pub(super) fn below<'a>(told: &SpeadInput, opening: &SourceOpening<'a>) -> SourceOpening<'a> {
    let plain = SourceOpening { downstream: None, workers: 1, ..*opening };
    match told.sockets {
        1 => plain,
        workers => SourceOpening { workers, spread: true, timestamps: true, ..plain },
    }
}

/// A stream, and where it listens.
type OpenedIntake = (SpeadIntake, Option<SocketAddr>);

struct CarrierEndpoint {
    text: String,
    url: SpeadUrl<SpeadInput>,
    inner: Option<Box<dyn SourceEndpoint>>,
}

impl CarrierEndpoint {
    /// Opens it once, with the inner endpoint lent for that; where it listens.
    fn intake(&self, opening: &SourceOpening<'_>) -> Result<OpenedIntake, SourceOpenError> {
        let mut told = self.url.told.clone();
        told.config.stops = told.senders;
        told.config.readers = told.senders;
        match &self.inner {
            None => {
                let intake = SpeadIntake::open(std::slice::from_ref(&self.url), &[None], opening)?;
                let local = intake.tcp_addrs().first().copied();
                Ok((intake, local))
            }
            Some(inner) => {
                let (mut intake, mut local) = (SpeadIntake::new(&told)?, None);
                let mut sources = vec![];
                for opened in inner.open(&below(&told, opening))? {
                    local = local.or(opened.local);
                    sources.push(opened.source);
                }
                intake.add_endpoint_of(sources, &told);
                if let Some(to) = told.feedback {
                    let back = super::back::BackChannel::to(to, told.resend);
                    intake.report_to(back.map_err(SourceOpenError::failed)?);
                }
                Ok((intake, local))
            }
        }
    }
}

impl SourceEndpoint for CarrierEndpoint {
    fn reads(&self) -> Vec<(&'static str, PathBuf)> {
        self.inner.as_ref().map_or_else(Vec::new, |inner| inner.reads())
    }

    fn is_there(&self) -> Result<(), String> {
        self.inner.as_ref().map_or(Ok(()), |inner| inner.is_there())
    }

    fn is_live(&self) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.is_live())
    }

    fn open(&self, opening: &SourceOpening<'_>) -> Result<Vec<OpenedSource>, SourceOpenError> {
        let (intake, local) = self.intake(opening)?;
        let live = self.is_live();
        let above = opening.downstream.and_then(|decoder| decoder.framing());
        let source = CarrierSource {
            nested: above.is_some_and(|rule| rule.name == "spead"),
            ..CarrierSource::new(intake, &self.url.told, live)
        };
        let label = match local {
            Some(at) => format!("{}://{at}", self.url.transport.scheme()),
            None => self.text.split('?').next().unwrap_or_default().to_owned(),
        };
        Ok(vec![OpenedSource { source: Box::new(source), label, local }])
    }
}

/// Datagrams out of heaps.
pub struct CarrierSource {
    intake: SpeadIntake,
    item: ItemChoice,
    compat: BugCompat,
    /// Id of the item, once it is known.
    id: Option<u64>,
    live: bool,
    /// What is behind it reads SPEAD packets itself.
    nested: bool,
    sheet: Arc<Sheet>,
    own: usize,
    /// Sheets of the sockets below with the line of their drops.
    drops: Vec<(Arc<Sheet>, usize)>,
}

/// What a person who meant the heaps themselves has to know.
const NESTED: &str = "the detector gets the SPEAD packets that travel in an item of these heaps; for the heaps themselves \
                      leave out spead+ (udp://, tcp://, pcap:)";

/// Descriptors of one heap that are read.
const MOST_DESCRIPTORS: usize = 64;

impl CarrierSource {
    /// Takes that item out of each heap.
    pub fn new(mut intake: SpeadIntake, told: &SpeadInput, live: bool) -> CarrierSource {
        let (item, compat) = (told.item.clone(), told.compat);
        let id = match item {
            ItemChoice::Id(id) => Some(id),
            ItemChoice::Name(_) => None,
        };
        // One sheet: the stream's lines, those of the readers, the carrier's.
        let sheet = Sheet::new(lines());
        intake.count_on(sheet.clone());
        let drops = |sheet: Arc<Sheet>| {
            let at = sheet.lines().iter().position(|line| line.name == "receive.kernel_drops")?;
            Some((sheet, at))
        };
        let drops = intake.reader_sheets().into_iter().filter_map(drops).collect();
        CarrierSource { intake, item, compat, id, live, nested: false, sheet, own: own(), drops }
    }
}

/// Learns the item's id from descriptors.
fn learn(heap: &Heap, name: &str, compat: BugCompat) -> Option<u64> {
    let all = heap.descriptor_bytes().take(MOST_DESCRIPTORS);
    let described = |bytes: &[u8]| Descriptor::parse(bytes, compat, 1);
    all.flat_map(described).find(|d| d.name == name).map(|d| d.id)
}

impl Source for CarrierSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        let (item, id, sheet, own) = (&self.item, &mut self.id, &self.sheet, self.own);
        let compat = self.compat;
        let count = |line: CarrierCounter, n: u64| sheet.add(own + line as usize, n);
        let step = self.intake.step(wait, &mut |delivery, arrived| {
            let Delivery::Heap(heap) = delivery else { return };
            count(CarrierCounter::Heaps, 1);
            if let ItemChoice::Name(name) = item
                && let Some(known) = learn(&heap, name, compat)
            {
                *id = Some(known);
            }
            let found = id.and_then(|id| heap.item(id));
            let Some(found) = found else {
                count(CarrierCounter::NoItem, 1);
                return;
            };
            count(CarrierCounter::Datagrams, 1);
            count(CarrierCounter::Packets, 1);
            count(CarrierCounter::Accepted, 1);
            count(CarrierCounter::Bytes, found.bytes().map_or(8, <[u8]>::len) as u64);
            match found.value {
                ItemValue::Bytes(bytes) => {
                    batch.append(bytes, arrived.origin, arrived.time_ns, Edge::Heap);
                }
                ItemValue::Immediate(value) => {
                    // A short datagram that the sender put into the pointer: its length is not known, so it has all the pointer's bytes.
                    let bytes = value.to_be_bytes();
                    let from = 8 - heap.flavour.address_bytes();
                    batch.append(&bytes[from..], arrived.origin, arrived.time_ns, Edge::Heap);
                }
            }
        })?;
        let drops = self.drops.iter().map(|(sheet, at)| sheet.get(*at)).sum();
        self.sheet.set(self.own + CarrierCounter::KernelDrops as usize, drops);
        Ok(match step {
            _ if !batch.is_empty() => Received::Data,
            IntakeStep::Ended(_) => Received::End,
            IntakeStep::Data | IntakeStep::Idle => Received::Idle,
        })
    }

    fn batch(&self) -> Batch {
        Batch::with_slots(1, 1 << 20)
    }

    fn lossless(&self) -> bool {
        self.intake.lossless()
    }

    fn replay(&self) -> bool {
        !self.live
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        let mut facts = self.intake.describe();
        if self.nested {
            facts.push(NESTED.to_owned());
        }
        facts
    }
}
