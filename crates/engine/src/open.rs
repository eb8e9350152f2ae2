//! From a checked configuration to an opened source.
//!
//! [`SourcePlan::new`] refuses what can be refused without touching the system; [`SourcePlan::open`] opens. No source is named here:
//! each kind reads its URL, says what the run asks before it begins, and opens ([`fullcount_core::source`]).

use std::path::PathBuf;
use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::output::PacketOutput;
use fullcount_core::sim::{Fault, Spec};
use fullcount_core::source::{
    Downstream, FrameRule, OpenedSource, Position, Replayable, ReplayedFrom, Shifter,
    SourceEndpoint, SourceKind, SourceOpenError, SourceOpening, SourceSetup, Sources, TurningClock,
    TurnsFrom,
};
use fullcount_core::wall::WallClock;
use fullcount_detect::detector::{Detector, Sharding};
use fullcount_io::endpoint::{BUFFER_MAX, BUFFER_MIN};
use fullcount_io::fault::FaultSource;
use fullcount_io::several::Several;
use fullcount_io::source::{Source, SourceError};
use fullcount_io::{quantity, section};

use crate::config::{ConfigError, SourceConfig, list, refuse};
use crate::registered;

/// Most receiving threads of a run: more than any host this is meant for has cores to spare.
const MOST_WORKERS: usize = 64;

/// One endpoint of a source.
struct Place {
    /// As configured.
    url: String,
    kind: &'static dyn SourceKind,
    endpoint: Box<dyn SourceEndpoint>,
}

impl Place {
    /// Refuses what cannot be read: a misspelt name is a wrong option, not a failure of the run.
    fn is_there(&self) -> Result<(), ConfigError> {
        let (key, path) = ("source.url", self.url.clone());
        self.endpoint.is_there().map_err(|cause| ConfigError::File { key, path, cause })
    }
}

