//! The destinations `spead+udp`, `spead+tcp` and `spead+pcap`: each packet becomes a heap with one item.
//!
//! A packet that fits is one SPEAD packet, made in place, and packets of one length leave in one train; a longer one is cut as any heap.
//! The first heap has the item's descriptor; the end is a stop heap. Source: `docs/formats/spead.md`, sections 3 and 7.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::destination::{
    Departed, Destination, DestinationEndpoint, DestinationError, DestinationKind,
    DestinationOpening,
};
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::link::Wire;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::UrlKey;
use fullcount_core::url::Scheme as _;
use fullcount_spead::describe::NumpyHeader;
use fullcount_spead::send::{OutHeap, SendHow};
use fullcount_spead::wire::{header, id};
use fullcount_spead::{BugCompat, Descriptor, Flavour};

use super::outlet::{ONE_RECEIVER, OutletError, Pumped, SpeadOutlet};
use super::url::{ItemChoice, SpeadFraming, SpeadOutput, SpeadTransport, SpeadUrl};

fullcount_core::counters! {
    /// What a destination of carried packets counts.
    pub enum CarryCounter {
        Offered "carry.packets" Packets Sum "carry" In "packets given to be sent in heaps" "";
        Sent "carry.heaps" Packets Sum "carry" Accepted "packets that left, each in a heap" "";
        PayloadBytes "carry.payload_bytes" Bytes Sum "carry" Note "bytes of the packets that left" "";
        SpeadBytes "carry.spead_bytes" Bytes Sum "carry" Note "bytes of SPEAD packets that the system took: payload, headers, descriptors, the stop heap; counted once the stream has ended" "";
        Segments "carry.segment_bytes" Bytes Sum "carry" Note "TCP: bytes in segments that left, by the kernel's count; counted once the stream has ended" "";
        SegmentsAgain "carry.segment_bytes_again" Bytes Sum "carry" Note "TCP: of these, sent again" "";
        Failed "carry.failed" Packets Sum "carry" Rejected "packets that could not be sent" "see the error message of the sender";
    }
}

/// `spead+TRANSPORT`
pub struct SpeadDestination(pub SpeadTransport);

impl DestinationKind for SpeadDestination {
    fn name(&self) -> &'static str {
        self.0.scheme()
    }

    fn about(&self) -> &'static str {
        match self.0 {
            SpeadTransport::Udp => {
                "SPEAD heaps in datagrams: a packet in an item of each heap, or test heaps (--source heaps)"
            }
            SpeadTransport::Tcp => {
                "SPEAD heaps on a TCP connection, in packets as spead2 sends them or whole"
            }
            _ => "SPEAD heaps into a new capture",
        }
    }

    fn form(&self) -> &'static str {
        SpeadOutput::FORM
    }

    fn example(&self) -> &'static str {
        match self.0 {
            SpeadTransport::Udp => "spead+udp://127.0.0.1:8888",
            SpeadTransport::Tcp => "spead+tcp://127.0.0.1:8888?framing=heap",
            _ => "spead+pcap:heaps.pcapng",
        }
    }

    fn keys(&self) -> Vec<UrlKey> {
        match self.0 {
            // The file is written: keys of playing it have no meaning.
            SpeadTransport::Pcap => UrlKey::of::<SpeadOutput>(),
            other => SpeadUrl::<SpeadOutput>::keys(other),
        }
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        match self.0 {
            SpeadTransport::Udp => {
                vec![("sending: packets in SPEAD heaps", CarryCounter::catalogue())]
            }
            _ => vec![],
        }
    }

    fn plan(&self, text: &str) -> Result<Box<dyn DestinationEndpoint>, Refusal> {
        let url = plan(text)?;
        if url.told.feedback.is_some() {
            // Its packets leave as they come: there is no rate to tune, and nothing is kept.
            let why = "a carried readout has no back-channel: feedback, tune and keep are for heaps (--source heaps)";
            return Err(refuse("to", text, why));
        }
        Ok(Box::new(CarryEndpoint {
            label: text.split('?').next().unwrap_or_default().into(),
            url,
        }))
    }
}

