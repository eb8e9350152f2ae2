//! The outputs of a configuration: checked first, opened later, the page served beside them.
//!
//! A capture is no sink of events: it is fed where packets are received ([`fullcount_io::capture`]).
//! Refuses a NeXus file for a detector without pixels and values out of range before anything is opened.

#[cfg(feature = "web")]
use std::net::SocketAddr;

use fullcount_core::view::PixelMap;
use fullcount_detect::detector::Detector;
use fullcount_io::capture::{
    BUFFER_MAX, BUFFER_MIN, Capture, CaptureOptions, ROTATE_SIZE_MIN, ROTATE_TIME_MIN,
};
use fullcount_io::quantity;
use fullcount_out::null::NullSink;
use fullcount_out::sink::Sink;

use crate::claims::Claims;
use crate::config::{CaptureConfig, Config, ConfigError, refuse};
use crate::run::RunError;
use crate::stop::Stop;

/// Outputs that can be opened.
pub struct OutputPlan {
    #[cfg(feature = "nexus")]
    nexus: Option<fullcount_out::nexus::NexusOptions>,
    #[cfg(feature = "tables")]
    tables: Vec<fullcount_out::tables::TableOptions>,
    #[cfg(feature = "kafka")]
    kafka: Option<fullcount_out::kafka::KafkaOptions>,
    null: bool,
    capture: Option<CaptureOptions>,
    #[cfg(feature = "kafka")]
    raw: Option<crate::raw::RawPlan>,
    #[cfg(feature = "web")]
    web: Option<SocketAddr>,
    #[cfg(feature = "web")]
    hosts: Vec<String>,
}

/// What [`OutputPlan::open`] gives: sinks, what the page shows, and one fact per output.
pub struct Opened {
    /// Sinks to be started.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Capture of what is received, to be put before the detector.
    pub capture: Option<Capture>,
    /// Packets to a topic, taken at the same place.
    #[cfg(feature = "kafka")]
    pub raw: Option<crate::raw::Raw>,
    /// Events that are laid down in the spool: all up to this number.
    #[cfg(feature = "kafka")]
    pub landed: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
    /// While true, no event waits for its message to fill.
    #[cfg(feature = "kafka")]
    pub hurry: std::sync::Arc<std::sync::atomic::AtomicBool>,
    /// Histograms of the page.
    #[cfg(feature = "web")]
    pub view: Option<fullcount_out::live::LiveView>,
    /// Address of the page, taken before any file was made.
    #[cfg(feature = "web")]
    pub listener: Option<fullcount_out::live::server::Reserved>,
    /// For people.
    pub facts: Vec<String>,
}

