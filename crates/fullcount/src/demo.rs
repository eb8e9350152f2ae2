//! `fullcount demo`: the whole chain on one machine with nothing else installed.
//!
//! Simulator, service and page in one process tree; ends with the four numbers that must be equal in
//! pairs: packets sent = delivered, events made = events in the file.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::{Config, OneOrMore, refuse};
use fullcount_engine::run::{Plan, Running};
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::{Cpu, grouped};
use fullcount_lab::record::files;
use fullcount_lab::send::{Job, SendProgress, Sent};
use fullcount_lab::traffic::panel::Panel;
use serde_json::json;

use crate::exit::Failure;
use crate::flags::Overlay;
use crate::send::SendFlags;
use crate::status_line::StatusLine;
use crate::{note, say, tell};

/// The whole chain on this machine: simulated detector → UDP → events → live page + NeXus file + ledger.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// Length of the demonstration
    #[arg(long, value_name = "TIME", default_value = "60s")]
    duration: String,
    /// Simulated detector: sonde (400 modules), multigrid (3 modules), multiblade (6 cassettes) or gdgem
    /// (4 sectors)
    #[arg(long, value_name = "KIND", default_value = "sonde")]
    detector: String,
    /// Events (1Mev/s), payload bits (10Gbps) or packets (94kpps) per second [default: sonde 1Mev/s, others
    /// 100kev/s]
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Folder for the NeXus file, the geometry and the configuration
    #[arg(long, value_name = "DIR", default_value = "fullcount-demo")]
    dir: PathBuf,
    /// Address of the live page and /metrics, or off
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    web: String,
    /// Replace what an earlier demonstration left in --dir
    #[arg(long)]
    overwrite: bool,
    /// Write no file; needed for rates that a disk cannot follow
    #[arg(long)]
    no_file: bool,
    /// 1: one thread receives and decodes; 2: one each
    #[arg(long, value_name = "1|2", default_value_t = 1)]
    threads: u32,
    /// Makes the simulated data reproducible
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullcount demo
  fullcount demo --detector multigrid --dir demo-multigrid
  fullcount demo --overwrite
  fullcount demo --duration 10s --rate 20Mev/s
  fullcount demo --rate 5Gbps --no-file --web 127.0.0.1:9090";

/// Time without any packet after which the sender's last packets must have arrived.
const SETTLE: Duration = Duration::from_secs(3);

/// What differs between the detectors.
struct Shown {
    kind: &'static str,
    rate: &'static str,
    title: &'static str,
    geometry: &'static str,
    pulse: &'static str,
    tick: Option<&'static str>,
}

const SHOWN: [Shown; 4] = [
    Shown {
        kind: "sonde",
        rate: "1Mev/s",
        title: "Fullcount demonstration: small-angle scattering",
        geometry: "geometry.toml",
        pulse: "grid(14Hz)",
        tick: Some("1ns"),
    },
    Shown {
        kind: "multigrid",
        rate: "100kev/s",
        title: "Fullcount demonstration: Multi-Grid",
        geometry: "geometry.json",
        // The external triggers in the data.
        pulse: "data",
        tick: None,
    },
    Shown {
        kind: "multiblade",
        rate: "100kev/s",
        title: "Fullcount demonstration: Multi-Blade",
        geometry: "geometry.json",
        // Its times begin anew every 20 ms and know no pulse.
        pulse: "none",
        tick: None,
    },
    Shown {
        kind: "gdgem",
        rate: "100kev/s",
        title: "Fullcount demonstration: Gd-GEM",
        geometry: "geometry.json",
        pulse: "none",
        tick: None,
    },
];