/// A source that can be opened: one endpoint or several, each with one worker or several.
pub struct SourcePlan {
    places: Vec<Place>,
    /// Workers that share each endpoint.
    workers: u32,
    by_address: bool,
    redundant: bool,
    fault: Option<Fault>,
    timestamps: bool,
    exact_times: bool,
    whole_ipv4: bool,
    /// Bits of the detector's numbers, if receive times are asked for because they are short.
    short_numbers: Option<u32>,
    /// Time of tick 0, ns since 1970; packets that travel with another are refused.
    epoch_ns: i64,
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
        let places = places(config, buffer)?;
        let urls = || list(config.url.as_slice());
        let Some(first) = places.first() else {
            return Err(refuse("source.url", urls(), "at least one endpoint"));
        };
        let by_address = match config.steer.as_str() {
            "sender" => false,
            "address" => true,
            other => return Err(refuse("source.steer", other, "sender or address")),
        };
        let same = places.iter().all(|p| p.kind.several() && p.kind.name() == first.kind.name());
        let several = || {
            let kinds = registered::sources().kinds().filter(|kind| kind.several());
            kinds.map(|kind| format!("{}:", kind.name())).collect::<Vec<_>>().join(" or ")
        };
        if config.workers > 1 && !same {
            let why =
                format!("several workers share out the senders of {} endpoints only", several());
            return Err(refuse("source.workers", config.workers, why));
        }
        if places.len() > 1 && !same {
            let why = format!("several endpoints must all be {}", several());
            return Err(refuse("source.url", urls(), why));
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
            by_address,
            redundant: config.redundant,
            fault: fault(config)?,
            timestamps: config.timestamps,
            exact_times: false,
            whole_ipv4: false,
            short_numbers: None,
            epoch_ns: 0,
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

    /// Makes ready to read the source again in the same way; `None`: it cannot be.
    ///
    /// # Errors
    /// As [`SourceEndpoint::replay`].
    pub(crate) fn replay(
        &mut self,
        from: &ReplayedFrom<'_>,
    ) -> Result<Option<Replayable>, SourceOpenError> {
        match &mut self.places[..] {
            [one] => one.endpoint.replay(from),
            _ => Ok(None),
        }
    }

    /// Looks whether what is read is there. Last of all checks: what is wrong in the configuration is said first.
    ///
    /// # Errors
    /// The first that cannot be read.
    pub fn is_there(&self) -> Result<(), ConfigError> {
        self.places.iter().try_for_each(Place::is_there)
    }

    /// Time of tick 0, ns since 1970.
    pub fn epoch_is(&mut self, epoch_ns: i64) {
        self.epoch_ns = epoch_ns;
    }

    /// Of recordings only counts what the detector's format knows, unless they say more. Packets whose numbers soon wrap
    /// are received with their times.
    pub fn for_detector(&mut self, detector: &dyn Detector) {
        self.short_numbers =
            detector.numbering().filter(|n| n.is_short() && !self.timestamps).map(|n| n.bits);
        self.timestamps |= self.short_numbers.is_some();
        self.whole_ipv4 = detector.is_whole_ipv4();
    }

    /// All that is received will be captured as well: with receive times, and those of a recording exactly.
    pub fn for_capture(&mut self) {
        self.timestamps = true;
        self.exact_times = true;
    }

    /// True if packets come in now.
    pub fn is_live(&self) -> bool {
        self.places.iter().any(|place| place.endpoint.is_live())
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
        match &self.places[..] {
            [one] => Ok(one.endpoint.recorded_clock()?),
            _ => Ok(None),
        }
    }

    /// For people: why receive times are asked for, if nobody asked.
    pub fn why_times(&self) -> Option<String> {
        let bits = self.short_numbers.filter(|_| self.is_live())?;
        Some(format!(
            "receive times are asked for: the numbers in the packets have {bits} bits, and tell a stall's whole loss only with them"
        ))
    }

    /// Files that are read, with the key that names them.
    pub fn files(&self) -> Vec<(&'static str, PathBuf)> {
        self.places.iter().flat_map(|place| place.endpoint.reads()).collect()
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

    /// Opens a source for each worker. `detector` is asked what the source has to know of it.
    ///
    /// # Errors
    /// What could not be opened, with its address or path and the system's words.
    pub fn open(
        &self,
        detector: Option<&dyn Detector>,
    ) -> Result<Vec<WorkerSource>, SourceOpenError> {
        let asked = detector.map(Asked);
        let opening = SourceOpening {
            workers: self.workers,
            by_address: self.by_address,
            spread: false,
            timestamps: self.timestamps,
            exact_times: self.exact_times,
            whole_ipv4: self.whole_ipv4,
            epoch_ns: self.epoch_ns,
            downstream: asked.as_ref().map(|asked| asked as &dyn Downstream),
        };
        let mut opened = Vec::with_capacity(self.workers());
        for place in &self.places {
            let live = place.endpoint.is_live();
            let sources = place.endpoint.open(&opening)?;
            opened.extend(sources.into_iter().map(|source| WorkerSource::new(source, live)));
        }
        if self.redundant {
            opened = vec![WorkerSource::joined(opened)];
        }
        for (at, one) in opened.iter_mut().enumerate() {
            one.core = self.cores.get(at).copied();
        }
        let Some(fault) = &self.fault else { return Ok(opened) };
        Ok(opened.into_iter().map(|one| one.faulty(fault)).collect())
    }

    /// As [`SourcePlan::open`], all read by one thread in turn.
    pub fn open_as_one(
        &self,
        detector: Option<&dyn Detector>,
    ) -> Result<WorkerSource, SourceOpenError> {
        let mut all = self.open(detector)?;
        Ok(if all.len() == 1 { all.remove(0) } else { WorkerSource::joined(all) })
    }
}

/// What a source may ask of a detector.
struct Asked<'a>(&'a dyn Detector);

impl Downstream for Asked<'_> {
    fn by_sender(&self) -> bool {
        self.0.sharding() == Sharding::ByKey
    }

    fn turning_clock(&self) -> Option<TurningClock> {
        self.0.turning_clock()
    }

    fn turns_from(&self, packet: &[u8], time_ns: i64) -> Option<TurnsFrom> {
        self.0.turns_from(packet, time_ns)
    }

    fn count_turns(&self, from: TurnsFrom) {
        self.0.count_turns(from);
    }

    fn framing(&self) -> Option<FrameRule> {
        self.0.framing()
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        self.0.shifter()
    }
}

