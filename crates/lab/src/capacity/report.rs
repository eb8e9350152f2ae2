//! Tables of a plan, with where each number is from, and the row of the results file.

use fullcount_io::quantity::{decimal_size_text as bytes, period_text as time, size_text};
use serde_json::{Value, json};

use super::advice::{WorkerRun, advice};
use super::measured::MeasuredRates;
use super::plan::{CapacityLoad, CapacityPlan, EVENT_BYTES, SPEEDS};
use super::queues::{PLACES, Sizes};
use fullcount_core::quantity::short_text as short;

/// A plan with its simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityReport {
    /// The arithmetic.
    pub plan: CapacityPlan,
    /// One worker's queues.
    pub run: WorkerRun,
    /// Their sizes.
    pub sizes: Sizes,
    /// What to change.
    pub advice: Vec<String>,
}

impl CapacityReport {
    /// Of a plan and its run.
    pub fn new(plan: CapacityPlan, run: WorkerRun, sizes: Sizes) -> CapacityReport {
        let advice = advice(&plan, &sizes, &run);
        CapacityReport { plan, run, sizes, advice }
    }

    /// Lost in the simulation, as a share of what came.
    pub fn lost(&self) -> f64 {
        let o = &self.run.outcome;
        o.lost.iter().sum::<u64>() as f64 / o.arrived.max(1) as f64
    }
}

/// `1 port`, `2 ports`.
fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn maybe(value: Option<f64>) -> String {
    value.map_or("not measured".to_owned(), |v| format!("{v:.2}"))
}

fn counts(values: [u64; 3]) -> String {
    values.map(|v| v.to_string()).join(" / ")
}

/// All instruments in one table, the average and, behind the arrow, the peak.
pub fn overview(reports: &[CapacityReport]) -> String {
    let mut text = "| instrument | detector | M events/s | input, MB/s | k packets/s | links of 10 / 25 / 100 GbE | \
                    cores | hosts | instances | partitions | topic, MB/s | brokers a day | file, MB/s | in the simulation |\n\
                    |:--|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|:--|\n"
        .to_owned();
    for r in reports {
        let p = &r.plan;
        let (a, k) = (&p.average, &p.peak);
        let steady = p.factor == 1.0;
        let both = |of: &dyn Fn(&CapacityLoad) -> String| match steady {
            true => of(a),
            false => format!("{} → {}", of(a), of(k)),
        };
        let events = match (p.instrument.kind.detector(), p.unit) {
            (None, _) => "–".to_owned(),
            (_, true) => "not given: for each 1".to_owned(),
            _ => both(&|l| plain(l.events / 1e6)),
        };
        let links = p.instrument.links.map_or_else(
            || both(&|l| counts(l.links)),
            |l| format!("{} × {:.0} GbE", l.count, l.speed / 1e9),
        );
        let out = p.output.as_ref();
        let cell =
            |of: &dyn Fn(&super::plan::CapacityOutput) -> String| out.map_or("–".to_owned(), of);
        text += &format!(
            "| {} | {} | {events} | {} | {} | {links} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            p.instrument.name,
            p.instrument.kind.detector().unwrap_or("–"),
            both(&|l| plain(l.bytes / 1e6)),
            both(&|l| plain(l.packets / 1e3)),
            both(&|l| l.cores.to_string()),
            both(&|l| l.all_hosts().to_string()),
            p.workers,
            cell(&|o| o.partitions.map_or("not measured".to_owned(), |n| n.to_string())),
            cell(&|o| plain(o.sent / 1e6)),
            cell(&|o| bytes(o.hour * 24.0)),
            cell(&|o| plain(o.file / 1e6)),
            verdict(r),
        );
    }
    text
}