impl OutputPlan {
    /// Checks `[output]` and `[web]`.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(
        config: &Config,
        detector: &dyn Detector,
        pixels: &PixelMap,
    ) -> Result<OutputPlan, ConfigError> {
        #[cfg(feature = "nexus")]
        let nexus = match &config.output.nexus {
            Some(nexus) => Some(nexus_options(nexus, config, detector, pixels)?),
            None => None,
        };
        #[cfg(not(feature = "nexus"))]
        if config.output.nexus.is_some() {
            return Err(refuse("output.nexus", "set", "this build has no NeXus writer"));
        }
        #[cfg(feature = "tables")]
        let tables = tables(config, detector)?;
        #[cfg(not(feature = "tables"))]
        for (key, given) in
            [("output.hits", &config.output.hits), ("output.clusters", &config.output.clusters)]
        {
            if given.is_some() {
                return Err(refuse(key, "set", "this build does not write tables"));
            }
        }
        #[cfg(feature = "kafka")]
        let raw = config.output.raw.as_ref().map(|r| crate::raw::RawPlan::new(r, config, detector));
        #[cfg(not(feature = "kafka"))]
        if config.output.raw.is_some() {
            return Err(refuse("output.raw", "set", "this build has no Kafka"));
        }
        #[cfg(feature = "kafka")]
        let kafka = match &config.output.kafka {
            Some(kafka) => Some(kafka_options(kafka, detector)?),
            None => None,
        };
        #[cfg(not(feature = "kafka"))]
        if config.output.kafka.is_some() {
            return Err(refuse("output.kafka", "set", "this build has no Kafka output"));
        }
        let web = config.web_address()?;
        let hosts = config.web_hosts()?;
        let _ = (detector, pixels, &hosts);
        #[cfg(not(feature = "web"))]
        if let Some(address) = web {
            return Err(refuse("web.listen", address, "this build has no live page: off"));
        }
        Ok(OutputPlan {
            #[cfg(feature = "nexus")]
            nexus,
            #[cfg(feature = "tables")]
            tables,
            #[cfg(feature = "kafka")]
            kafka,
            null: config.output.sink.is_some(),
            capture: config.output.capture.as_ref().map(capture_options).transpose()?,
            #[cfg(feature = "kafka")]
            raw: raw.transpose()?,
            #[cfg(feature = "web")]
            web,
            #[cfg(feature = "web")]
            hosts,
        })
    }

    /// Folder of the spool of events.
    #[cfg(feature = "kafka")]
    pub fn spool(&self) -> Option<&std::path::Path> {
        self.kafka.as_ref().map(|kafka| kafka.spool.as_path())
    }

    /// Outputs with a spool, and its folder.
    pub fn spools(&self) -> Vec<(&'static str, std::path::PathBuf)> {
        #[cfg(feature = "kafka")]
        {
            let events = self.kafka.iter().map(|k| ("kafka", k.spool.clone()));
            events.chain(self.raw.iter().map(|r| ("raw", r.spool().to_owned()))).collect()
        }
        #[cfg(not(feature = "kafka"))]
        Vec::new()
    }

    /// Names the files of all outputs, so that no two are one.
    ///
    /// # Errors
    /// Two outputs, or an output and an input, with one file.
    pub(crate) fn claim(&self, claims: &mut Claims) -> Result<(), ConfigError> {
        if let Some(capture) = &self.capture {
            let key = "output.capture.file";
            match capture.rotates() {
                true => claims.series(key, &capture.file)?,
                false => claims.written(key, &capture.file)?,
            }
        }
        #[cfg(feature = "nexus")]
        if let Some(nexus) = &self.nexus {
            claims.written_beside("output.nexus.path", &nexus.path, ".building")?;
        }
        #[cfg(feature = "tables")]
        for options in &self.tables {
            for file in options.files() {
                claims.written_beside(options.output.key(), &file, ".part")?;
            }
        }
        #[cfg(feature = "kafka")]
        if let Some(raw) = &self.raw {
            claims.folder("output.raw.spool", raw.spool())?;
        }
        #[cfg(feature = "kafka")]
        if let Some(spool) = self.spool() {
            claims.folder("output.kafka.spool", spool)?;
        }
        Ok(())
    }

    /// Both clocks of the run: what is written carries what joins them.
    pub fn wall_is(&mut self, wall: Option<std::sync::Arc<fullcount_core::wall::WallClock>>) {
        #[cfg(feature = "nexus")]
        self.nexus.iter_mut().for_each(|o| o.wall.clone_from(&wall));
        #[cfg(feature = "tables")]
        self.tables.iter_mut().for_each(|o| o.wall.clone_from(&wall));
        #[cfg(feature = "kafka")]
        self.kafka.iter_mut().for_each(|o| o.wall.clone_from(&wall));
        self.capture.iter_mut().for_each(|o| o.wall.clone_from(&wall));
    }

    /// True if what is received goes elsewhere as well, packet by packet.
    pub fn captures(&self) -> bool {
        #[cfg(feature = "kafka")]
        if self.raw.is_some() {
            return true;
        }
        self.capture.is_some()
    }

    /// Takes the page's address, opens files and makes the sinks: a port in use is the likeliest reason
    /// for a start to fail, and then no file has been touched.
    ///
    /// # Errors
    /// The output that could not be opened, with its path or address.
    pub fn open(
        &self,
        detector: &dyn Detector,
        pixels: &PixelMap,
        workers: usize,
        stop: &Stop,
        #[cfg(feature = "kafka")] replay: Option<fullcount_out::kafka::Replay>,
    ) -> Result<Opened, RunError> {
        #[cfg(feature = "web")]
        let listener = match self.web {
            Some(address) => Some(
                fullcount_out::live::server::Server::reserve(address)
                    .map_err(|e| RunError::Web(e.to_string()))?
                    .called(&self.hosts),
            ),
            None => None,
        };
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let mut facts = Vec::new();
        let capture = match &self.capture {
            Some(options) => {
                facts.push(capture_fact(options));
                let capture = Capture::open(options, workers);
                Some(capture.map_err(|e| RunError::Output(e.to_string()))?)
            }
            None => None,
        };
        #[cfg(feature = "kafka")]
        let raw = match &self.raw {
            Some(plan) => {
                facts.push(plan.fact());
                let raw = plan.open(workers, stop);
                Some(raw.map_err(|e| RunError::Output(e.to_string()))?)
            }
            None => None,
        };
        let _ = stop;
        if self.null {
            sinks.push(Box::new(NullSink::new()));
            facts.push("output null: events are counted and dropped".to_owned());
        }
        // What stands at its path is replaced or recovered only when all else is open.
        #[cfg(feature = "nexus")]
        let mut prepared = None;
        #[cfg(feature = "nexus")]
        if let Some(options) = &self.nexus {
            facts.push(format!("output nexus {}", options.path.display()));
            let file = fullcount_out::nexus::NexusSink::prepare(options);
            prepared = Some((sinks.len(), file.map_err(|e| RunError::Output(e.to_string()))?));
        }
        #[cfg(feature = "tables")]
        for options in &self.tables {
            facts.push(format!("output {} {}", options.output.name(), options.path.display()));
            let sink = fullcount_out::tables::TableSink::create(options)
                .map_err(|e| RunError::Output(e.to_string()))?;
            sinks.push(Box::new(sink));
        }
        #[cfg(feature = "kafka")]
        let (mut landed, mut hurry) = (None, std::sync::Arc::default());
        #[cfg(feature = "kafka")]
        if let Some(options) = &self.kafka {
            let (sink, said) = open_kafka(options, stop, replay)?;
            facts.extend(said);
            (landed, hurry) = (Some(sink.landed()), sink.hurry());
            sinks.push(Box::new(sink));
        }
        let _ = stop;
        #[cfg(feature = "web")]
        let view = match self.web {
            None => None,
            Some(_) => {
                use fullcount_out::live::{LiveOptions, live};
                let (sink, view) = live(detector.plots(), pixels.clone(), LiveOptions::default())
                    .map_err(|e| RunError::Web(e.to_string()))?;
                sinks.push(Box::new(sink));
                Some(view)
            }
        };
        #[cfg(feature = "nexus")]
        if let Some((at, file)) = prepared {
            let sink = file.publish().map_err(|e| RunError::Output(e.to_string()))?;
            facts.extend(sink.recovered().map(|r| {
                format!("recovered {} events of a killed run: {}", r.events, r.path.display())
            }));
            sinks.insert(at, Box::new(sink));
        }
        let _ = (detector, pixels);
        Ok(Opened {
            sinks,
            capture,
            #[cfg(feature = "kafka")]
            raw,
            #[cfg(feature = "kafka")]
            landed,
            #[cfg(feature = "kafka")]
            hurry,
            #[cfg(feature = "web")]
            view,
            #[cfg(feature = "web")]
            listener,
            facts,
        })
    }
}

