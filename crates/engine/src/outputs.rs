//! The outputs of a configuration: checked first, opened later, whatever they are.
//!
//! No output is named here: each says itself which files it takes, what it becomes and what it tells people
//! ([`fullcount_core::output`]). Refuses what the outputs refuse, before anything is opened.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fullcount_core::command::Command;
use fullcount_core::naming::Names;
use fullcount_core::output::{
    self, Ending, Opening, OutputOpenError, OutputSetup, PacketOutput, Plan, Prepared, Replay,
    StateOutput,
};
use fullcount_core::sink::Sink;
use fullcount_core::tables::Table;
use fullcount_core::view::PixelMap;
use fullcount_core::wall::WallClock;
use fullcount_detect::detector::{self, Detector, Sharding};

use crate::claims::Claims;
use crate::config::{Config, ConfigError};
use crate::control::{ControlPlan, CurrentConfig, DeskPlan};
use crate::run::RunError;
use crate::stop::Stop;

/// Outputs that can be opened.
pub struct OutputPlan {
    all: Vec<(&'static str, Box<dyn Plan>)>,
    control: ControlPlan,
    names: Arc<Names>,
}

/// What [`OutputPlan::open`] gives.
#[derive(Default)]
pub struct OpenedOutputs {
    /// Sinks to be started.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Outputs of packets, to be put before the detector.
    pub packets: Vec<Box<dyn PacketOutput>>,
    /// Outputs of the run's state.
    pub pages: Vec<Box<dyn StateOutput>>,
    /// What can be told to them while the run goes on.
    pub commands: Vec<Command>,
    /// For people.
    pub facts: Vec<String>,
}

impl OutputPlan {
    /// Checks the sections of the outputs.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(
        config: &Config,
        detector: &dyn Detector,
        pixels: &PixelMap,
        wall: Option<&Arc<WallClock>>,
    ) -> Result<OutputPlan, ConfigError> {
        let configuration = config.to_toml();
        let time = crate::timebase::read(&config.time)?;
        let (tables, plots) = (detector.tables(), detector.plots());
        let mut all = Vec::new();
        for kind in config.outputs() {
            let setup = OutputSetup {
                section: &config.section(kind.section()).unwrap_or_default(),
                beside: &|path| config.section(path),
                detector: detector.name(),
                tick: detector.tick(),
                tables: &tables,
                records: detector.gives_records(),
                givers: &givers,
                plots: &plots,
                pixels,
                by_sender: detector.sharding() == Sharding::ByKey,
                epoch: time.epoch,
                epoch_text: &config.time.epoch,
                pulse: &config.time.pulse,
                configuration: &configuration,
                wall: wall.cloned(),
            };
            all.extend(kind.plan(&setup)?.map(|plan| (kind.name(), plan)));
        }
        let control = ControlPlan::new(config)?;
        let names = Arc::new(crate::named::names(config, detector.name()));
        Ok(OutputPlan { all, control, names })
    }

    /// True if an output goes on with an interrupted replay; `Some(true)`: it is to begin anew.
    pub fn resumes(&self) -> Option<bool> {
        self.all.iter().find_map(|(_, plan)| plan.resumes())
    }

    /// Where the partitions of an unfinished replay of this identity begin.
    pub(crate) fn unfinished(&self, identity: &str) -> Option<BTreeMap<i32, i64>> {
        self.all.iter().find_map(|(_, plan)| plan.unfinished(identity))
    }

    /// File in which a source may keep the order of its partitions.
    pub(crate) fn order_file(&self) -> Option<PathBuf> {
        self.all.iter().find_map(|(_, plan)| plan.order_file())
    }

