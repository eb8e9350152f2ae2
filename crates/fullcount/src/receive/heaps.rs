//! `fullcount receive spead+…`: SPEAD heaps, counted as spead2 counts them and beyond.
//!
//! Several endpoints are readers of one stream. Ends with the stream, a limit or Ctrl-C; 3 if a heap is incomplete, lost or thrown away,
//! a value is wrong, or the stop heap did not come.

use std::time::{Duration, Instant};

use anyhow::Context;
use fullcount_core::ledger::{Info, Ledger, Role};
use fullcount_core::source::{SourceOpening, SourceSetup};
use fullcount_engine::config::{ConfigError, refuse};
use fullcount_engine::open::check_core;
use fullcount_engine::registered;
use fullcount_engine::stop::Stop;
use fullcount_engine::summary::grouped;
use fullcount_io::quantity;
use fullcount_io::spead::{IntakeStep, SpeadIntake, TestValues, carrier, end_when_stalled};
use fullcount_spead::receive::{Delivery, StreamEnd};
use serde_json::{Value, json};

use super::ReceiveFlags;
use crate::exit::Failure;
use crate::{note, say};

/// True if heaps are received.
pub fn is_meant(urls: &[String]) -> bool {
    urls.iter().any(|url| url.starts_with("spead+"))
}

/// What came and was thrown away, or of which only the beginning came; and what the kernel had no room for.
fn is_thrown(info: &Info) -> bool {
    let incomplete = info.name == "spead.heaps.incomplete";
    (matches!(info.role, Role::Dropped(_)) && !incomplete) || info.name == "receive.kernel_drops"
}

/// What came.
#[derive(Debug, Default)]
struct Came {
    heaps: u64,
    heap_bytes: u64,
    incomplete: u64,
    mismatches: u64,
}

impl Came {
    fn take(&mut self, delivery: &Delivery, verify: bool) {
        let Delivery::Heap(heap) = delivery else {
            self.incomplete += 1;
            return;
        };
        self.heaps += 1;
        self.heap_bytes += heap.payload().len() as u64;
        self.mismatches += u64::from(verify && TestValues::wrong_in(heap).is_some());
    }
}

/// When it ends beside the stream's own end.
struct Limits {
    duration: Option<Duration>,
    idle: Option<Duration>,
    heaps: Option<u64>,
}

fn time(key: &'static str, text: Option<&String>) -> Result<Option<Duration>, Failure> {
    let read = |t: &String| quantity::duration(t).map_err(|e| refuse(key, t, e.to_string()));
    Ok(text.map(read).transpose()?)
}

/// What only other endpoints have, by its flag.
fn without_effect(flags: &ReceiveFlags) -> Option<(&'static str, String, &'static str)> {
    let (source, engine) = (&flags.source, &flags.engine);
    let cores = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let number = |n: Option<u32>| n.map(|n| n.to_string());
    let several = (source.core.len() > 1).then(|| cores(&source.core));
    let listed = |list: &[usize]| (!list.is_empty()).then(|| cores(list));
    let alone = "not of heaps: one thread receives a stream of heaps and puts them together";
    let packets = "not of heaps: heaps have numbers and item pointers of their own";
    let page = "not of heaps: the detector heap of run has the live page and /metrics";
    let all = [
        ("web", (flags.web != "off").then(|| flags.web.clone()), page),
        ("key", flags.key.clone(), packets),
        ("workers", number(source.workers), alone),
        ("steer", source.steer.clone(), alone),
        ("core", several, "one CPU: one thread receives a stream of heaps"),
        (
            "redundant",
            source.redundant.then(|| "on".to_owned()),
            "not of heaps: copies of packets are always found",
        ),
        ("fault", source.fault.clone(), "not of heaps: send --fault or run have it"),
        ("timestamps", source.timestamps.then(|| "on".to_owned()), packets),
        ("threads", number(engine.threads), alone),
        ("process-core", listed(&engine.process_core), alone),
        ("build-threads", number(engine.build_threads), alone),
        ("build-core", listed(&engine.build_core), alone),
        ("probes", engine.probes.clone(), "not of heaps: run has it"),
        ("senders", number(engine.senders), "not of heaps: senders= in the URL says it"),
    ];
    all.into_iter().find_map(|(key, value, why)| Some((key, value?, why)))
}

