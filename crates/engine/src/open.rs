//! From a checked configuration to an opened source.
//!
//! [`SourcePlan::new`] refuses what can be refused without touching the system; [`SourcePlan::open`]
//! binds the socket or reads the file.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::sim::{Fault, Spec};
use fullcount_core::wall::WallClock;
#[cfg(feature = "kafka")]
use fullcount_detect::detector::Sharding;
use fullcount_detect::detector::{Detector, Shifter};
use fullcount_io::capture::Capture;
use fullcount_io::endpoint::{
    BUFFER_MAX, BUFFER_MIN, Endpoint, Engine, Ip, MOST_NAP, PcapSpeed, PcapUrl, Repeat, UdpUrl,
};
use fullcount_io::fault::FaultSource;
use fullcount_io::packet_ring::{PacketError, PacketSource};
use fullcount_io::pcap::{PcapSource, Shift};
use fullcount_io::quantity;
use fullcount_io::several::Several;
use fullcount_io::source::{Received, Source, SourceError};
use fullcount_io::udp::shard::Steer;
use fullcount_io::udp::{ReceiveOptions, UdpError, UdpSource};
use fullcount_io::xdp::{XdpError, XdpSource};

use crate::config::{ConfigError, SourceConfig, list, refuse};
use crate::ports;

/// A source that could not be opened; the sentence names address or path.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A socket.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// A driver's queues.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// An interface's copies.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// A capture or topic.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// What it holds cannot be right for this configuration; exit code 2.
    #[error(transparent)]
    Unfit(#[from] ConfigError),
}

/// Most receiving threads of a run: more than any host this is meant for has cores to spare.
const MOST_WORKERS: usize = 64;

/// One endpoint of a source.
#[derive(Debug, Clone)]
struct Place {
    /// As configured.
    url: String,
    endpoint: Where,
}

impl Place {
    /// Refuses a capture that cannot be read: a misspelt name is a wrong option, not a failure of the run.
    fn is_there(&self) -> Result<(), ConfigError> {
        let Where::Endpoint(Endpoint::Pcap(url)) = &self.endpoint else { return Ok(()) };
        std::fs::metadata(&url.path).map(drop).map_err(|cause| ConfigError::File {
            key: "source.url",
            path: self.url.clone(),
            cause: cause.to_string(),
        })
    }
}

/// What kind of place.
#[derive(Debug, Clone)]
enum Where {
    /// A socket, interface or file.
    Endpoint(Endpoint),
    /// A topic.
    #[cfg(feature = "kafka")]
    Topic(crate::kafka_source::TopicUrl),
}

