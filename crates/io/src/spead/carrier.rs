//! The sources `spead+udp`, `spead+tcp`, `spead+pcap`, `spead+xdp` and `spead+packet`: heaps for a decoder of heaps, or a readout's
//! datagrams, one in an item of each heap.
//!
//! A carrier: below is the transport's own source (TCP listens itself), above it looks like any other source. The item is named by id or by
//! the name in its descriptor. Heaps without it are counted and passed over. A decoder that reads SPEAD packets gets the heaps themselves,
//! unless the URL names an item. Source: `docs/architecture.md`, "Seams".

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Info, Role, Sheet, Unit};
use fullcount_core::refusal::Refusal;
use fullcount_core::source::{
    OpenedSource, Received, Source, SourceEndpoint, SourceError, SourceKind, SourceOpenError,
    SourceOpening, SourceSetup, UrlKey,
};
use fullcount_core::url::{self, Scheme as _};
use fullcount_spead::receive::OnIncomplete;

use super::handed::Handed;
use super::intake::{IntakeStep, SpeadIntake};
use super::url::shared::agree;
use super::url::{SpeadInput, SpeadTransport, SpeadUrl, count_stalls};
use crate::endpoint::{Engine, PcapUrl};
use crate::source::refused;
use crate::udp;

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
        HandedOn "carrier.handed_on" Messages Sum "carrier" Accepted "heaps handed on to a decoder of heaps, whole or what came of them" "";
        NoItem "carrier.no_item" Messages Sum "carrier" Rejected "heaps without the item that holds the datagram" "set item= in the URL to the id or name that the sender uses";
        Unfit "carrier.unfit" Messages Sum "carrier" Dropped(Unknown) "heaps for a decoder of heaps that fit into no packet: above 65531 item pointers, or longer than their addresses reach"
            "send fewer items in a heap, or a flavour with wider addresses";
    }
}

/// Datagrams that do not come for so long, after the first one, are told: a stop heap is lost, or the sender has died. A beam that is off
/// looks the same, so that the source does not end.
pub const STALLED: Duration = Duration::from_secs(30);

/// `spead+TRANSPORT`
pub struct SpeadKind(pub SpeadTransport);

impl SourceKind for SpeadKind {
    fn name(&self) -> &'static str {
        self.0.scheme()
    }

    fn about(&self) -> &'static str {
        match self.0 {
            SpeadTransport::Udp => {
                "SPEAD heaps in datagrams, for the detector heap; other detectors: a datagram in an item of each heap"
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
        let (mut url, inner) = plan(text, setup)?;
        count_stalls(&mut url, STALLED);
        has_senders(text, [&url])?;
        Ok(Box::new(CarrierEndpoint { text: text.to_owned(), url, inner }))
    }
}