/// Checks `[output.capture]`.
fn capture_options(config: &CaptureConfig) -> Result<CaptureOptions, ConfigError> {
    let mut o = CaptureOptions::new(&config.file);
    let shown = config.file.display();
    if config.file.file_name().is_none() {
        return Err(refuse("output.capture.file", shown, "the name of a file"));
    }
    let end = config.file.extension().map(|e| e.to_ascii_lowercase());
    if end.is_some_and(|e| e == "pcap" || e == "cap") {
        let why = "pcapng is written: a name that ends in .pcapng";
        return Err(refuse("output.capture.file", shown, why));
    }
    let size =
        |key, text: &String| quantity::size(text).map_err(|e| refuse(key, text, e.to_string()));
    if let Some(text) = &config.rotate_size {
        let key = "output.capture.rotate_size";
        let bytes = size(key, text)?;
        if bytes < ROTATE_SIZE_MIN {
            return Err(refuse(key, text, "1MiB or more"));
        }
        o.rotate_size = Some(bytes);
    }
    if let Some(text) = &config.rotate_time {
        let key = "output.capture.rotate_time";
        let time = quantity::duration(text).map_err(|e| refuse(key, text, e.to_string()))?;
        if time < ROTATE_TIME_MIN {
            return Err(refuse(key, text, "1s or more"));
        }
        o.rotate_time = Some(time);
    }
    if let Some(keep) = config.keep {
        let key = "output.capture.keep";
        if !(1..=100_000).contains(&keep) {
            return Err(refuse(key, keep, "1 to 100000 files"));
        }
        if !o.rotates() {
            let why = "only with output.capture.rotate_size or rotate_time: there is one file";
            return Err(refuse(key, keep, why));
        }
        o.keep = Some(keep);
    }
    if config.overwrite && o.rotates() {
        let why = "not with rotation: a series goes on behind the files that are there";
        return Err(refuse("output.capture.overwrite", true, why));
    }
    o.overwrite = config.overwrite;
    o.buffer = size("output.capture.buffer", &config.buffer)?;
    if !(BUFFER_MIN..=BUFFER_MAX).contains(&o.buffer) {
        return Err(refuse("output.capture.buffer", &config.buffer, "8MiB to 16GiB"));
    }
    o.required = config.required;
    Ok(o)
}

