//! `fullcount demo`: the whole chain on one machine with nothing else installed.
//!
//! Simulator, service and page in one process tree; ends with the four numbers that must be equal in
//! pairs: packets sent = delivered, events made = events in the file.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use fullcount_core::simulator::facts::Demonstration;
use fullcount_engine::config::{Config, OneOrMore, refuse};
use fullcount_engine::registered;
use fullcount_engine::run::{RunPlan, Running};
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::{Cpu, Summary, grouped};
use fullcount_lab::send::{SendJob, SendProgress, Sent};
use serde_json::json;

use crate::exit::Failure;
use crate::flags::Overlay;
use crate::send::TrafficFlags;
use crate::status_line::StatusLine;
use crate::{fact, help, note, say, tell};

mod written;

use written::{keep, refuse_existing};

/// The whole chain on this machine: simulated detector → UDP → events → live page + NeXus file + ledger.
#[derive(Debug, Args)]
#[command(after_help = help::examples("demo", EXAMPLES))]
pub struct DemoFlags {
    /// Length of the demonstration
    #[arg(long, value_name = "TIME", default_value = "60s")]
    duration: String,
    #[arg(long, value_name = "KIND", default_value = help::usual_demo(), help = help::demo_detector())]
    detector: String,
    #[arg(long, value_name = "RATE", help = help::demo_rate())]
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
  fullcount demo
  fullcount demo --overwrite
  fullcount demo --duration 10s --rate 20Mev/s
  fullcount demo --rate 5Gbps --no-file --web 127.0.0.1:9090";

/// Time without any packet after which the sender's last packets must have arrived.
const SETTLE: Duration = Duration::from_secs(3);

/// Runs the demonstration.
pub fn demo(flags: DemoFlags) -> Result<u8, Failure> {
    let all = fullcount_sim::registered();
    let shown = all.find(&flags.detector).and_then(|kind| kind.declared().demonstration);
    let known = || {
        refuse(
            "detector",
            &flags.detector,
            all.names(|kind| kind.declared().demonstration.is_some()),
        )
    };
    let shown = &shown.ok_or_else(known)?;
    let rate = flags.rate.as_deref().unwrap_or(shown.rate);
    let (options, duration) = (shown.options, &flags.duration);
    let send = TrafficFlags::for_demo(&flags.detector, options, rate, duration, flags.seed);
    let first_port = free_ports(&send)?;
    // Checks rate and duration before anything is opened; the true port is known later.
    send.job(&["udp://127.0.0.1:9".into()], first_port)?;
    let geometry = send.geometry(first_port)?.unwrap_or_default();
    let config = prepare(&flags, shown, &geometry)?;
    let plan = RunPlan::new("demo", &config)?;
    let stop = Stop::on_signals_in_two_steps().context("installing the signal handlers")?;
    // Ctrl-C stops the sender; the service then stops by itself once everything has arrived.
    let service_stop = Stop::default();
    let running = Running::start(plan, service_stop).map_err(|e| Failure::of_start(&e))?;
    for fact in running.facts() {
        fact!("{fact}");
    }
    let to = running.local_address().context("the service has no UDP address")?;
    let job: SendJob = send.job(&[format!("udp://{to}")], first_port)?;
    let mut line = StatusLine::new();
    let sent = sent(job, &stop, &running, &mut line)?;
    settle(&running, sent.packets, &stop);
    running.stop();
    line.clear();
    let (mut summary, outcome) = running.finish(Some((sent.packets, sent.bytes)));
    if let Some(cpu) = sent.cpu {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (user, system) = (seconds(cpu.user_ns), seconds(cpu.system_ns));
        summary.set_apart(Cpu { user, system, softirq: None });
    }
    let complete = show(&summary, &sent, flags.json);
    let code = if outcome.is_err() { 1 } else { summary.exit_code() };
    Ok(if code == 0 && !complete { 3 } else { code })
}

/// Lets the simulator send, and shows how the service gets on.
fn sent(
    job: SendJob,
    stop: &Stop,
    running: &Running,
    line: &mut StatusLine,
) -> Result<Sent, Failure> {
    let progress = Arc::new(SendProgress::default());
    let (watched, ending) = (progress.clone(), stop.clone());
    let sender = std::thread::Builder::new()
        .name("simulator".into())
        .spawn(move || job.run(&|| ending.requested(), &watched))
        .context("starting the simulator")?;
    while !sender.is_finished() && !running.wait(line.period()) {
        line.show(&running.status());
    }
    let sent = sender
        .join()
        .map_err(|_| anyhow::anyhow!("the simulator panicked"))?
        .map_err(anyhow::Error::from)?;
    Ok(sent)
}

/// Prints the summary and the four numbers; true if they are equal in pairs.
fn show(summary: &Summary, sent: &Sent, json: bool) -> bool {
    let file = summary.outputs.iter().find(|o| matches!(o.name, "nexus" | "heaps"));
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
    // Heaps are the events of a detector that has no others.
    let shown =
        events_in_file.unwrap_or_else(|| summary.events() + summary.counter("heaps.with_arrays"));
    let place = if file.is_some() { "events in file " } else { "events received" };
    four += &format!(
        "  events made    {:>16}  {}  {place} {:>16}\n",
        grouped(sent.events),
        equal(sent.events, shown),
        grouped(shown)
    );
    if let Some(shortfall) = crate::send::shortfall(sent) {
        note!("{shortfall}");
    }
    let complete = sent.packets == delivered && sent.events == shown;
    if json {
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
    complete
}

/// The first of as many source ports as are needed that nobody else has: the geometry names modules by them. `None`: any do.
fn free_ports(send: &TrafficFlags) -> Result<Option<u16>, Failure> {
    let needed = send.ports(None)?.len();
    if needed == 0 {
        return Ok(None);
    }
    for first in (50_011..60_000).step_by(500) {
        let free = |port: &u16| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
        if send.ports(Some(first))?.iter().all(free) {
            return Ok(Some(first));
        }
    }
    let why = format!("no {needed} free UDP ports between 50011 and 60000 on this host");
    Err(anyhow::Error::msg(why).into())
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
fn prepare(flags: &DemoFlags, shown: &Demonstration, geometry: &str) -> Result<Config, Failure> {
    let dir = &flags.dir;
    let path = |name: &str| dir.join(name).display().to_string();
    // What this build was made without is left out.
    let has = |section: &str| registered::outputs().of_section(section).is_some();
    let heaps = gives_heaps(&flags.detector);
    let mut o = Overlay::default();
    o.put("source.url", Some("udp://127.0.0.1:0"))
        .put("detector.kind", Some(flags.detector.clone()))
        .put("detector.geometry", geometry_file(shown).map(path))
        .put("time.pulse", Some(shown.pulse))
        .put("time.tick", shown.tick)
        .put("web.listen", has("web").then(|| flags.web.clone()))
        // A disk that thinks for some seconds costs none of what was made; 64 batches are 1.3 s.
        .put("engine.queue", Some(512))
        .put("engine.threads", Some(i64::from(flags.threads)));
    if !flags.no_file && heaps && has("output.heaps") {
        o.put("output.heaps.file", Some(path("demo.h5")))
            .put("output.heaps.overwrite", Some(flags.overwrite));
    } else if !flags.no_file && !heaps && has("output.nexus") {
        o.put("output.nexus.path", Some(path("demo.nxs")))
            .put("output.nexus.overwrite", Some(flags.overwrite))
            .put("output.nexus.title", Some(format!("Fullcount demonstration: {}", shown.title)));
    }
    o.set(&shown.settings.iter().map(|&set| set.to_owned()).collect::<Vec<String>>())?;
    let config = o.read(None)?;
    let run = by_hand(&config, shown).to_toml();
    let geometry = geometry_file(shown).map(|name| (name, geometry));
    let files: Vec<_> = geometry.into_iter().chain([("run.toml", &*run)]).collect();
    refuse_existing(flags, heaps, &files)?;
    files.iter().try_for_each(|(name, text)| keep(flags, name, text))?;
    Ok(config)
}

/// A detector without pixels is one whose results are heaps, and its events are counted as such.
fn gives_heaps(detector: &str) -> bool {
    let kind = fullcount_detect::detector::registered().find(detector);
    let sample = kind.and_then(|kind| kind.configure(&kind.sample().setup()).ok());
    sample.is_some_and(|detector| detector.pixels().is_empty())
}

fn geometry_file(shown: &Demonstration) -> Option<&'static str> {
    Some(shown.geometry_file).filter(|name| !name.is_empty())
}

/// The same service for the next time, started by hand: paths in a file begin at its folder.
fn by_hand(config: &Config, shown: &Demonstration) -> Config {
    let mut c = config.clone();
    c.source.url = OneOrMore::One("udp://127.0.0.1:9000".into());
    c.detector.geometry = geometry_file(shown).map(Into::into);
    c.engine.queue = Config::default().engine.queue;
    if let Some(nexus) = c.output.sections.get_mut("nexus").and_then(toml::Value::as_table_mut) {
        nexus.insert("path".into(), "run.nxs".into());
        nexus.insert("overwrite".into(), false.into());
    }
    if let Some(heaps) = c.output.sections.get_mut("heaps").and_then(toml::Value::as_table_mut) {
        heaps.insert("file".into(), "run.h5".into());
        heaps.insert("overwrite".into(), false.into());
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detector_without_pixels_is_shown_by_its_heaps() {
        for kind in fullcount_sim::registered().kinds() {
            if kind.declared().demonstration.is_some() {
                assert_eq!(gives_heaps(kind.name()), kind.name() == "heap", "{}", kind.name());
            }
        }
    }
}