/// Lines of the sheet. What a decoder gets are the carried datagrams, so SPEAD's own packets are notes beside them.
fn lines() -> Vec<Info> {
    let mut lines = SpeadIntake::catalogue();
    for line in &mut lines {
        if line.unit == Unit::Packets && !matches!(line.role, Role::Rejected | Role::Dropped(_)) {
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
    plan_as(text, setup, false)
}

/// The same; `spead2`: its stream does what spead2 does, whatever this URL says.
fn plan_as(text: &str, setup: &SourceSetup<'_>, spead2: bool) -> Result<PlannedSpead, Refusal> {
    let mut url = SpeadUrl::<SpeadInput>::read(text).map_err(|e| refused(text, e))?;
    url.told.spead2 |= spead2;
    if url.told.spead2 && url.told.max_packet == 0 {
        // spead2's own limits; it has none for captures.
        url.told.max_packet = match url.transport {
            SpeadTransport::Tcp => 65_536,
            SpeadTransport::Pcap => 0,
            _ => 9200,
        };
    }
    if url.told.spead2 && url.transport == SpeadTransport::Pcap {
        // A key that is said holds: the first of two would be refused.
        let said = url::read::<PcapUrl>(&url.inner).map_err(|e| refused(text, e))?.ip.is_some();
        let joint = if url.inner.contains('?') { '&' } else { '?' };
        if !said {
            url.inner.push(joint);
            url.inner.push_str("ip=plain-v4");
        }
    }
    if let (SpeadTransport::Udp, Some(at)) = (url.transport, &mut url.address) {
        at.receive_buffer = at.receive_buffer.or(Some(setup.receive_buffer));
        if at.engine == Engine::Auto && setup.engine == Engine::Plain.name() {
            at.engine = Engine::Plain;
        }
    }
    let (told, several) = (&url.told, url.told.sockets.is_some_and(|n| n > 1));
    let why = match &url.address {
        Some(at) if at.bind.is_some() => Some(udp::url::BIND_SENDS),
        _ if told.pool > 0 && told.pool_range.0 > told.pool_range.1 => {
            Some("pool_lower is at most pool_upper")
        }
        _ if several && url.transport != SpeadTransport::Udp => Some("sockets is for spead+udp"),
        Some(at) if several && at.engine == Engine::Plain => {
            Some("sockets above 1 need receive times, which engine=plain has not")
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

/// The URLs of one stream, each with the endpoint below it.
///
/// # Errors
/// What is wrong with one, that a later one has another key of the stream than the first, or that none has a sender whose end is the
/// stream's.
pub fn plan_stream(
    texts: &[String],
    setup: &SourceSetup<'_>,
) -> Result<Vec<PlannedSpead>, Refusal> {
    let mut planned: Vec<PlannedSpead> = Vec::with_capacity(texts.len());
    for text in texts {
        let spead2 = planned.first().is_some_and(|(first, _)| first.told.spead2);
        planned.push(plan_as(text, setup, spead2)?);
    }
    agree(texts)?;
    has_senders(&texts.join(" "), planned.iter().map(|(url, _)| url))?;
    Ok(planned)
}

fn has_senders<'a>(
    text: &str,
    urls: impl IntoIterator<Item = &'a SpeadUrl<SpeadInput>>,
) -> Result<(), Refusal> {
    match urls.into_iter().any(|url| url.told.senders > 0) {
        true => Ok(()),
        false => Err(refused(text, "senders=0 needs another URL of the same stream with senders")),
    }
}

/// How the endpoint below is opened.
pub(super) fn below<'a>(
    url: &SpeadUrl<SpeadInput>,
    opening: &SourceOpening<'a>,
) -> SourceOpening<'a> {
    let plain = SourceOpening { downstream: None, workers: 1, ..*opening };
    let needed = || match url.transport {
        SpeadTransport::Udp => url.address.as_ref().map_or(1, udp::sockets_for_buffer),
        _ => 1,
    };
    match url.told.sockets.unwrap_or_else(needed) {
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
    /// Opens it once, with the inner endpoint lent for that; where it listens. `incomplete`: incomplete heaps are handed over, too.
    fn intake(
        &self,
        opening: &SourceOpening<'_>,
        incomplete: bool,
    ) -> Result<OpenedIntake, SourceOpenError> {
        let mut url = self.url.clone();
        let told = &mut url.told;
        told.config.stops = told.senders;
        told.config.readers = told.senders;
        if incomplete {
            told.config.incomplete = OnIncomplete::Give;
        }
        match &self.inner {
            None => {
                let intake = SpeadIntake::open(std::slice::from_ref(&url), &[None], opening)?;
                let local = intake.tcp_addrs().first().copied();
                Ok((intake, local))
            }
            Some(inner) => {
                let (mut intake, mut local) = (SpeadIntake::new(told)?, None);
                let mut sources = vec![];
                let below = below(&self.url, opening);
                for opened in inner.open(&below)? {
                    local = local.or(opened.local);
                    sources.push(opened.source);
                }
                intake.add_endpoint_of(sources, told, below.spread);
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
        let above = opening.downstream.and_then(|decoder| decoder.framing());
        let told = &self.url.told;
        let nested = above.is_some_and(|rule| rule.name == "spead");
        let (nested, heaps) = (nested && told.item.is_some(), nested && told.item.is_none());
        let (intake, local) = self.intake(opening, heaps)?;
        let source =
            CarrierSource { nested, ..CarrierSource::new(intake, told, (self.is_live(), heaps)) };
        let label = match local {
            Some(at) => format!("{}://{at}", self.url.transport.scheme()),
            None => self.text.split('?').next().unwrap_or_default().to_owned(),
        };
        Ok(vec![OpenedSource { source: Box::new(source), label, local }])
    }
}

/// Heaps, or datagrams out of them.
pub struct CarrierSource {
    intake: SpeadIntake,
    handed: Handed,
    live: bool,
    /// What is behind it reads SPEAD packets, and gets those in an item.
    nested: bool,
    sheet: Arc<Sheet>,
    /// Sheets of the sockets below with the line of their drops.
    drops: Vec<(Arc<Sheet>, usize)>,
}

/// What a person who meant the heaps themselves has to know.
const NESTED: &str = "the detector gets the SPEAD packets that travel in an item of these heaps; for the heaps themselves \
                      leave out item=";

/// Memory that a batch keeps, bytes: a run of two threads has 16 batches, and one heap of 1 GiB in each would stay for ever.
const KEPT: usize = 64 << 20;

impl CarrierSource {
    /// Takes the URL's item out of each heap, or hands on the heaps.
    pub fn new(
        mut intake: SpeadIntake,
        told: &SpeadInput,
        (live, heaps): (bool, bool),
    ) -> CarrierSource {
        // One sheet: the stream's lines, those of the readers, the carrier's.
        let sheet = Sheet::new(lines());
        intake.count_on(sheet.clone());
        let drops = |sheet: Arc<Sheet>| {
            let at = sheet.lines().iter().position(|line| line.name == "receive.kernel_drops")?;
            Some((sheet, at))
        };
        let drops = intake.reader_sheets().into_iter().filter_map(drops).collect();
        let counted = (sheet.clone(), own());
        let handed =
            if heaps { Handed::heaps(told, counted) } else { Handed::items(told, counted) };
        CarrierSource { intake, handed, live, nested: false, sheet, drops }
    }
}

impl Source for CarrierSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        batch.release_above(KEPT);
        let handed = &mut self.handed;
        let step = self
            .intake
            .step(wait, &mut |delivery, arrived| handed.take(&delivery, arrived, batch))?;
        let drops = self.drops.iter().map(|(sheet, at)| sheet.get(*at)).sum();
        self.sheet.set(self.handed.own() + CarrierCounter::KernelDrops as usize, drops);
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
        } else if self.handed.is_heaps() {
            facts.push("the detector gets heaps, put together here".to_owned());
        }
        facts
    }
}