fn capture_fact(o: &CaptureOptions) -> String {
    let mut fact = format!("output capture {}", o.file.display());
    if let Some(size) = o.rotate_size {
        fact += &format!(", a new file each {}", quantity::size_text(size));
    }
    if let Some(time) = o.rotate_time {
        fact += &format!(", a new file each {time:?}");
    }
    if let Some(keep) = o.keep {
        fact += &format!(", the last {keep} stay");
    }
    fact + &format!(", buffer {}", quantity::size_text(o.buffer))
}

/// The page while it is served.
pub struct Page {
    #[cfg(feature = "web")]
    server: fullcount_out::live::server::Server,
}

impl Page {
    /// Serves the page, if an address was taken for it.
    ///
    /// # Errors
    /// The system refuses a thread or an event loop.
    #[cfg(feature = "web")]
    pub fn serve(
        listener: Option<fullcount_out::live::server::Reserved>,
        view: Option<fullcount_out::live::LiveView>,
        watch: std::sync::Arc<crate::status::Watch>,
    ) -> Result<Option<Page>, RunError> {
        let Some(listener) = listener else { return Ok(None) };
        let server = fullcount_out::live::server::Server::start_on(listener, view, watch)
            .map_err(|e| RunError::Web(e.to_string()))?;
        Ok(Some(Page { server }))
    }

    /// Where it is.
    #[cfg(feature = "web")]
    pub fn address(&self) -> SocketAddr {
        self.server.addr()
    }
}

#[cfg(feature = "nexus")]
fn nexus_options(
    nexus: &crate::config::NexusConfig,
    config: &Config,
    detector: &dyn Detector,
    pixels: &PixelMap,
) -> Result<fullcount_out::nexus::NexusOptions, ConfigError> {
    use fullcount_out::nexus::{EventIdType, Existing, NexusOptions, Packing, StartAttribute};
    let mut o = NexusOptions::new(&nexus.path, pixels.clone());
    o.existing = if nexus.overwrite { Existing::Replace } else { Existing::Refuse };
    o.title = nexus.title.clone();
    o.instrument = nexus.instrument.clone();
    o.about = about(nexus);
    (o.tick, o.tick_assumed) = detector.tick();
    let time = crate::timebase::read(&config.time)?;
    o.epoch = time.epoch;
    if time.epoch.0 < 0 {
        let why = "1970 or later with output.nexus: its pulse times cannot be earlier";
        return Err(refuse("time.epoch", &config.time.epoch, why));
    }
    o.pulse_mode = config.time.pulse.clone();
    o.configuration = config.to_toml();
    o.compression = compression("output.nexus.compression", &nexus.compression)?;
    o.flush_interval = fullcount_io::quantity::duration(&nexus.flush)
        .map_err(|e| refuse("output.nexus.flush", &nexus.flush, e.to_string()))?;
    o.start_attribute = match nexus.epoch_attribute.as_str() {
        "offset" => StartAttribute::Offset,
        "start" => StartAttribute::Start,
        other => return Err(refuse("output.nexus.epoch_attribute", other, "offset or start")),
    };
    o.event_id = match nexus.event_id.as_str() {
        "int32" => EventIdType::I32,
        "uint32" => EventIdType::U32,
        other => return Err(refuse("output.nexus.event_id", other, "int32 or uint32")),
    };
    o.chunk_events = usize::try_from(nexus.chunk).unwrap_or(usize::MAX);
    o.source_distance_m = nexus.source_distance_m;
    o.packing = match (nexus.compress.as_str(), nexus.compress_threads) {
        ("direct", None) => o.packing,
        ("direct", Some(threads)) => Packing::Direct { threads },
        ("hdf5", None) => Packing::Hdf5,
        ("hdf5", Some(threads)) => {
            let why = "only with output.nexus.compress = \"direct\": the library compresses on one thread";
            return Err(refuse("output.nexus.compress_threads", threads, why));
        }
        (other, _) => return Err(refuse("output.nexus.compress", other, "direct or hdf5")),
    };
    let shown = nexus.path.display();
    o.validate().map_err(|e| refuse("output.nexus", shown, e.to_string()))?;
    Ok(o)
}