/// Recorded data.
#[cfg(feature = "kafka")]
pub(crate) enum Recorded<'a> {
    /// A capture.
    File(&'a std::path::Path),
    /// A topic.
    Topic(&'a mut crate::kafka_source::TopicUrl),
}

/// A source that can be opened: one endpoint or several, each with one worker or several.
#[derive(Debug, Clone)]
pub struct SourcePlan {
    places: Vec<Place>,
    /// Workers that share each endpoint.
    workers: u32,
    steer: Steer,
    redundant: bool,
    fault: Option<Fault>,
    timestamps: bool,
    /// Bits of the detector's numbers, if receive times are asked for because they are short.
    short_numbers: Option<u32>,
    /// Time of tick 0, ns since 1970; packets that travel with another are refused.
    epoch_ns: i64,
    /// Bytes; the URL of a socket holds its own already.
    buffer: u64,
    cores: Vec<usize>,
}

impl SourcePlan {
    /// Checks `[source]`; what the URL says wins over the table.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(config: &SourceConfig) -> Result<SourcePlan, ConfigError> {
        let buffer = quantity::size(&config.receive_buffer)
            .map_err(|e| refuse("source.receive_buffer", &config.receive_buffer, e.to_string()))?;
        if !(BUFFER_MIN..=BUFFER_MAX).contains(&buffer) {
            let why = "4KiB to 1GiB";
            return Err(refuse("source.receive_buffer", &config.receive_buffer, why));
        }
        let mut places = Vec::new();
        for url in config.url.as_slice() {
            for url in ports::each(url)? {
                places.push(place(url, config, buffer)?);
            }
        }
        let urls = || list(config.url.as_slice());
        if places.is_empty() {
            return Err(refuse("source.url", urls(), "at least one endpoint"));
        }
        let steer = match config.steer.as_str() {
            "sender" => Steer::Sender,
            "address" => Steer::Address,
            other => return Err(refuse("source.steer", other, "sender or address")),
        };
        let udp = |p: &Place| matches!(p.endpoint, Where::Endpoint(Endpoint::Udp(_)));
        let udp = places.iter().all(udp);
        if config.workers > 1 && !udp {
            let why = "several workers share out the senders of udp: endpoints only";
            return Err(refuse("source.workers", config.workers, why));
        }
        if places.len() > 1 && !udp {
            return Err(refuse("source.url", urls(), "several endpoints must all be udp:"));
        }
        if config.redundant && places.len() < 2 {
            let why = "needs the endpoints of at least two links in source.url";
            return Err(refuse("source.redundant", true, why));
        }
        if config.redundant && config.workers > 1 {
            let why = "1 with source.redundant: one worker must see both copies of a packet";
            return Err(refuse("source.workers", config.workers, why));
        }
        let plan = SourcePlan {
            workers: config.workers,
            steer,
            redundant: config.redundant,
            fault: fault(config)?,
            timestamps: config.timestamps,
            short_numbers: None,
            epoch_ns: 0,
            buffer,
            cores: config.core.as_ref().map_or(Vec::new(), |c| c.as_slice().to_vec()),
            places,
        };
        if plan.workers() > MOST_WORKERS {
            let why = format!("at most {MOST_WORKERS} endpoints times workers");
            return Err(refuse("source.workers", plan.workers(), why));
        }
        check_cores("source.core", &plan.cores, plan.workers())?;
        Ok(plan)
    }

    /// What can be read again from its beginning, if it is one such place: a file, or a topic without a group.
    #[cfg(feature = "kafka")]
    pub(crate) fn recorded(&mut self) -> Option<Recorded<'_>> {
        let [place] = &mut self.places[..] else { return None };
        match &mut place.endpoint {
            Where::Endpoint(Endpoint::Pcap(url)) => Some(Recorded::File(&url.path)),
            Where::Endpoint(_) => None,
            Where::Topic(url) => (!url.in_group()).then_some(Recorded::Topic(url)),
        }
    }

    /// Looks whether captures are there. Last of all checks: what is wrong in the configuration is said first.
    ///
    /// # Errors
    /// The first capture that cannot be read.
    pub fn is_there(&self) -> Result<(), ConfigError> {
        self.places.iter().try_for_each(Place::is_there)
    }

    /// Time of tick 0, ns since 1970.
    pub fn epoch_is(&mut self, epoch_ns: i64) {
        self.epoch_ns = epoch_ns;
    }

    /// Of captures only counts what the detector's format knows, unless their `ip` says more. Packets whose numbers soon wrap
    /// are received with their times.
    pub fn for_detector(&mut self, detector: &dyn Detector) {
        self.short_numbers = detector.short_numbers().filter(|_| !self.timestamps);
        self.timestamps |= self.short_numbers.is_some();
        for place in &mut self.places {
            if let Where::Endpoint(Endpoint::Pcap(url)) = &mut place.endpoint {
                url.ip = url.ip.or(detector.is_whole_ipv4().then_some(Ip::WholeV4));
            }
        }
    }

    /// All that is received will be captured as well: with receive times, and those of a capture exactly.
    pub fn for_capture(&mut self) {
        self.timestamps = true;
        for place in &mut self.places {
            if let Where::Endpoint(Endpoint::Pcap(url)) = &mut place.endpoint {
                url.exact_times = true;
            }
        }
    }

    /// True if packets come in now.
    pub fn is_live(&self) -> bool {
        let live = |p: &Place| matches!(&p.endpoint, Where::Endpoint(e) if !matches!(e, Endpoint::Pcap(_)));
        self.places.iter().any(live)
    }

    /// Times are those of the host's clock: packets are received with theirs.
    pub fn for_wall(&mut self) {
        self.for_capture();
    }

    /// What a recording says of the detector's clock and the host's when it was made; `None` if nothing.
    ///
    /// # Errors
    /// What it says is damaged.
    pub fn recorded_clock(&self) -> Result<Option<WallClock>, ConfigError> {
        let [place] = &self.places[..] else { return Ok(None) };
        let Where::Endpoint(Endpoint::Pcap(url)) = &place.endpoint else { return Ok(None) };
        match fullcount_io::pcap::clock::records(&url.path) {
            Ok(records) => Ok(records.and_then(|records| WallClock::recorded(&records))),
            // What cannot be opened is said where it is opened.
            Err(e) if e.kind() != std::io::ErrorKind::InvalidData => Ok(None),
            Err(e) => {
                let why = format!(
                    "a capture whose clock can be read ({e}); time.epoch = \"1970-01-01T00:00:00Z\" reads it without"
                );
                Err(refuse("source.url", &place.url, why))
            }
        }
    }

    /// For people: why receive times are asked for, if nobody asked.
    pub fn why_times(&self) -> Option<String> {
        let live = |p: &Place| matches!(&p.endpoint, Where::Endpoint(e) if !matches!(e, Endpoint::Pcap(_)));
        let bits = self.short_numbers.filter(|_| self.places.iter().any(live))?;
        Some(format!(
            "receive times are asked for: the numbers in the packets have {bits} bits, and tell a stall's whole loss only with them"
        ))
    }

    /// Files that are read.
    pub fn files(&self) -> impl Iterator<Item = &std::path::Path> {
        self.places.iter().filter_map(|p| match &p.endpoint {
            Where::Endpoint(Endpoint::Pcap(url)) => Some(url.path.as_path()),
            _ => None,
        })
    }

    /// Receiving threads.
    pub fn workers(&self) -> usize {
        if self.redundant { 1 } else { self.places.len() * self.workers as usize }
    }

    /// True if one reader is to see the same packets from several links.
    pub fn redundant(&self) -> bool {
        self.redundant
    }

    /// Endpoints as configured.
    pub fn urls(&self) -> String {
        list(&self.places.iter().map(|p| p.url.as_str()).collect::<Vec<_>>())
    }

    /// Binds the sockets or opens the capture: a source for each worker. `detector` moves counters and
    /// times of a repeated capture on (`shift`).
    ///
    /// # Errors
    /// What could not be opened, with its address or path and the system's words.
    pub fn open(&self, detector: Option<&dyn Detector>) -> Result<Vec<Opened>, OpenError> {
        let mut opened = Vec::with_capacity(self.workers());
        for place in &self.places {
            let shards = if self.workers > 1 { Some((self.workers, self.steer)) } else { None };
            let endpoint = match &place.endpoint {
                Where::Endpoint(endpoint) => endpoint,
                #[cfg(feature = "kafka")]
                Where::Topic(url) => {
                    let origin = detector.is_some_and(|d| d.sharding() == Sharding::ByKey);
                    let clock = detector.and_then(Detector::turning_clock);
                    let epoch_ns = self.epoch_ns;
                    let source =
                        url.open(crate::kafka_source::Needs { origin, epoch_ns, clock })?;
                    if let Some(detector) = detector {
                        // The first one that is a packet of this detector.
                        let begins =
                            |(at, packet): &(i64, Vec<u8>)| detector.begins_with(packet, *at);
                        source.firsts().iter().any(begins);
                    }
                    let group = source.place();
                    let one = Opened::new(Box::new(source), place.url.clone(), None);
                    opened.push(Opened { live: false, group, ..one });
                    continue;
                }
            };
            match endpoint {
                Endpoint::Udp(url) => self.open_udp(url, shards, &mut opened)?,
                Endpoint::Pcap(url) => {
                    let shifter = detector.filter(|_| url.shift).and_then(Detector::shifter);
                    let shift = shifter.map(|s| Moving::learn(s, url)).transpose()?;
                    let shift = shift.map(|s| Box::new(s) as Box<dyn Shift>);
                    let source = Box::new(PcapSource::open(url, shift)?);
                    let one = Opened::new(source, place.url.clone(), None);
                    opened.push(Opened { live: false, ..one });
                }
                Endpoint::Xdp(url) => {
                    let source = Box::new(XdpSource::open(url, self.buffer, self.timestamps)?);
                    opened.push(Opened::new(source, place.url.clone(), None));
                }
                Endpoint::Packet(url) => {
                    let source = Box::new(PacketSource::open(url, self.buffer, self.timestamps)?);
                    opened.push(Opened::new(source, place.url.clone(), None));
                }
            }
        }
        if self.redundant {
            opened = vec![Opened::joined(opened)];
        }
        for (at, one) in opened.iter_mut().enumerate() {
            one.core = self.cores.get(at).copied();
        }
        let Some(fault) = &self.fault else { return Ok(opened) };
        Ok(opened.into_iter().map(|one| one.faulty(fault)).collect())
    }

    /// As [`SourcePlan::open`], all read by one thread in turn.
    ///
    /// # Errors
    /// As there.
    pub fn open_as_one(&self, detector: Option<&dyn Detector>) -> Result<Opened, OpenError> {
        let mut all = self.open(detector)?;
        Ok(if all.len() == 1 { all.remove(0) } else { Opened::joined(all) })
    }

    fn open_udp(
        &self,
        url: &UdpUrl,
        shared: Option<(u32, Steer)>,
        opened: &mut Vec<Opened>,
    ) -> Result<(), OpenError> {
        let alone = ReceiveOptions { timestamps: self.timestamps, ..ReceiveOptions::default() };
        let Some((workers, _)) = shared else {
            let source = UdpSource::open(url, &alone)?;
            let local = source.local_addr();
            opened.push(Opened::new(Box::new(source), format!("udp://{local}"), Some(local)));
            return Ok(());
        };
        // Sockets that share a port would join those of another program without a word.
        let first = UdpSource::open(url, &alone)?;
        let local = first.local_addr();
        drop(first);
        let at = UdpUrl { port: local.port(), ..url.clone() };
        let options = ReceiveOptions { shared, ..alone };
        for _ in 0..workers {
            let source = UdpSource::open(&at, &options)?;
            opened.push(Opened::new(Box::new(source), format!("udp://{local}"), Some(local)));
        }
        Ok(())
    }
}

