//! `fullcount run`: the service.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fullcount_core::trace;
use fullcount_engine::config::Config;
use fullcount_engine::pipeline::STANDS_STILL;
use fullcount_engine::run::{Reloaded, RunPlan, Running};
use fullcount_engine::stop::Stop;
use fullcount_log::{alert, error, notice, warning};

use crate::exit::Failure;
use crate::flags::{EngineFlags, LayFlags as _, Overlay, SourceFlags, endpoints};
use crate::notify::Manager;
use crate::output_flags::OutputFlags;
use crate::status_line::StatusLine;
use crate::{fact, help, say, tell};

/// The service: source → detector → outputs, with live page, metrics and ledger.
#[derive(Debug, Args)]
#[command(after_help = examples())]
pub struct RunFlags {
    /// Configuration file; flags and --set win over it
    config: Option<PathBuf>,
    #[arg(long, value_name = "URL", help_heading = "Source", help = help::run_source())]
    source: Vec<String>,
    #[command(flatten)]
    source_flags: SourceFlags,
    #[arg(long, value_name = "KIND", help_heading = "Detector", help = help::run_detector())]
    detector: Option<String>,
    /// Geometry file of the detector
    #[arg(long, value_name = "FILE", help_heading = "Detector")]
    geometry: Option<PathBuf>,
    /// Pulses: none, grid(14Hz), grid(71428571ns, 5ms) [default: none]
    #[arg(long, value_name = "PULSE", help_heading = "Detector")]
    pulse: Option<String>,
    /// Time of tick 0: 2026-01-31T12:00:00Z, or ns since 1970 [default: 1970]
    #[arg(long, value_name = "TIME", help_heading = "Detector")]
    epoch: Option<String>,
    /// Tick length for formats that do not state one, e.g. 1ns or 125/2ns
    #[arg(long, value_name = "LENGTH", help_heading = "Detector")]
    tick: Option<String>,
    /// null: count events and drop them
    #[arg(long, value_name = "null", help_heading = "Outputs")]
    sink: Option<String>,
    #[command(flatten)]
    outputs: OutputFlags,
    #[command(flatten)]
    engine: EngineFlags,
    /// Address of the control port, or off; usual: 127.0.0.1:8888 [default: off]
    #[arg(long, value_name = "ADDR", help_heading = "Outputs")]
    control: Option<String>,
    /// Any other key of the configuration, e.g. detector.sequence_state=one; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Check and print the resulting configuration and exit
    #[arg(long)]
    print_config: bool,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
  fullcount run run.toml --capture run42.pcapng --rotate-size 1GiB --keep 20
  fullcount run run.toml --pulse 'grid(14Hz)' --threads 2 --core 2 --process-core 3";

const EXIT_CODES: &str =
    "Exit codes: 0 nothing lost; 1 failed; 2 wrong option or configuration; 3 something was lost.";

fn examples() -> String {
    format!("{}\n\n{EXIT_CODES}", help::examples("run", EXAMPLES))
}

impl RunFlags {
    fn overlay(&self) -> Result<Overlay, Failure> {
        let path = |p: &PathBuf| p.display().to_string();
        let mut o = Overlay::default();
        o.put("source.url", endpoints(&self.source))
            .source(&self.source_flags)
            .put("detector.kind", self.detector.clone())
            .put("detector.geometry", self.geometry.as_ref().map(path))
            .put("time.pulse", self.pulse.clone())
            .put("time.epoch", self.epoch.clone())
            .put("time.tick", self.tick.clone())
            .put("output.sink", self.sink.clone())
            .put("control.listen", self.control.clone())
            .put("log.level", fullcount_log::given().map(|level| level.to_string()))
            .engine(&self.engine);
        self.outputs.lay(&mut o)?;
        o.set(&self.set)?;
        Ok(o)
    }
}

/// Runs until the source ends, a limit is reached or Ctrl-C.
pub fn run(flags: &RunFlags) -> Result<u8, Failure> {
    let config = flags.overlay()?.read(flags.config.as_ref())?;
    if flags.print_config {
        RunPlan::new("run", &config)?;
        tell!("{}", config.to_toml());
        return Ok(0);
    }
    let again = || flags.overlay()?.read(flags.config.as_ref()).map_err(Failure::from);
    serve("run", config, flags.json, Some(&again))
}

/// Reads the configuration again.
pub type ReadAgain<'a> = &'a dyn Fn() -> Result<Config, Failure>;

/// Starts the engine on `config`, shows its progress, ends with the ledger. `again`: SIGHUP reads the configuration with it.
pub fn serve(
    verb: &'static str,
    config: Config,
    json: bool,
    again: Option<ReadAgain<'_>>,
) -> Result<u8, Failure> {
    let plan = RunPlan::new(verb, &config)?;
    trace!(Main, Info, "{verb}: the configuration is right");
    let stop = match again {
        Some(_) => Stop::on_signals_of_a_service(),
        None => Stop::on_signals_in_two_steps(),
    };
    let stop = stop.context("installing the signal handlers")?;
    let running = Running::start(plan, stop.clone()).map_err(|e| Failure::of_start(&e))?;
    for fact in running.facts() {
        fact!("{fact}");
    }
    let manager = Manager::of_this_process();
    manager.ready();
    let mut line = StatusLine::new();
    let (mut warned, mut hang) = (false, Vec::new());
    while !running.wait(line.period()) {
        if goes_round(&running, &mut line, &mut hang) {
            manager.beat();
        }
        if let Some(again) = again.filter(|_| stop.read_again()) {
            line.clear();
            manager.reloading();
            reload(&running, again);
            manager.ready();
        }
        let status = running.status();
        if let Some(refused) = status.refused.as_ref().filter(|_| !warned) {
            line.clear();
            warning!("{}", refused.message);
        } else if warned && status.refused.is_none() {
            line.clear();
            notice!("packets are accepted again");
        }
        warned = status.refused.is_some();
        line.show(&status);
    }
    line.clear();
    manager.ending();
    let (summary, outcome) = running.finish(None);
    if json {
        fact!("{}", summary.to_text().trim_end());
        say!("{}", summary.to_json());
    } else {
        tell!("{}", summary.to_text());
    }
    Ok(if outcome.is_err() { 1 } else { summary.exit_code() })
}

/// Whether the run's threads go round. What stands still is said once, and again when it goes on. `hang`: those that were said.
fn goes_round(running: &Running, line: &mut StatusLine, hang: &mut Vec<String>) -> bool {
    let still = running.stand_still();
    if still != *hang {
        line.clear();
        let seconds = STANDS_STILL.as_secs();
        match still.join(", ") {
            none if none.is_empty() => notice!("all threads of the run go round again"),
            names => alert!(
                "{names}: stood still for {seconds} s, so what comes is not read; a service manager with a watchdog starts the run again"
            ),
        }
        hang.clone_from(&still);
    }
    still.is_empty()
}

/// Takes over what the configuration says now; what is wrong with it is said, and changes nothing.
fn reload(running: &Running, again: ReadAgain<'_>) {
    let new = match again() {
        Ok(new) => new,
        Err(Failure::Wrong(why)) => return error!("not reloaded: {why}"),
        Err(Failure::Failed(e)) => return error!("not reloaded: {e:#}"),
        Err(Failure::Told(_)) => return error!("not reloaded"),
    };
    match running.reload(&new) {
        Ok(Reloaded { taken, restart }) => {
            trace!(
                Utils,
                Info,
                "{} keys taken over, {} need a restart",
                taken.len(),
                restart.len()
            );
            let taken = if taken.is_empty() { "nothing new".into() } else { taken.join(", ") };
            notice!("configuration read again: {taken}");
            if !restart.is_empty() {
                warning!("these take a restart: {}", restart.join(", "));
            }
        }
        Err(e) => error!("not reloaded: {e}"),
    }
}