/// The endpoints of all URLs.
fn places(config: &SourceConfig, buffer: u64) -> Result<Vec<Place>, ConfigError> {
    let sources = registered::sources();
    let mut places = Vec::new();
    for text in config.url.as_slice() {
        let (kind, url) =
            sources.find(text).map_err(|e| refuse("source.url", text, e.to_string()))?;
        for url in kind.each(&url).map_err(|why| refuse("source.url", text, why))? {
            let endpoint = endpoint(sources, kind, &url, config, buffer)?;
            places.push(Place { url, kind, endpoint });
        }
    }
    Ok(places)
}

fn endpoint(
    sources: &Sources,
    kind: &dyn SourceKind,
    url: &str,
    config: &SourceConfig,
    buffer: u64,
) -> Result<Box<dyn SourceEndpoint>, ConfigError> {
    if !config.options.is_empty() && kind.options().is_none() {
        let each = sources.kinds().filter_map(|k| Some((k.name(), k.options()?.whose)));
        let each: Vec<String> = each
            .map(|(name, what)| format!("only with {name}://, not with {url}: {what}"))
            .collect();
        let names = section::settings("source.options", &config.options)?;
        let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
        return Err(refuse("source.options", list(&names), each.join("; ")));
    }
    let options = toml::to_string(&config.options).unwrap_or_default();
    let given = config.receive_buffer != SourceConfig::default().receive_buffer;
    let setup = SourceSetup {
        sources,
        receive_buffer: buffer,
        receive_buffer_given: given.then_some(config.receive_buffer.as_str()),
        engine: &config.engine,
        busy_poll: config.busy_poll,
        nap: config.nap.as_deref(),
        options: &options,
    };
    Ok(kind.plan(url, &setup)?)
}

fn fault(config: &SourceConfig) -> Result<Option<Fault>, ConfigError> {
    let Some(text) = &config.fault else { return Ok(None) };
    let wrong = |e: String| refuse("source.fault", text, e);
    let spec: Spec = text.parse().map_err(|e| wrong(format!("{e}")))?;
    Ok(Some(Fault::new(spec).map_err(|e| wrong(e.to_string()))?))
}

/// An opened source: what one worker reads.
pub struct WorkerSource {
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
    /// Its place that others keep.
    pub(crate) position: Option<Arc<dyn Position>>,
}

impl WorkerSource {
    fn new(from: OpenedSource, live: bool) -> WorkerSource {
        let OpenedSource { source, label, local } = from;
        let (sheet, position) = (source.sheet(), source.position());
        let links = vec![(label.clone(), sheet.clone())];
        WorkerSource {
            source,
            label,
            sheets: vec![sheet],
            links,
            local,
            live,
            core: None,
            position,
        }
    }

    /// One source that reads all of `all` in turn.
    fn joined(all: Vec<WorkerSource>) -> WorkerSource {
        let label = list(&all.iter().map(|o| o.label.as_str()).collect::<Vec<_>>());
        let local = all.first().and_then(|o| o.local);
        let live = all.iter().any(|o| o.live);
        let (mut sources, mut sheets, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for opened in all {
            sheets.extend(opened.sheets);
            links.extend(opened.links);
            sources.push(opened.source);
        }
        let source = Box::new(Several::new(sources));
        WorkerSource { source, label, sheets, links, local, live, core: None, position: None }
    }

    /// It waits for the outputs rather than lose events, at whatever speed.
    pub(crate) fn patient(mut self) -> WorkerSource {
        self.source = Box::new(crate::replay::Patient(self.source));
        self
    }

    /// Has packets of it taken by an output, behind the faults: a replay of all of them then gives the same events. `name` is
    /// for the output to call it by.
    ///
    /// # Errors
    /// The source cannot say when its packets came.
    pub fn tapped(
        mut self,
        output: &mut dyn PacketOutput,
        name: &str,
    ) -> Result<WorkerSource, SourceError> {
        let (source, sheet) = output.tap(self.source, name)?;
        self.sheets.push(sheet);
        self.source = source;
        Ok(self)
    }

    fn faulty(mut self, fault: &Fault) -> WorkerSource {
        let source = FaultSource::new(self.source, fault.clone());
        self.sheets.push(source.fault_sheet());
        self.source = Box::new(source);
        self
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