    /// Outputs with a spool, and its folder.
    pub fn spools(&self) -> Vec<(&'static str, PathBuf)> {
        let one = |(name, plan): &(&'static str, Box<dyn Plan>)| Some((*name, plan.spool()?));
        self.all.iter().filter_map(one).collect()
    }

    /// Names the files of all outputs, so that no two are one.
    ///
    /// # Errors
    /// Two outputs, or an output and an input, with one file.
    pub(crate) fn claim(&self, claims: &mut Claims) -> Result<(), ConfigError> {
        // What is read comes first: the message then names the output.
        let all = || self.all.iter().flat_map(|(_, plan)| plan.claims());
        let read = |claim: &output::Claim| matches!(claim, output::Claim::Read(..));
        all()
            .filter(read)
            .chain(all().filter(|c| !read(c)))
            .try_for_each(|claim| claims.take(claim))
    }

    /// The configuration without secrets; shared, as it changes.
    pub(crate) fn configuration(&self) -> CurrentConfig {
        self.control.configuration()
    }

    /// What the run's desk is made of, with the commands of its parts.
    pub fn desk(&self, stop: &Stop, commands: Vec<Command>) -> DeskPlan {
        DeskPlan {
            trust: self.control.trust(),
            detector: self.names.detector().to_owned(),
            configuration: self.configuration(),
            stop: stop.clone(),
            names: self.names.clone(),
            commands,
        }
    }

    /// True if what is received goes elsewhere as well, packet by packet.
    pub fn captures(&self) -> bool {
        self.all.iter().any(|(_, plan)| plan.takes_packets())
    }

    /// Takes addresses, opens files and makes the sinks: a port in use is the likeliest reason
    /// for a start to fail, and then no file has been touched.
    ///
    /// # Errors
    /// The output that could not be opened, with its path or address.
    pub fn open(
        &mut self,
        workers: usize,
        stop: &Stop,
        replay: Option<Replay>,
    ) -> Result<OpenedOutputs, RunError> {
        let failed = |e: OutputOpenError| RunError::Output(e.to_string());
        for (_, plan) in &mut self.all {
            plan.reserve().map_err(failed)?;
        }
        let port = self.control.reserve().map_err(failed)?;
        let opening = Opening { workers, ending: ending(stop), replay };
        let mut opened = OpenedOutputs::default();
        // What stands at the path of a prepared one is replaced or recovered only when all else is open.
        let mut prepared: Vec<(usize, Box<dyn Prepared>)> = Vec::new();
        // What takes messages about the others comes before them.
        let mut plans: Vec<_> = self.all.iter_mut().map(|(_, plan)| plan).collect();
        plans.sort_by_key(|plan| !plan.takes_messages());
        for plan in plans {
            let one = plan.open(&opening).map_err(failed)?;
            opened.facts.extend(one.facts);
            let sinks = opened.sinks.len() + prepared.len();
            prepared.extend(one.prepared.map(|file| (sinks, file)));
            opened.sinks.extend(one.sink);
            opened.packets.extend(one.packets);
            opened.pages.extend(one.page);
            opened.commands.extend(one.commands);
        }
        opened.pages.extend(port.map(|port| Box::new(port) as Box<dyn StateOutput>));
        for (at, file) in prepared {
            let (sink, facts) = file.publish().map_err(failed)?;
            opened.facts.extend(facts);
            opened.sinks.insert(at, sink);
        }
        Ok(opened)
    }
}

fn ending(stop: &Stop) -> Ending {
    let (requested, over, hurried, stuck) =
        (stop.clone(), stop.clone(), stop.clone(), stop.clone());
    Ending {
        requested: Arc::new(move || requested.requested()),
        over: Arc::new(move || over.is_over()),
        hurried: Arc::new(move || hurried.hurried()),
        stuck: Arc::new(move || stuck.output_is_stuck()),
    }
}

/// Detectors that give one of these tables as they come.
fn givers(takes: &dyn Fn(Table) -> bool) -> Vec<&'static str> {
    let registry = detector::registered();
    let gives = |kind: &&dyn detector::Kind| {
        let made = kind.configure(&detector::Setup::default());
        made.is_ok_and(|detector| detector.tables().into_iter().any(takes))
    };
    registry.kinds().filter(gives).map(|kind| kind.name()).collect()
}