fn place(url: String, config: &SourceConfig, buffer: u64) -> Result<Place, ConfigError> {
    #[cfg(feature = "kafka")]
    if url.starts_with("kafka://") {
        let topic = crate::kafka_source::TopicUrl::parse(&url, config.settings()?)?;
        return Ok(Place { url, endpoint: Where::Topic(topic) });
    }
    if !config.options.is_empty() {
        let names = config.settings()?.into_iter().map(|(name, _)| name);
        let why = format!("only with kafka://, not with {url}: settings of librdkafka's");
        return Err(refuse("source.options", list(&names.collect::<Vec<_>>()), why));
    }
    let mut endpoint: Endpoint =
        url.parse().map_err(|e| refuse("source.url", &url, format!("{e}")))?;
    let engine = match config.engine.as_str() {
        "auto" => Engine::Auto,
        "plain" => Engine::Plain,
        "mmsg" => Engine::Mmsg,
        "gro" => Engine::Gro,
        "uring" => Engine::Uring,
        other => return Err(refuse("source.engine", other, "auto, plain, mmsg, gro or uring")),
    };
    if let Endpoint::Udp(udp) = &mut endpoint {
        let defaults = SourceConfig::default();
        let twice = |key, value: &str, named: bool| {
            let why = "given in source.url as well: leave one of them out";
            if named { Err(refuse(key, value, why)) } else { Ok(()) }
        };
        let other = config.receive_buffer != defaults.receive_buffer;
        let named = other && udp.receive_buffer.is_some_and(|b| b != buffer);
        twice("source.receive_buffer", &config.receive_buffer, named)?;
        let other = config.engine != defaults.engine;
        let named = other && udp.engine != Engine::Auto && udp.engine != engine;
        twice("source.engine", &config.engine, named)?;
        udp.receive_buffer = udp.receive_buffer.or(Some(buffer));
        udp.spin |= config.busy_poll;
        if let Some(text) = &config.nap {
            let refused = |why: String| refuse("source.nap", text, why);
            let nap = quantity::duration(text).map_err(|e| refused(e.to_string()))?;
            if nap > MOST_NAP {
                return Err(refused("0s to 10ms".into()));
            }
            udp.nap = udp.nap.or(Some(nap));
        }
        if udp.engine == Engine::Auto {
            udp.engine = engine;
        }
    }
    match &mut endpoint {
        Endpoint::Xdp(xdp) => xdp.spin |= config.busy_poll,
        Endpoint::Packet(packet) => packet.spin |= config.busy_poll,
        Endpoint::Udp(_) | Endpoint::Pcap(_) => {}
    }
    if matches!(endpoint, Endpoint::Xdp(_) | Endpoint::Packet(_)) && engine != Engine::Auto {
        let why = "is for udp:// only: the scheme of this URL names its engine";
        return Err(refuse("source.engine", &config.engine, why));
    }
    Ok(Place { url, endpoint: Where::Endpoint(endpoint) })
}