/// Receives until the stream ends, a limit or Ctrl-C.
pub fn receive(flags: &ReceiveFlags) -> Result<u8, Failure> {
    if let Some((key, value, why)) = without_effect(flags) {
        return Err(refuse(key, value, why).into());
    }
    if let Some(other) = flags.url.iter().find(|url| !url.starts_with("spead+")) {
        let why = "all endpoints of a stream of heaps are spead+ ones";
        return Err(refuse("url", other, why).into());
    }
    let mut setup = SourceSetup::plain(registered::sources());
    if let Some(text) = &flags.source.receive_buffer {
        let size = quantity::size(text).map_err(|e| refuse("receive-buffer", text, e.to_string()));
        setup.receive_buffer = size?;
    }
    setup.busy_poll = flags.source.busy_poll;
    setup.nap = flags.source.nap.as_deref();
    setup.engine = flags.source.engine.as_deref().unwrap_or("auto");
    let core = flags.source.core.first().copied();
    check_core("core", core)?;
    let limits = Limits {
        duration: time("duration", flags.engine.duration.as_ref())?,
        idle: time("idle-exit", flags.engine.idle_exit.as_ref())?,
        heaps: flags.engine.packets,
    };
    let planned = carrier::plan_stream(&flags.url, &setup).map_err(ConfigError::from)?;
    let (mut urls, inner): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
    if limits.idle.is_none() {
        end_when_stalled(&mut urls, carrier::STALLED);
    }
    for (url, endpoint) in flags.url.iter().zip(&inner) {
        let there = endpoint.as_ref().map_or(Ok(()), |endpoint| endpoint.is_there());
        there.map_err(|cause| Failure::Wrong(format!("{url}: {cause}")))?;
    }
    let mut intake =
        SpeadIntake::open(&urls, &inner, &SourceOpening::PLAIN).map_err(anyhow::Error::from)?;
    intake.describe().iter().for_each(|fact| note!("{fact}"));
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    if let Some(core) = core
        && let Err(e) = fullcount_io::sys::pin_thread(core)
    {
        note!("fullcount: cannot pin to CPU {core}: {e}");
    }
    let (came, active, why) = read(&mut intake, &limits, flags.verify, &stop)?;
    let code = report(&intake, &came, active, why, flags.json);
    if why == Some(StreamEnd::Stalled) {
        note!(
            "fullcount: no packet for stall_timeout (30s unless the URL says another time, 0s for never): the stop heap is lost, or the sender has died"
        );
        return Ok(3);
    }
    Ok(code)
}

fn read(
    intake: &mut SpeadIntake,
    limits: &Limits,
    verify: bool,
    stop: &Stop,
) -> Result<(Came, Duration, Option<StreamEnd>), Failure> {
    let mut came = Came::default();
    let begun = Instant::now();
    let (mut first, mut last): (Option<Instant>, Option<Instant>) = (None, None);
    let mut line = Progress::default();
    loop {
        let mut deliver = |delivery: Delivery, _| came.take(&delivery, verify);
        let step =
            intake.step(Duration::from_millis(20), &mut deliver).map_err(anyhow::Error::from)?;
        let now = Instant::now();
        match step {
            IntakeStep::Ended(why) => {
                let active = first.map_or(Duration::ZERO, |first| now - first);
                return Ok((came, active, Some(why)));
            }
            IntakeStep::Data => {
                first.get_or_insert(now);
                last = Some(now);
            }
            IntakeStep::Idle => {}
        }
        line.tell(now, &came);
        let silent = |idle: Duration| last.is_some_and(|last| now - last >= idle);
        let over = limits.duration.is_some_and(|time| now - begun >= time)
            || limits.idle.is_some_and(silent)
            || limits.heaps.is_some_and(|heaps| came.heaps >= heaps)
            || stop.requested();
        if over {
            intake.stop();
            let active = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
            let mut rest = |delivery: Delivery, _| came.take(&delivery, verify);
            intake.step(Duration::ZERO, &mut rest).map_err(anyhow::Error::from)?;
            return Ok((came, active, None));
        }
    }
}

/// A line on a terminal every second.
#[derive(Default)]
struct Progress {
    told: Option<(Instant, u64, u64)>,
}