/// Three digits, no prefix.
fn plain(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn verdict(r: &CapacityReport) -> String {
    let lost = r.lost();
    match (lost > 0.0, r.advice.is_empty()) {
        (false, true) => "nothing lost".to_owned(),
        (false, false) => "nothing lost, but see below".to_owned(),
        (true, _) => format!("{:.3} % lost", lost * 100.0),
    }
}

/// One instrument: loads, what goes out, queues, advice, what is missing.
pub fn section(r: &CapacityReport, facts: &MeasuredRates) -> String {
    let p = &r.plan;
    let mut text = format!(
        "\n## {}\n\n{}. Source: {}.\n",
        p.instrument.name, p.instrument.about, p.instrument.source
    );
    if p.unit {
        text += "\n**No rate is given: all numbers are for each 1 M events/s.**\n";
    }
    text += &loads(p, facts);
    if let Some(o) = &p.output {
        text += "\n| goes out | | from |\n|:--|--:|:--|\n";
        let mut row = |what: &str, value: String, from: String| {
            text += &format!("| {what} | {value} | {from} |\n");
        };
        let w = &p.wishes;
        row(
            "messages/s",
            short(o.messages),
            format!(
                "{}, cut at pulses and at {} events",
                count(p.workers, "instance"),
                w.message_events
            ),
        );
        row(
            "on the topic",
            format!("{}/s", bytes(o.sent)),
            format!(
                "{EVENT_BYTES} B an event, {:.0} B a message, compressed by {}",
                w.message_bytes, p.instrument.compress_factor
            ),
        );
        let produce = match (&facts.produce, w.produce) {
            (_, Some(p)) => format!("--producer-rate: {}/s each", bytes(p)),
            (Some(m), None) => format!("{}/s each ({})", bytes(m.value), m.from),
            (None, None) => "–".to_owned(),
        };
        let partitions = o.partitions.map_or("not measured".to_owned(), |n| n.to_string());
        row("partitions", partitions, format!("{produce}, at least one an instance"));
        row("on the brokers, an hour", bytes(o.hour), format!("{} copies", w.replication));
        row("on the brokers, kept", bytes(o.kept), format!("for {}", time(w.retention_s)));
        row("in all spools", bytes(o.spool), format!("outage of {}", time(w.outage_s)));
        row(
            "into the file",
            format!("{}/s", bytes(o.file)),
            "8 B an event, 16 B a pulse".to_owned(),
        );
        if let (Some(share), Some(m)) = (o.disk, &facts.disk) {
            let from = format!("{}/s ({})", bytes(m.value), m.from);
            row("of the measured disk", format!("{:.0} %", share * 100.0), from);
        }
    }
    text + &queues(r) + &remarks(r)
}

fn loads(p: &CapacityPlan, facts: &MeasuredRates) -> String {
    let (a, k) = (&p.average, &p.peak);
    let mut text = "\n| | average | in the 1 ms peak | from |\n|:--|--:|--:|:--|\n".to_owned();
    let mut row = |what: &str, of: &dyn Fn(&CapacityLoad) -> String, from: String| {
        let peak = if p.factor == 1.0 { "–".to_owned() } else { of(k) };
        text += &format!("| {what} | {} | {peak} | {from} |\n", of(a));
    };
    let factor = match p.factor {
        1.0 => "sends all the time alike".to_owned(),
        f => format!("peak {f:.1} times the average"),
    };
    if p.instrument.kind.detector().is_some() {
        row("events/s", &|l| short(l.events), factor.clone());
    }
    let name = |value: Option<f64>, what: &str| value.map(|v| format!("{v:.1} B {what}"));
    let each: Vec<String> = match p.instrument.kind.detector() {
        Some(_) => {
            let of = [
                name(p.event_bytes[0], "an event as planned"),
                name(p.event_bytes[1], "as the format was measured"),
            ];
            of.into_iter().flatten().collect()
        }
        None => vec![factor],
    };
    row("input", &|l| format!("{}/s", bytes(l.bytes)), each.join(", "));
    row("packets/s", &|l| short(l.packets), format!("{:.0} B each", p.packet_bytes));
    row(
        "on the wire, Gb/s",
        &|l| plain(l.wire_bits / 1e9),
        "UDP over IPv4, frames whole".to_owned(),
    );
    let free = format!("{:.0} % of each", p.wishes.headroom * 100.0);
    let speeds = SPEEDS.map(|s| format!("{:.0}", s / 1e9)).join(" / ");
    row(&format!("links of {speeds} GbE"), &|l| counts(l.links), free);
    if let Some(l) = p.instrument.links {
        let used = |load: &CapacityLoad| {
            format!("{:.0} %", 100.0 * load.wire_bits / (l.count as f64 * l.speed))
        };
        row("of the given links", &used, format!("{} × {:.0} GbE", l.count, l.speed / 1e9));
    }
    let receiver = p.receiver.as_ref();
    let from = receiver
        .map_or("–".to_owned(), |m| format!("{} {} a core ({})", short(m.value), m.unit, m.from));
    row("cores to receive", &|l| maybe(l.receive), from);
    if let Some(Ok(d)) = p.instrument.kind.costs().map(|name| facts.of(name)) {
        let from = format!(
            "{} events/s, {} packets/s a core ({})",
            short(d.events.value),
            short(d.packets.value),
            d.events.from
        );
        row("cores to make events", &|l| format!("{:.2}", l.process), from);
        let from = facts.encode.as_ref().map_or("–".to_owned(), |m| {
            format!("{} {} a core ({})", short(m.value), m.unit, m.from)
        });
        row("cores to make messages", &|l| maybe(l.encode), from);
        let of = |l: &CapacityLoad| l.workers.map_or("not measured".to_owned(), |n| n.to_string());
        let from = format!("{} {} each ({})", short(p.worker.value), p.worker.unit, p.worker.from);
        row("workers", &of, from);
    }
    let from = match p.instrument.kind.detector() {
        Some(_) => {
            let threads = count(u64::from(p.wishes.threads), "thread");
            format!("workers of {threads}, or the parts if these are more")
        }
        None => "receiving".to_owned(),
    };
    row("cores", &|l| l.cores.to_string(), from);
    let w = &p.wishes;
    let from = format!(
        "{} less {}, {} of {:.0} Gb/s",
        count(w.host_cores, "core"),
        w.reserve,
        count(w.ports, "port"),
        p.instrument.links.map_or(w.port, |l| l.speed.max(w.port)) / 1e9
    );
    row("hosts by cores / by ports", &|l| format!("{} / {}", l.hosts[0], l.hosts[1]), from);
    text
}

fn queues(r: &CapacityReport) -> String {
    let (s, o) = (&r.run.setup, &r.run.outcome);
    let mut text = format!(
        "\nOne of {}, {} packets/s, {}steps of {:.0} µs:\n\n| waits in | room | deepest | time to empty | \
         usually |\n|:--|--:|--:|--:|--:|\n",
        count(r.plan.workers, "instance"),
        short(s.rate),
        s.output.map_or(String::new(), |_| format!("brokers away for {}, ", time(s.outage_s))),
        s.step_s * 1e6
    );
    for (place, name) in PLACES.iter().enumerate() {
        let unused = match place {
            0 => false,
            1 => s.process.is_none(),
            _ => s.output.is_none(),
        };
        if unused {
            continue;
        }
        let size = |n: u64| bytes(n as f64 * s.bytes[place]);
        text += &format!(
            "| {name} | {} | {} | {} | {} |\n",
            size(s.room[place]),
            size(o.deepest[place]),
            time(o.deepest[place] as f64 / s.drain(place)),
            size(o.usual[place]),
        );
    }
    let share = |n: u64| 100.0 * n as f64 / o.arrived.max(1) as f64;
    text += &format!(
        "\nLost at the socket {:.4} %, at the output's queue {:.4} %",
        share(o.lost[0]),
        share(o.lost[1])
    );
    if let Some(at) = o.first_loss_s {
        text += &match at < 0.0 {
            true => ", first before the outage".to_owned(),
            false => format!(", first {} into the outage", time(at)),
        };
    }
    if s.output.is_some() {
        text += &match (o.drained_s, o.computed) {
            (Some(t), false) => {
                format!(". After the outage the spool is empty within {}", time(t))
            }
            (Some(t), true) => {
                format!(". After the outage the spool needs {} (computed)", time(t))
            }
            (None, _) => ". After the outage the spool never empties".to_owned(),
        };
    }
    text + ".\n"
}

fn remarks(r: &CapacityReport) -> String {
    let mut text = String::new();
    for (head, list) in [("To change", &r.advice), ("Missing", &r.plan.missing)] {
        if !list.is_empty() {
            text += &format!("\n{head}:\n\n");
            list.iter().for_each(|line| text += &format!("- {line}\n"));
        }
    }
    text
}

fn load_json(l: &CapacityLoad) -> Value {
    json!({
        "events_per_s": l.events, "bytes_per_s": l.bytes, "packets_per_s": l.packets,
        "wire_bits_per_s": l.wire_bits,
        "links": {"10GbE": l.links[0], "25GbE": l.links[1], "100GbE": l.links[2]},
        "receive_cores": l.receive, "process_cores": l.process, "encode_cores": l.encode,
        "workers": l.workers, "cores": l.cores,
        "hosts": {"by_cores": l.hosts[0], "by_ports": l.hosts[1]},
    })
}

/// The row of a results file.
pub fn row(r: &CapacityReport, facts: &MeasuredRates) -> Value {
    let (p, s, o) = (&r.plan, &r.run.setup, &r.run.outcome);
    let from =
        |m: &super::measured::Measure| json!({"value": m.value, "unit": m.unit, "from": m.from});
    let decoder = p.instrument.kind.costs().and_then(|name| facts.of(name).ok());
    let queues: Vec<Value> = PLACES
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let size = |n: u64| n as f64 * s.bytes[place];
            json!({
                "place": name, "room_bytes": size(s.room[place]),
                "deepest_bytes": size(o.deepest[place]), "usual_bytes": size(o.usual[place]),
                "time_to_empty_s": o.deepest[place] as f64 / s.drain(place),
            })
        })
        .collect();
    json!({
        "instrument": p.instrument.name, "source": p.instrument.source,
        "detector": p.instrument.kind.detector(),
        "assumed": p.instrument.kind.assumption(),
        "rate_known": !p.unit, "peak_factor": p.factor, "packet_bytes": p.packet_bytes,
        "bytes_per_event": {"planned": p.event_bytes[0], "format": p.event_bytes[1]},
        "average": load_json(&p.average), "peak": load_json(&p.peak), "instances": p.workers,
        "output": p.output.as_ref().map(|o| json!({
            "messages_per_s": o.messages, "topic_bytes_per_s": o.topic, "sent_bytes_per_s": o.sent,
            "partitions": o.partitions, "broker_bytes_per_hour": o.hour,
            "broker_bytes_per_day": o.hour * 24.0, "broker_bytes_kept": o.kept,
            "spool_bytes": o.spool, "file_bytes_per_s": o.file, "share_of_disk": o.disk,
        })),
        "measured": {
            "worker": from(&p.worker), "receive": p.receiver.as_ref().map(from),
            "process": decoder.map(|d| from(&d.events)), "encode": facts.encode.as_ref().map(from),
            "spool": facts.spool.as_ref().map(from), "produce": facts.produce.as_ref().map(from),
            "disk": facts.disk.as_ref().map(from),
        },
        "simulation": {
            "packets": {"arrived": o.arrived, "out": o.out, "lost_socket": o.lost[0], "lost_queue": o.lost[1],
                        "left": o.left.iter().sum::<u64>()},
            "queues": queues, "first_loss_s": o.first_loss_s, "drained_s": o.drained_s,
            "drained_computed": o.computed,
            "sizes": {"receive_buffer": size_text(r.sizes.receive_buffer), "queue": r.sizes.queue,
                      "spool": size_text(r.sizes.spool)},
        },
        "to_change": r.advice, "missing": p.missing,
    })
}