/// What the run is about.
#[cfg(feature = "nexus")]
fn about(nexus: &crate::config::NexusConfig) -> fullcount_out::nexus::About {
    use fullcount_out::nexus::{About, Sample, User};
    let user = |user: &crate::config::UserConfig| User {
        name: user.name.clone(),
        affiliation: user.affiliation.clone(),
        email: user.email.clone(),
        facility_user_id: user.facility_user_id.clone(),
        role: user.role.clone(),
    };
    let sample = &nexus.sample;
    About {
        run_number: nexus.run_number,
        proposal: nexus.proposal.clone(),
        users: nexus.users.iter().map(user).collect(),
        sample: Sample {
            name: sample.name.clone(),
            chemical_formula: sample.chemical_formula.clone(),
            description: sample.description.clone(),
            kind: sample.kind.clone(),
            temperature_k: sample.temperature_k,
            mass_g: sample.mass_g,
        },
    }
}

#[cfg(feature = "nexus")]
fn compression(
    key: &'static str,
    text: &str,
) -> Result<fullcount_out::nexus::Compression, ConfigError> {
    use fullcount_out::nexus::Compression;
    match text.split_once(':') {
        None if text == "none" => Ok(Compression::None),
        None if text == "gzip" => Ok(Compression::Gzip(4)),
        Some(("gzip", level)) if matches!(level.parse(), Ok(1..=9u8)) => {
            Ok(Compression::Gzip(level.parse().unwrap_or(4)))
        }
        _ => Err(refuse(key, text, "none, gzip, or gzip:1 to gzip:9")),
    }
}

/// Checks `[output.hits]` and `[output.clusters]`.
#[cfg(feature = "tables")]
fn tables(
    config: &Config,
    detector: &dyn Detector,
) -> Result<Vec<fullcount_out::tables::TableOptions>, ConfigError> {
    use fullcount_out::tables::{Format, Output, TableOptions};
    let outputs = [
        (Output::Hits, "output.hits.compression", &config.output.hits),
        (Output::Clusters, "output.clusters.compression", &config.output.clusters),
    ];
    let mut all: Vec<TableOptions> = Vec::new();
    for (output, compression_key, given) in outputs {
        let Some(table) = given else { continue };
        let (key, file) = (output.key(), table.file.display());
        if Format::of(&table.file).is_none() {
            return Err(refuse(key, file, Format::ENDINGS));
        }
        let mut tables = detector.tables();
        tables.retain(|&table| output.takes(table));
        if tables.is_empty() {
            let (kind, what) = (detector.name(), output.name());
            let why = format!(
                "leave it out: detector.kind = {kind} gives no tables of {what}; those that do: {}",
                who_gives(output)
            );
            return Err(refuse(key, file, why));
        }
        all.push(TableOptions {
            output,
            path: table.file.clone(),
            overwrite: table.overwrite,
            compression: compression(compression_key, &table.compression)?,
            tables,
            epoch: crate::timebase::read(&config.time)?.epoch,
            wall: None,
            detector: detector.name().to_owned(),
            configuration: config.to_toml(),
        });
    }
    Ok(all)
}