impl Progress {
    fn tell(&mut self, now: Instant, came: &Came) {
        use std::io::IsTerminal;
        let (then, heaps, bytes) = *self.told.get_or_insert((now, 0, 0));
        let seconds = (now - then).as_secs_f64();
        if seconds < 1.0 || !std::io::stderr().is_terminal() {
            return;
        }
        let gbps = (came.heap_bytes - bytes) as f64 * 8e-9 / seconds;
        let rate = (came.heaps - heaps) as f64 / seconds;
        crate::say::write_error(format_args!(
            "\r\x1b[2K{} heaps  {gbps:.3} Gbit/s  {rate:.1} heaps/s",
            grouped(came.heaps)
        ));
        self.told = Some((now, came.heaps, came.heap_bytes));
    }
}

fn report(
    intake: &SpeadIntake,
    came: &Came,
    active: Duration,
    why: Option<StreamEnd>,
    as_json: bool,
) -> u8 {
    let ledger = Ledger::default();
    ledger.register(intake.sheet());
    intake.reader_sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let entries = ledger.read();
    let get = |name: &str| entries.get(name).unwrap_or(0);
    let (statistics, losses) = (intake.stream().statistics(), intake.stream().losses());
    let seconds = active.as_secs_f64();
    let spead_bytes = get("spead.packet_bytes");
    let gbps = spead_bytes as f64 * 8e-9 / seconds.max(1e-9);
    let thrown = || entries.iter().filter(|e| e.value > 0 && is_thrown(&e.info));
    let thrown_away: u64 = thrown().map(|e| e.value).sum();
    let bad = get("spead.heaps.incomplete") + losses.beside() + came.mismatches + thrown_away;
    let ended = match why {
        Some(StreamEnd::StopItem) => "stop heap",
        Some(StreamEnd::Readers) => "end of all readers",
        Some(StreamEnd::Stalled) => "stalled",
        Some(StreamEnd::User) | None => "here",
    };
    let known = |n: Option<u64>| n.map_or_else(|| "unknown".to_owned(), grouped);
    let text = format!(
        "received {} heaps, {} bytes in {seconds:.3} s: {gbps:.3} Gbit/s of SPEAD; {} incomplete, lost: {} heaps, {} payload bytes; ended: {ended}",
        grouped(came.heaps),
        grouped(came.heap_bytes),
        grouped(get("spead.heaps.incomplete")),
        known(losses.heaps),
        known(losses.all_bytes()),
    );
    if as_json {
        note!("{text}");
        let statistics: serde_json::Map<String, Value> =
            statistics.entries().map(|(name, _, value)| (name.to_owned(), json!(value))).collect();
        let unknown = |name: &str| match name {
            "spead.lost.heaps" => losses.heaps.is_none(),
            "spead.lost.packets" => losses.packets.is_none(),
            "spead.lost.rest_bytes" => losses.rest_bytes.is_none(),
            "spead.lost.rest_packets" => losses.rest_packets.is_none(),
            _ => false,
        };
        let value = |name: &str, value| if unknown(name) { Value::Null } else { json!(value) };
        let counters: serde_json::Map<String, Value> = entries
            .iter()
            .map(|e| (e.info.name.to_string(), value(&e.info.name, e.value)))
            .collect();
        say!(
            "{}",
            json!({
                "schema": "fullcount/summary/1", "verb": "receive", "seconds": seconds, "ended": ended,
                "heaps": {
                    "received": came.heaps, "incomplete": get("spead.heaps.incomplete"),
                    "lost": losses.heaps, "wrong": came.mismatches,
                },
                "packets": {"lost": losses.packets, "lost_all": losses.all_packets()},
                "bytes": {
                    "heaps": came.heap_bytes, "spead": spead_bytes,
                    "transport": get("receive.bytes") + intake.stream_bytes(), "missing": losses.bytes, "missing_all": losses.all_bytes(),
                },
                "rates": {"gbps": gbps, "heaps_per_s": came.heaps as f64 / seconds.max(1e-9)},
                "statistics": statistics, "counters": counters, "balance": entries.balance(),
            })
        );
    } else {
        say!("{text}");
        statistics.entries().for_each(|(name, _, value)| say!("{name}: {value}"));
    }
    if came.mismatches > 0 {
        note!("fullcount: {} heaps have other values than those of send --verify", came.mismatches);
    }
    if thrown_away > 0 {
        let each: Vec<String> = thrown().map(|e| format!("{} {}", e.info.name, e.value)).collect();
        note!("fullcount: heaps were lost, thrown away or cut: {}", each.join(", "));
    }
    if bad > 0 { 3 } else { 0 }
}