/// Runs the demonstration.
pub fn demo(flags: Flags) -> Result<u8, Failure> {
    let shown = SHOWN.iter().find(|s| s.kind == flags.detector);
    let shown = shown.ok_or_else(|| {
        refuse("detector", &flags.detector, "sonde, multigrid, multiblade or gdgem")
    })?;
    let panel = match shown.kind {
        "sonde" => free_ports(Panel::full())?,
        _ => Panel::full(),
    };
    let rate = flags.rate.as_deref().unwrap_or(shown.rate);
    let send = SendFlags::for_demo(shown.kind, rate, &flags.duration, flags.seed);
    // Checks rate and duration before anything is opened; the true port is known later.
    send.job(&["udp://127.0.0.1:9".into()], panel)?;
    let geometry = match send.configuration()? {
        Some(text) => text,
        None => panel.geometry_toml(Ipv4Addr::LOCALHOST.into()),
    };
    let config = prepare(&flags, shown, &geometry)?;
    let plan = Plan::new("demo", &config)?;
    let stop = Stop::on_signals_in_two_steps().context("installing the signal handlers")?;
    // Ctrl-C stops the sender; the service then stops by itself once everything has arrived.
    let service_stop = Stop::default();
    let running = Running::start(plan, service_stop).map_err(anyhow::Error::from)?;
    for fact in running.facts() {
        note!("{fact}");
    }
    let to = running.local_address().context("the service has no UDP address")?;
    let job: Job = send.job(&[format!("udp://{to}")], panel)?;
    let progress = Arc::new(SendProgress::default());
    let (watched, ending) = (progress.clone(), stop.clone());
    let sender = std::thread::Builder::new()
        .name("simulator".into())
        .spawn(move || job.run(&|| ending.requested(), &watched))
        .context("starting the simulator")?;
    let mut line = StatusLine::new();
    while !sender.is_finished() && !running.wait(line.period()) {
        line.show(&running.status());
    }
    let sent: Sent = sender
        .join()
        .map_err(|_| anyhow::anyhow!("the simulator panicked"))?
        .map_err(anyhow::Error::from)?;
    settle(&running, sent.packets, &stop);
    running.stop();
    line.clear();
    let (mut summary, outcome) = running.finish(Some((sent.packets, sent.bytes)));
    if let Err(e) = &outcome {
        note!("fullcount: {e}");
    }
    if let Some(cpu) = sent.cpu {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (user, system) = (seconds(cpu.user_ns), seconds(cpu.system_ns));
        summary.set_apart(Cpu { user, system, softirq: None });
    }
    let file = summary.outputs.iter().find(|o| o.name == "nexus");
    let text = summary.to_text();
    let equal = |a: u64, b: u64| if a == b { "=" } else { "≠" };
    let delivered = summary.account.accepted;
    let mut four = format!(
        "  packets sent   {:>16}  {}  delivered       {:>16}\n",
        grouped(sent.packets),
        equal(sent.packets, delivered),
        grouped(delivered)
    );
    let events_in_file = file.map(|f| f.events);
    let shown = events_in_file.unwrap_or_else(|| summary.events());
    let place = if file.is_some() { "events in file " } else { "events received" };
    four += &format!(
        "  events made    {:>16}  {}  {place} {:>16}\n",
        grouped(sent.events),
        equal(sent.events, shown),
        grouped(shown)
    );
    if let Some(shortfall) = crate::send::shortfall(&sent) {
        note!("{shortfall}");
    }
    let complete = sent.packets == delivered && sent.events == shown;
    if flags.json {
        note!("{text}{}", four.trim_end());
        let mut object = summary.to_json();
        object["demo"] = json!({
            "packets_sent": sent.packets, "packets_delivered": delivered,
            "events_made": sent.events, "events_in_file": events_in_file,
        });
        say!("{object}");
    } else {
        tell!("{text}\n{four}");
        if let Some(file) = file.filter(|f| f.failure.is_none()) {
            say!("\n  file  {}  (open it with h5py, scippnexus or Mantid)", file.place);
        }
    }
    let code = if outcome.is_err() { 1 } else { summary.exit_code() };
    Ok(if code == 0 && !complete { 3 } else { code })
}

/// The panel with source ports that nobody else has: the geometry names modules by them.
fn free_ports(panel: Panel) -> Result<Panel, Failure> {
    for first in (50_011..60_000).step_by(500) {
        let moved = panel.from_port(first).map_err(anyhow::Error::from)?;
        let free = |lane| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, moved.source_port(lane))).is_ok();
        if (0..moved.lanes()).all(free) {
            return Ok(moved);
        }
    }
    let n = panel.lanes();
    Err(anyhow::anyhow!("no {n} free UDP ports between 50011 and 60000 on this host").into())
}