/// Detectors that give such tables as they come.
#[cfg(feature = "tables")]
fn who_gives(output: fullcount_out::tables::Output) -> String {
    use fullcount_detect::detector::{Registry, Setup};
    let registry = Registry::builtin();
    let gives = |kind: &&dyn fullcount_detect::detector::Kind| {
        let made = kind.configure(&Setup::default());
        made.is_ok_and(|detector| detector.tables().into_iter().any(|table| output.takes(table)))
    };
    registry.kinds().filter(gives).map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

/// The folder of spools where none is named.
#[cfg(feature = "kafka")]
const SPOOLS: &str = "fullcount-spool";

#[cfg(feature = "kafka")]
fn kafka_options(
    kafka: &crate::config::KafkaConfig,
    detector: &dyn Detector,
) -> Result<fullcount_out::kafka::KafkaOptions, ConfigError> {
    use fullcount_out::flat::EventSchema;
    use fullcount_out::kafka::{Compression, KafkaOptions, MessageId, Settings};
    let source_name = kafka.source_name(detector.name());
    let topic = kafka.topic(detector.name());
    let spool = match &kafka.spool {
        Some(folder) => folder.clone(),
        // A folder for each stream: two topics, or two sources on one, never meet in one.
        None => {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
            let source: String = source_name.chars().map(plain).collect();
            std::path::Path::new(SPOOLS).join(format!("{topic}.{source}"))
        }
    };
    let mut o = KafkaOptions::new(&kafka.brokers, &topic, source_name, spool);
    o.stream.schema = match kafka.schema.as_str() {
        "ev44" => EventSchema::Ev44,
        "ev42" => EventSchema::Ev42,
        other => return Err(refuse("output.kafka.schema", other, "ev44 or ev42")),
    };
    o.message_id = match kafka.message_id.as_str() {
        "continue" => MessageId::Continue,
        "restart" => MessageId::Restart,
        other => return Err(refuse("output.kafka.message_id", other, "continue or restart")),
    };
    o.compression = match kafka.compression.as_str() {
        "none" => Compression::None,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => return Err(refuse("output.kafka.compression", other, "none, lz4 or zstd")),
    };
    let time = |key, text: &str| {
        fullcount_io::quantity::duration(text).map_err(|e| refuse(key, text, e.to_string()))
    };
    o.stream.flush = time("output.kafka.flush", &kafka.flush)?;
    o.drain = time("output.kafka.drain", &kafka.drain)?;
    (o.stream.capacity, o.stream.open_pulses) = (kafka.capacity, kafka.open_pulses);
    o.partition = kafka.partition;
    o.spool_size = fullcount_io::quantity::size(&kafka.spool_size)
        .map_err(|e| refuse("output.kafka.spool_size", &kafka.spool_size, e.to_string()))?;
    o.spool_commit = kafka.spool_commit;
    o.settings = Settings::read(kafka.settings()?)
        .map_err(|e| refuse("output.kafka.options", &e.name, e.to_string()))?;
    let place = format!("kafka://{}/{topic}", kafka.brokers);
    o.validate().map_err(|e| refuse("output.kafka", place, e.to_string()))?;
    Ok(o)
}

#[cfg(feature = "kafka")]
fn open_kafka(
    options: &fullcount_out::kafka::KafkaOptions,
    stop: &Stop,
    replay: Option<fullcount_out::kafka::Replay>,
) -> Result<(fullcount_out::kafka::KafkaSink, Vec<String>), RunError> {
    use fullcount_out::kafka::Beginning;
    use std::io::Write as _;
    let mut o = options.clone();
    let (wish, over, hurry) = (stop.clone(), stop.clone(), stop.clone());
    o.stop = std::sync::Arc::new(move || wish.requested());
    o.over = std::sync::Arc::new(move || over.is_over());
    o.hurry = std::sync::Arc::new(move || hurry.hurried());
    o.news = |text| drop(writeln!(std::io::stderr(), "fullcount: {text}"));
    o.replay = replay;
    let mut facts = vec![format!(
        "output kafka kafka://{}/{} as {}, spool {}",
        o.brokers,
        o.topic,
        o.stream.source_name,
        o.spool.display()
    )];
    let sink =
        fullcount_out::kafka::KafkaSink::open(o).map_err(|e| RunError::Output(e.to_string()))?;
    let found = sink.recovered();
    if found.messages > 0 {
        facts.push(format!(
            "spool: {} messages with {} events of an earlier run go out first",
            found.messages, found.events
        ));
    }
    match sink.beginning() {
        Beginning::Fresh => {}
        Beginning::Resumed(events) => facts.push(format!(
            "replay: goes on behind {events} events, which an earlier run has sent or laid into the \
             spool (--replay restart sends all again)"
        )),
        Beginning::Instead(other) => facts.push(format!(
            "replay: that of {other} was interrupted and is given up; what is missing of it is not sent"
        )),
    }
    facts.extend(found.told.iter().map(|told| format!("spool: {told}")));
    if found.damaged > 0 {
        facts.push(format!(
            "spool: {} messages of an earlier run are damaged; those that the topic does not have are lost",
            found.damaged
        ));
    }
    if found.torn > 0 {
        facts.push(format!(
            "spool: {} appends were cut off and never completed; their events were in no message",
            found.torn
        ));
    }
    Ok((sink, facts))
}
