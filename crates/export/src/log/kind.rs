//! The output `log` as a kind: always there, since messages of a run are for others as well once a receiver is configured.
//!
//! Source: `docs/configuration.md`.

use std::net::SocketAddr;
use std::sync::Arc;

use fullcount_core::command::Command;
use fullcount_core::ledger::Sheet;
use fullcount_core::output::{
    Claim, DeclaredOutput, Opened, Opening, OutputKind, OutputOpenError, OutputSetup, Plan,
    Serving, StateOutput,
};
use fullcount_core::refusal::Refusal;
use fullcount_core::status::StatusSource;
use fullcount_io::section;
use fullcount_log::LogFilter;
use serde::Deserialize;

use super::LogCounter;
use super::commands::commands;
use super::gelf::Sender;
use super::section::{KEYS, LogSection};
use super::target::LogTarget;
use super::thread::{LogThreads, Outlets};

/// Path of the section.
pub(super) const SECTION: &str = "log";

/// Name of this host; `-` where it has none.
pub(super) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "-".to_owned() } else { name.to_owned() }
}

/// What `[metrics]` says that a message needs: receivers know the detector by one name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetricsName {
    detector: Option<String>,
}

/// What the detector is called towards receivers: as in metrics, else as its kind is.
fn called(metrics: Option<&str>, kind: &str) -> Result<String, Refusal> {
    let name: MetricsName =
        metrics.map_or(Ok(MetricsName::default()), |m| section::read("metrics", m))?;
    Ok(name.detector.unwrap_or_else(|| kind.to_owned()))
}

/// Messages of the program.
#[derive(Debug)]
pub struct Log;

const DECLARED: DeclaredOutput = DeclaredOutput {
    keys: KEYS,
    counters: || vec![("output: log", LogCounter::catalogue())],
    always: true,
    takes_events: false,
    ..DeclaredOutput::new(
        "log",
        SECTION,
        "messages to a file, the journal, syslog and Graylog (GELF)",
        section::reading::<LogSection>(),
    )
};

impl OutputKind for Log {
    fn declared(&self) -> &'static DeclaredOutput {
        &DECLARED
    }

    fn plan(&self, setup: &OutputSetup<'_>) -> Result<Option<Box<dyn Plan>>, Refusal> {
        let section: LogSection = section::read(SECTION, setup.section)?;
        let (targets, filter) = (section.targets()?, section.level()?);
        let detector = called((setup.beside)("metrics").as_deref(), setup.detector)?;
        let sender = Sender { host: host(), detector };
        Ok(Some(Box::new(LogPlan { targets, filter, sender, opened: None })))
    }
}

/// A checked section.
struct LogPlan {
    targets: Vec<LogTarget>,
    filter: LogFilter,
    sender: Sender,
    /// Receivers, kept until the run has started: they hear why it could not.
    opened: Option<Arc<Outlets>>,
}

impl Plan for LogPlan {
    fn claims(&self) -> Vec<Claim> {
        let files = self.targets.iter().filter_map(|target| match target {
            LogTarget::File(file) => Some((0..=file.keep).map(|n| file.nth(n))),
            _ => None,
        });
        files.flatten().map(|path| Claim::Written("log.file", path)).collect()
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn open(&mut self, _: &Opening) -> Result<Opened, OutputOpenError> {
        fullcount_log::configure(self.filter.clone());
        // Whether a server is there is found out beside the run, which needs it for nothing.
        let outlets = Outlets::open(&self.targets, self.sender.clone());
        let outlets = Arc::new(outlets.map_err(|e| OutputOpenError(e.to_string()))?);
        self.opened = Some(outlets.clone());
        let page: Box<dyn StateOutput> = Box::new(Ready(outlets));
        Ok(Opened { page: Some(page), commands: self.commands(), ..Opened::default() })
    }
}

impl LogPlan {
    fn commands(&self) -> Vec<Command> {
        commands()
    }
}

/// Ready to begin.
struct Ready(Arc<Outlets>);

impl StateOutput for Ready {
    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.0.sheet()]
    }

    fn serve(
        self: Box<Self>,
        run: Arc<dyn StatusSource>,
    ) -> Result<Box<dyn Serving>, OutputOpenError> {
        let fact = self.0.fact();
        let threads = LogThreads::start(self.0, run).map_err(|e| OutputOpenError(e.to_string()))?;
        Ok(Box::new(Telling { fact, threads }))
    }
}

/// Under way.
struct Telling {
    fact: String,
    threads: LogThreads,
}

impl Serving for Telling {
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn fact(&self) -> String {
        self.fact.clone()
    }

    fn reads_again(&self) -> Option<&'static str> {
        Some(SECTION)
    }

    fn check_again(&self, text: &str) -> Result<(), Refusal> {
        let section: LogSection = section::read(SECTION, text)?;
        section.level()?;
        section.targets().map(drop)
    }

    fn read_again(&self, text: &str) -> Result<(), OutputOpenError> {
        let refused = |e: Refusal| OutputOpenError(e.to_string());
        let section: LogSection = section::read(SECTION, text).map_err(refused)?;
        let (filter, targets) =
            (section.level().map_err(refused)?, section.targets().map_err(refused)?);
        let changed = self.threads.outlets().change(&targets);
        changed.map_err(|e| OutputOpenError(e.to_string()))?;
        fullcount_log::configure(filter);
        Ok(())
    }
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
