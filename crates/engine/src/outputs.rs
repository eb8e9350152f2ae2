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
        let _ = (detector, pixels);
        let web = config.web_address()?;
        #[cfg(not(feature = "web"))]
        if let Some(address) = web {
            return Err(refuse("web.listen", address, "this build has no live page: off"));
        }
        Ok(OutputPlan {
            #[cfg(feature = "nexus")]
            nexus,
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
    use fullcount_out::nexus::{Compression, EventIdType, Existing, NexusOptions, StartAttribute};
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
    o.compression = match nexus.compression.split_once(':') {
        None if nexus.compression == "none" => Compression::None,
        None if nexus.compression == "gzip" => Compression::Gzip(4),
        Some(("gzip", level)) if matches!(level.parse(), Ok(1..=9u8)) => {
            Compression::Gzip(level.parse().unwrap_or(4))
        }
        _ => {
            let why = "none, gzip, or gzip:1 to gzip:9";
            return Err(refuse("output.nexus.compression", &nexus.compression, why));
        }
    };
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