/// Reads a sending URL.
///
/// # Errors
/// Key (`to`), value and what is allowed.
pub fn plan(text: &str) -> Result<SpeadUrl<SpeadOutput>, Refusal> {
    let url = SpeadUrl::<SpeadOutput>::read(text).map_err(|e| refuse("to", text, e.to_string()))?;
    let told = &url.told;
    let why = match url.transport {
        SpeadTransport::Xdp | SpeadTransport::Packet => Some("it only receives"),
        SpeadTransport::Udp | SpeadTransport::Pcap if told.framing == SpeadFraming::Heap => {
            Some("framing=heap is for spead+tcp://")
        }
        SpeadTransport::Udp | SpeadTransport::Pcap if told.congestion.is_some() => {
            Some("congestion is for spead+tcp://")
        }
        SpeadTransport::Udp | SpeadTransport::Pcap if told.config.cut.max_packet_size > 65_507 => {
            Some("packet: at most 65507 B in a datagram")
        }
        SpeadTransport::Pcap if url.inner.contains('?') => {
            Some("a file that is written has no such key")
        }
        _ if told.feedback.is_none() && (told.tune || told.config.keep_bytes > 0) => {
            Some("tune and keep need feedback=ADDRESS:PORT")
        }
        _ if !told.tune && (told.loss_target > 0.0 || told.min_rate.is_some()) => {
            Some("loss and min_rate are limits of tune")
        }
        _ => None,
    };
    match why {
        Some(why) => Err(refuse("to", text, why)),
        None => Ok(url),
    }
}

/// Reads the URLs of one stream of heaps; several are its substreams.
///
/// # Errors
/// Key (`to`), value and what is allowed.
pub fn plan_all(texts: &[String]) -> Result<Vec<SpeadUrl<SpeadOutput>>, Refusal> {
    let urls = texts.iter().map(|text| plan(text)).collect::<Result<Vec<_>, _>>()?;
    let back = texts.iter().zip(&urls).find(|(_, url)| url.told.feedback.is_some());
    match back {
        Some((text, _)) if urls.len() > 1 => Err(refuse("to", text, ONE_RECEIVER)),
        _ => Ok(urls),
    }
}

#[derive(Debug)]
struct CarryEndpoint {
    label: String,
    url: SpeadUrl<SpeadOutput>,
}

impl DestinationEndpoint for CarryEndpoint {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn ipv6(&self) -> bool {
        self.url.address.as_ref().is_some_and(|a| a.resolve().is_ok_and(|a| a.is_ipv6()))
    }

    fn open(
        &self,
        opening: &DestinationOpening<'_>,
    ) -> Result<Vec<Box<dyn Destination>>, DestinationError> {
        // A source port for each module is a matter of plain datagrams: here one stream takes all.
        let outlet = SpeadOutlet::open(std::slice::from_ref(&self.url), 0.0);
        let outlet = outlet.map_err(DestinationError::of)?;
        let one = CarryDestination::new(outlet, &self.url, DestinationEndpoint::ipv6(self));
        if opening.source_ports.len() > 1 {
            let why = "several source ports cannot be carried over one SPEAD stream".to_owned();
            return Err(DestinationError::of(why));
        }
        Ok(vec![Box::new(one)])
    }
}

/// Packets into heaps.
struct CarryDestination {
    outlet: SpeadOutlet,
    flavour: Flavour,
    item: u64,
    name: String,
    most: usize,
    descriptors: u64,
    compat: BugCompat,
    next: u64,
    train: Vec<u8>,
    sheet: Arc<Sheet>,
    lossless: bool,
    ipv6: bool,
}

/// Header and five pointers.
const OVERHEAD: usize = 48;
/// Bytes of a train.
const TRAIN: usize = 128 << 10;

impl CarryDestination {
    fn new(outlet: SpeadOutlet, url: &SpeadUrl<SpeadOutput>, ipv6: bool) -> CarryDestination {
        let (item, name) = match &url.told.item {
            ItemChoice::Id(id) => (*id, "packet".to_owned()),
            ItemChoice::Name(name) => (id::FIRST_CHOSEN, name.clone()),
        };
        let most = match url.told.framing {
            SpeadFraming::Heap => usize::MAX,
            SpeadFraming::Packets => url.told.config.cut.max_packet_size / 8 * 8,
        };
        CarryDestination {
            outlet,
            flavour: url.told.flavour,
            item,
            name,
            most,
            descriptors: url.told.descriptors,
            compat: url.told.compat,
            next: 1,
            train: vec![],
            sheet: Sheet::new(CarryCounter::catalogue()),
            lossless: url.transport != SpeadTransport::Udp,
            ipv6,
        }
    }

    /// A packet that fits, in place behind the others.
    fn put(&mut self, packet: &[u8]) {
        let f = self.flavour;
        let length = packet.len() as u64;
        self.train.extend(header(f, 5));
        for (id, value) in [
            (id::HEAP_CNT, self.next & f.largest_value()),
            (id::HEAP_LENGTH, length),
            (id::PAYLOAD_OFFSET, 0),
            (id::PAYLOAD_LENGTH, length),
        ] {
            self.train.extend(f.immediate(id, value).to_bytes());
        }
        self.train.extend(f.addressed(self.item, 0).to_bytes());
        self.train.extend_from_slice(packet);
        self.next += 1;
    }

