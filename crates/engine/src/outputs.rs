//! The outputs of a configuration: checked first, opened later, the page served beside them.
//!
//! Refuses a NeXus file for a detector without pixels and values out of range before anything is opened.

use std::net::SocketAddr;

use fullcount_core::view::PixelMap;
use fullcount_detect::detector::Detector;
use fullcount_out::null::NullSink;
use fullcount_out::sink::Sink;

use crate::config::{Config, ConfigError, refuse};
use crate::run::RunError;

/// Outputs that can be opened.
pub struct OutputPlan {
    #[cfg(feature = "nexus")]
    nexus: Option<fullcount_out::nexus::NexusOptions>,
    #[cfg(feature = "tables")]
    tables: Vec<fullcount_out::tables::TableOptions>,
    null: bool,
    #[cfg(feature = "web")]
    web: Option<SocketAddr>,
}

/// What [`OutputPlan::open`] gives: sinks, what the page shows, and one fact per output.
pub struct Opened {
    /// Sinks to be started.
    pub sinks: Vec<Box<dyn Sink>>,
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
        let _ = (detector, pixels);
        let web = config.web_address()?;
        #[cfg(not(feature = "web"))]
        if let Some(address) = web {
            return Err(refuse("web.listen", address, "this build has no live page: off"));
        }
        Ok(OutputPlan {
            #[cfg(feature = "nexus")]
            nexus,
            #[cfg(feature = "tables")]
            tables,
            null: config.output.sink.is_some(),
            #[cfg(feature = "web")]
            web,
        })
    }

    /// Takes the page's address, opens files and makes the sinks: a port in use is the likeliest reason
    /// for a start to fail, and then no file has been touched.
    ///
    /// # Errors
    /// The output that could not be opened, with its path or address.
    pub fn open(&self, detector: &dyn Detector, pixels: &PixelMap) -> Result<Opened, RunError> {
        #[cfg(feature = "web")]
        let listener = match self.web {
            Some(address) => Some(
                fullcount_out::live::server::Server::reserve(address)
                    .map_err(|e| RunError::Web(e.to_string()))?,
            ),
            None => None,
        };
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let mut facts = Vec::new();
        if self.null {
            sinks.push(Box::new(NullSink::new()));
            facts.push("output null: events are counted and dropped".to_owned());
        }
        #[cfg(feature = "nexus")]
        if let Some(options) = &self.nexus {
            facts.push(format!("output nexus {}", options.path.display()));
            let sink = fullcount_out::nexus::NexusSink::create(options)
                .map_err(|e| RunError::Output(e.to_string()))?;
            facts.extend(sink.recovered().map(|r| {
                format!("recovered {} events of a killed run: {}", r.events, r.path.display())
            }));
            sinks.push(Box::new(sink));
        }
        #[cfg(feature = "tables")]
        for options in &self.tables {
            facts.push(format!("output {} {}", options.output.name(), options.path.display()));
            let sink = fullcount_out::tables::TableSink::create(options)
                .map_err(|e| RunError::Output(e.to_string()))?;
            sinks.push(Box::new(sink));
        }
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
        let _ = (detector, pixels);
        Ok(Opened {
            sinks,
            #[cfg(feature = "web")]
            view,
            #[cfg(feature = "web")]
            listener,
            facts,
        })
    }
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
    use fullcount_out::nexus::{EventIdType, Existing, NexusOptions, StartAttribute};
    let mut o = NexusOptions::new(&nexus.path, pixels.clone());
    o.existing = if nexus.overwrite { Existing::Replace } else { Existing::Refuse };
    o.title = nexus.title.clone();
    o.instrument = nexus.instrument.clone();
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
    let shown = nexus.path.display();
    o.validate().map_err(|e| refuse("output.nexus", shown, e.to_string()))?;
    Ok(o)
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
    let mut files: Vec<(&str, std::path::PathBuf)> = Vec::new();
    files.extend(config.output.nexus.iter().map(|n| ("output.nexus.path", n.path.clone())));
    for (output, compression_key, given) in outputs {
        let Some(table) = given else { continue };
        let (key, file) = (output.key(), table.file.display());
        let Some(format) = Format::of(&table.file) else {
            return Err(refuse(key, file, Format::ENDINGS));
        };
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
        for (path, _) in format.files(&table.file, &tables) {
            if let Some((other, _)) = files.iter().find(|(_, taken)| *taken == path) {
                let why = format!("{} is a file of {other} already", path.display());
                return Err(refuse(key, file, why));
            }
            files.push((key, path));
        }
        all.push(TableOptions {
            output,
            path: table.file.clone(),
            overwrite: table.overwrite,
            compression: compression(compression_key, &table.compression)?,
            tables,
            epoch: crate::timebase::read(&config.time)?.epoch,
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