/// Waits until everything sent has been received, nothing has come for [`SETTLE`], or the end is asked for again.
fn settle(running: &Running, sent: u64, stop: &Stop) {
    let (mut seen, mut since) = (running.status().packets, Instant::now());
    while running.status().packets < sent && since.elapsed() < SETTLE && !stop.hurried() {
        if running.wait(Duration::from_millis(10)) {
            return;
        }
        let now = running.status().packets;
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
}

/// Writes geometry and configuration into the folder, so that the service can be run again by hand.
fn prepare(flags: &Flags, shown: &Shown, geometry: &str) -> Result<Config, Failure> {
    let dir = &flags.dir;
    let path = |name: &str| dir.join(name).display().to_string();
    let mut o = Overlay::default();
    o.put("source.url", Some("udp://127.0.0.1:0"))
        .put("detector.kind", Some(shown.kind))
        .put("detector.geometry", Some(path(shown.geometry)))
        // Its sectors stand side by side.
        .put("detector.one_picture", (shown.kind == "gdgem").then_some(true))
        .put("time.pulse", Some(shown.pulse))
        .put("time.tick", shown.tick)
        .put("web.listen", Some(flags.web.clone()))
        // A disk that thinks for some seconds costs none of what was made; 64 batches are 1.3 s.
        .put("engine.queue", Some(512))
        .put("engine.threads", Some(i64::from(flags.threads)));
    if !flags.no_file {
        o.put("output.nexus.path", Some(path("demo.nxs")))
            .put("output.nexus.overwrite", Some(flags.overwrite))
            .put("output.nexus.title", Some(shown.title));
    }
    let config = o.read(None)?;
    let run = by_hand(&config, shown).to_toml();
    let files = [(shown.geometry, geometry), ("run.toml", &run)];
    refuse_existing(flags, &files)?;
    files.iter().try_for_each(|(name, text)| keep(flags, name, text))?;
    Ok(config)
}

/// Refuses to replace what is there; a file that would stay as it is does not count.
fn refuse_existing(flags: &Flags, files: &[(&str, &str)]) -> Result<(), Failure> {
    let file = (!flags.no_file).then(|| flags.dir.join("demo.nxs"));
    let others = files.iter().map(|(name, text)| (flags.dir.join(name), *text));
    let others = others.filter(|(path, text)| !says(path, text)).map(|(path, _)| path);
    let there = |path: &PathBuf| path.symlink_metadata().is_ok();
    match file.into_iter().chain(others).find(there).filter(|_| !flags.overwrite) {
        None => Ok(()),
        Some(path) => {
            let why = "the file exists; replace it with --overwrite, or choose another --dir";
            Err(Failure::Wrong(format!("{}: {why}", path.display())))
        }
    }
}

/// True if a file with this text is there.
fn says(path: &Path, text: &str) -> bool {
    let long = path.metadata().is_ok_and(|m| m.is_file() && m.len() == text.len() as u64);
    long && std::fs::read(path).is_ok_and(|there| there == text.as_bytes())
}

/// Writes a file into the folder. One that says the same stays.
fn keep(flags: &Flags, name: &str, text: &str) -> Result<(), Failure> {
    let (dir, path) = (&flags.dir, flags.dir.join(name));
    if says(&path, text) {
        return Ok(());
    }
    let written = files::put(dir, name, text.as_bytes(), flags.overwrite)
        .with_context(|| format!("--dir {}: cannot write {name}", dir.display()))?;
    if written == path {
        return Ok(());
    }
    // It came since the look at the beginning.
    let shown = written.display();
    Err(anyhow::anyhow!("{}: the file exists; the new one is {shown}", path.display()).into())
}

/// The same service for the next time, started by hand: paths in a file begin at its folder.
fn by_hand(config: &Config, shown: &Shown) -> Config {
    let mut c = config.clone();
    c.source.url = OneOrMore::One("udp://127.0.0.1:9000".into());
    c.detector.geometry = Some(shown.geometry.into());
    c.engine.queue = Config::default().engine.queue;
    if let Some(nexus) = &mut c.output.nexus {
        nexus.path = "run.nxs".into();
        nexus.overwrite = false;
    }
    c
}