    fn flush(&mut self, stride: usize) -> Result<(), OutletError> {
        if self.train.is_empty() {
            return Ok(());
        }
        let sent = self.outlet.send_train(0, &self.train, stride);
        self.train.clear();
        sent
    }

    /// A heap as any other: the first with its descriptor, long ones, empty ones.
    fn whole(&mut self, packet: &[u8], described: bool) -> Result<(), OutletError> {
        let mut heap = OutHeap::new(self.flavour);
        if described
            && let Ok(header) =
                NumpyHeader::parse("{'descr': '|u1', 'fortran_order': False, 'shape': ()}")
        {
            // Bytes of any length: a variable dimension, which NumPy headers do not have.
            let mut descriptor =
                Descriptor::numpy(self.item, &self.name, "a datagram of the readout", &header);
            descriptor.numpy_header.clear();
            descriptor.shape = vec![None];
            descriptor.format = vec![fullcount_spead::describe::FormatField { code: 'u', bits: 8 }];
            let added = heap.add_descriptor(&descriptor, self.compat);
            added.map_err(|e| OutletError::Unfit(e.to_string()))?;
        }
        heap.add_item(self.item, packet.to_vec(), false);
        self.queue(heap)
    }

    /// What the transport took in all.
    fn count_bytes(&self) {
        let took = self.outlet.transport();
        for (counter, bytes) in [
            (CarryCounter::SpeadBytes, took.bytes),
            (CarryCounter::Segments, took.sent_bytes.unwrap_or(0)),
            (CarryCounter::SegmentsAgain, took.again_bytes.unwrap_or(0)),
        ] {
            let counted = self.sheet.get(counter as usize);
            self.sheet.add(counter as usize, bytes.saturating_sub(counted));
        }
    }

    fn queue(&mut self, heap: OutHeap) -> Result<(), OutletError> {
        let how =
            SendHow { cnt: Some(self.next & self.flavour.largest_value()), ..SendHow::default() };
        self.next += 1;
        let sender = self.outlet.sender();
        sender.send(heap, how).map_err(|e| OutletError::Unfit(e.to_string()))?;
        while self.outlet.pump(Duration::from_secs(1))? == Pumped::More {}
        while self.outlet.sender().pop_completion().is_some() {}
        Ok(())
    }

    fn all(&mut self, bytes: &[u8], stride: usize) -> Result<(), OutletError> {
        let each = if stride == 0 { bytes.len().max(1) } else { stride };
        if bytes.is_empty() {
            return self.whole(bytes, self.next == 1);
        }
        for packet in bytes.chunks(each) {
            let due = match self.descriptors {
                0 => self.next == 1,
                every => (self.next - 1).is_multiple_of(every),
            };
            if due || packet.len() + OVERHEAD > self.most {
                self.flush(each + OVERHEAD)?;
                self.whole(packet, due)?;
                continue;
            }
            self.put(packet);
            if self.train.len() >= TRAIN {
                self.flush(each + OVERHEAD)?;
            }
        }
        self.flush(each + OVERHEAD)
    }
}

impl Destination for CarryDestination {
    fn send(&mut self, bytes: &[u8], stride: usize) -> Result<(), DestinationError> {
        let packets = if stride == 0 { 1 } else { bytes.len().div_ceil(stride) as u64 };
        self.sheet.add(CarryCounter::Offered as usize, packets);
        match self.all(bytes, stride) {
            Ok(()) => {
                self.sheet.add(CarryCounter::Sent as usize, packets);
                self.sheet.add(CarryCounter::PayloadBytes as usize, bytes.len() as u64);
                Ok(())
            }
            Err(e) => {
                // Some of them may have left: none counts as sent, because nobody knows which.
                self.sheet.add(CarryCounter::Failed as usize, packets);
                Err(DestinationError::of(e))
            }
        }
    }

    fn finish(&mut self) -> Result<(), DestinationError> {
        let stop = OutHeap::stop(self.flavour);
        let ended = self.queue(stop).and_then(|()| self.outlet.finish());
        self.count_bytes();
        match ended {
            // A receiver that knows by the packets' own end marks that it has all may be gone before the stop heap.
            Err(OutletError::Tcp { .. }) => Ok(()),
            other => other.map_err(DestinationError::of),
        }
    }

    fn departed(&self) -> Departed {
        let transport = self.outlet.transport();
        Departed {
            datagrams: transport.packets,
            failed: self.sheet.get(CarryCounter::Failed as usize),
            calls: transport.calls,
        }
    }

    fn lossless(&self) -> bool {
        self.lossless
    }

    fn wire_bits(&self, payload: usize) -> u64 {
        let bytes = payload + OVERHEAD;
        self.outlet.wire().unwrap_or(Wire::usual(self.ipv6, bytes)).bits(bytes)
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        self.outlet.describe()
    }
}