fn fault(config: &SourceConfig) -> Result<Option<Fault>, ConfigError> {
    let Some(text) = &config.fault else { return Ok(None) };
    let wrong = |e: String| refuse("source.fault", text, e);
    let spec: Spec = text.parse().map_err(|e| wrong(format!("{e}")))?;
    Ok(Some(Fault::new(spec).map_err(|e| wrong(e.to_string()))?))
}

/// An opened source: what one worker reads.
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// For people: where it reads.
    pub label: String,
    /// Counters of each link, and of what is wrapped around it.
    pub sheets: Vec<Arc<Sheet>>,
    /// Links read by this worker, with their counters: one, or those of a redundant pair.
    pub links: Vec<(String, Arc<Sheet>)>,
    /// Address of the socket, if it is one.
    pub local: Option<std::net::SocketAddr>,
    /// It receives from a network: the sender's end mark ends it.
    pub live: bool,
    /// CPU to be pinned to.
    pub core: Option<usize>,
    /// Place in a consumer group.
    #[cfg(feature = "kafka")]
    pub(crate) group: Option<Arc<crate::group_place::GroupPlace>>,
}

impl Opened {
    fn new(source: Box<dyn Source>, label: String, local: Option<std::net::SocketAddr>) -> Opened {
        let sheet = source.sheet();
        let links = vec![(label.clone(), sheet.clone())];
        Opened {
            source,
            label,
            sheets: vec![sheet],
            links,
            local,
            live: true,
            core: None,
            #[cfg(feature = "kafka")]
            group: None,
        }
    }

