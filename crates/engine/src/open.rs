//! From a checked configuration to an opened source.
//!
//! [`SourcePlan::new`] refuses what can be refused without touching the system; [`SourcePlan::open`]
//! binds the socket or reads the file.

use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::sim::{Fault, Spec};
use fullcount_detect::detector::{Detector, Shifter};
use fullcount_io::endpoint::{
    BUFFER_MAX, BUFFER_MIN, Endpoint, Engine, PcapSpeed, PcapUrl, Repeat,
};
use fullcount_io::fault::FaultSource;
use fullcount_io::pcap::{PcapSource, Shift};
use fullcount_io::quantity;
use fullcount_io::source::{Received, Source, SourceError};
use fullcount_io::udp::{ReceiveOptions, UdpError, UdpSource};

use crate::config::{ConfigError, SourceConfig, refuse};

/// A source that could not be opened; the sentence names address or path.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A socket.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// A capture.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// A source that can be opened.
#[derive(Debug, Clone)]
pub struct SourcePlan {
    /// URL as configured.
    pub url: String,
    endpoint: Endpoint,
    fault: Option<Fault>,
    timestamps: bool,
    /// CPU of the receiving thread.
    pub core: Option<usize>,
}

impl SourcePlan {
    /// Checks `[source]`; what the URL says wins over the table.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(config: &SourceConfig) -> Result<SourcePlan, ConfigError> {
        let url = config.url.clone();
        let mut endpoint: Endpoint =
            url.parse().map_err(|e| refuse("source.url", &url, format!("{e}")))?;
        let buffer = quantity::size(&config.receive_buffer)
            .map_err(|e| refuse("source.receive_buffer", &config.receive_buffer, e.to_string()))?;
        if !(BUFFER_MIN..=BUFFER_MAX).contains(&buffer) {
            let why = "4KiB to 1GiB";
            return Err(refuse("source.receive_buffer", &config.receive_buffer, why));
        }
        let engine = match config.engine.as_str() {
            "auto" => Engine::Auto,
            "plain" => Engine::Plain,
            "mmsg" => Engine::Mmsg,
            "gro" => Engine::Gro,
            other => return Err(refuse("source.engine", other, "auto, plain, mmsg or gro")),
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
            if udp.engine == Engine::Auto {
                udp.engine = engine;
            }
        }
        check_core("source.core", config.core)?;
        let fault = match &config.fault {
            None => None,
            Some(text) => {
                let wrong = |e: String| refuse("source.fault", text, e);
                let spec: Spec = text.parse().map_err(|e| wrong(format!("{e}")))?;
                Some(Fault::new(spec).map_err(|e| wrong(e.to_string()))?)
            }
        };
        let timestamps = config.timestamps;
        Ok(SourcePlan { url, endpoint, fault, timestamps, core: config.core })
    }

    /// Binds the socket or opens the capture. `detector` moves counters and times of a repeated
    /// capture on (`shift`).
    ///
    /// # Errors
    /// What could not be opened, with its address or path and the system's words.
    pub fn open(&self, detector: Option<&dyn Detector>) -> Result<Opened, OpenError> {
        let mut local = None;
        let source: Box<dyn Source> = match &self.endpoint {
            Endpoint::Udp(url) => {
                let options =
                    ReceiveOptions { timestamps: self.timestamps, ..ReceiveOptions::default() };
                let source = UdpSource::open(url, &options)?;
                local = Some(source.local_addr());
                Box::new(source)
            }
            Endpoint::Pcap(url) => {
                let shifter = detector.filter(|_| url.shift).and_then(Detector::shifter);
                let shift = shifter.map(|s| Moving::learn(s, url)).transpose()?;
                Box::new(PcapSource::open(url, shift.map(|s| Box::new(s) as Box<dyn Shift>))?)
            }
        };
        let mut sheets = vec![source.sheet()];
        let source = match &self.fault {
            None => source,
            Some(fault) => {
                let faulty = FaultSource::new(source, fault.clone());
                sheets.push(faulty.fault_sheet());
                Box::new(faulty)
            }
        };
        Ok(Opened { source, sheets, local })
    }
}

/// An opened source.
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// Its counters, and those of what is wrapped around it.
    pub sheets: Vec<Arc<Sheet>>,
    /// Address of the socket, if it is one.
    pub local: Option<std::net::SocketAddr>,
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