    /// One source that reads all of `all` in turn.
    fn joined(all: Vec<Opened>) -> Opened {
        let label = list(&all.iter().map(|o| o.label.as_str()).collect::<Vec<_>>());
        let local = all.first().and_then(|o| o.local);
        let mut one = Opened { sheets: vec![], links: vec![], ..Opened::new(none(), label, local) };
        let mut sources = Vec::new();
        for opened in all {
            one.sheets.extend(opened.sheets);
            one.links.extend(opened.links);
            sources.push(opened.source);
        }
        one.source = Box::new(Several::new(sources));
        one
    }

    /// It waits for the outputs rather than lose events, at whatever speed.
    #[cfg(feature = "kafka")]
    pub(crate) fn patient(mut self) -> Opened {
        self.source = Box::new(crate::replay::Patient(self.source));
        self
    }

    /// Has packets of it sent to a topic, all or every n-th, behind the faults.
    ///
    /// # Errors
    /// The source cannot say when its packets came.
    #[cfg(feature = "kafka")]
    pub fn tapped(
        mut self,
        taps: &mut fullcount_io::capture::Taps,
        name: &str,
    ) -> Result<Opened, SourceError> {
        let tap = taps.tap(self.source, name)?;
        self.sheets.push(tap.capture_sheet());
        self.source = Box::new(tap);
        Ok(self)
    }

    /// Has all of it captured, behind the faults: a replay then gives the same events. `name` is that of
    /// its interface in the file.
    ///
    /// # Errors
    /// The source cannot say when its packets came.
    pub fn captured(mut self, capture: &mut Capture, name: &str) -> Result<Opened, SourceError> {
        let tap = capture.tap(self.source, name)?;
        self.sheets.push(tap.capture_sheet());
        self.source = Box::new(tap);
        Ok(self)
    }

    fn faulty(mut self, fault: &Fault) -> Opened {
        let source = FaultSource::new(self.source, fault.clone());
        self.sheets.push(source.fault_sheet());
        self.source = Box::new(source);
        self
    }
}

fn none() -> Box<dyn Source> {
    Box::new(Several::new(Vec::new()))
}

/// A detector's rule for moving packets on, with what it learnt in one pass over the capture.
struct Moving(Box<dyn Shifter>);

impl Moving {
    fn learn(mut shifter: Box<dyn Shifter>, url: &PcapUrl) -> Result<Moving, SourceError> {
        let once = PcapUrl {
            repeat: Repeat::Times(std::num::NonZeroU64::MIN),
            shift: false,
            preload: false,
            speed: PcapSpeed::FlatOut,
            ..url.clone()
        };
        let mut source = PcapSource::open(&once, None)?;
        let mut batch: Batch = source.batch();
        while source.recv(&mut batch, Duration::ZERO)? != Received::End {
            for train in batch.trains() {
                train.chunks().for_each(|chunk| shifter.learn(chunk, train.origin));
            }
        }
        Ok(Moving(shifter))
    }
}

impl Shift for Moving {
    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        self.0.shift(payload, origin, repetition);
    }
}

/// Refuses CPU numbers that this host does not have, and lists that do not fit the workers.
///
/// # Errors
/// With the allowed range.
pub fn check_cores(key: &'static str, cores: &[usize], workers: usize) -> Result<(), ConfigError> {
    cores.iter().try_for_each(|&core| check_core(key, Some(core)))?;
    if cores.is_empty() || cores.len() == workers {
        return Ok(());
    }
    let why = format!("one CPU for each of the {workers} workers");
    Err(refuse(key, list(cores), why))
}

/// Refuses a CPU number that this host does not have.
///
/// # Errors
/// With the allowed range.
pub fn check_core(key: &'static str, core: Option<usize>) -> Result<(), ConfigError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    match core.filter(|&c| c >= cpus) {
        None => Ok(()),
        Some(core) => Err(refuse(key, core, format!("0 to {} on this host", cpus - 1))),
    }
}
