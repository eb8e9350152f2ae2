//! The one JSON object that ends every verb, and the ledger as people read it.
//!
//! Keys are stable (`fullcount/summary/1`); absent means "does not apply".
//! Source: `docs/architecture.md`, contract "Summary".

mod clock;
mod numbered;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use fullcount_core::ledger::{Entries, Entry, Place, Role, Unit};
use fullcount_core::wall::WallStatus;
use serde_json::{Map, Value, json};

use crate::account::{Account, Parts};
use crate::fanout::LaneEnd;
use crate::places::Shared;
use crate::places::watch::Testimony;
use crate::refused::MostlyRefused;
use crate::status::PartLine;

/// CPU seconds spent by the whole process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cpu {
    /// In the program.
    pub user: f64,
    /// In the kernel for the program.
    pub system: f64,
    /// In soft interrupts of the whole machine, where the host tells.
    pub softirq: Option<f64>,
}

/// Everything known at the end of a run.
#[derive(Debug)]
pub struct Summary {
    /// Verb.
    pub verb: &'static str,
    /// First to last data.
    pub active: Duration,
    /// All counters.
    pub entries: Entries,
    /// Packets by what became of them.
    pub account: Account,
    /// CPU time of the process, but for the simulator's.
    pub cpu: Cpu,
    /// CPU time of a simulated detector in this process, see [`Summary::set_apart`].
    pub simulator: Option<Cpu>,
    /// True if all packets came from a recording: no counter of this host knows of their losses.
    pub recorded: bool,
    /// Sinks: name, place, events, bytes or the failure.
    pub outputs: Vec<Output>,
    /// Capture of what was received: what was written, or why it failed.
    pub captured: Option<Result<fullcount_io::capture::Report, String>>,
    /// Packets sent to a topic: what the broker confirmed, or why not.
    pub raw: Option<Result<fullcount_out::sink::Report, String>>,
    /// Link time of what was received in bits: by packet size (`receive.wire_bytes`) where the source
    /// counts it, else from the mean payload.
    pub wire_bits: Option<u64>,
    /// Bytes that the sender sent.
    pub sent_bytes: Option<u64>,
    /// Workers or links, where there is more than one.
    pub parts: Vec<PartLine>,
    /// True if the source waits for us: then a failed output ends the run.
    pub lossless: bool,
    /// More packets were refused than allowed.
    pub refused: Option<MostlyRefused>,
    /// Outputs with a spool, and its folder.
    pub spools: Vec<(&'static str, PathBuf)>,
    /// The detector's clock and the host's, where times are the host's.
    pub clock: Option<WallStatus>,
}

/// What became of one sink.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Name.
    pub name: &'static str,
    /// True if its loss is a loss of the run.
    pub required: bool,
    /// Path or address.
    pub place: String,
    /// Events written.
    pub events: u64,
    /// Bytes written, 0 if it does not apply.
    pub bytes: u64,
    /// Rows written, by table; empty for outputs of events.
    pub rows: Vec<(&'static str, u64)>,
    /// Why it failed.
    pub failure: Option<String>,
}

impl From<LaneEnd> for Output {
    fn from(end: LaneEnd) -> Output {
        let (report, failure) = match end.outcome {
            Ok(report) => (report, None),
            Err(e) => (Default::default(), Some(e.to_string())),
        };
        Output {
            name: end.name,
            required: end.required,
            place: report.place,
            events: report.events,
            bytes: report.bytes,
            rows: report.rows,
            failure,
        }
    }
}

impl Summary {
    /// Counts the CPU time of a simulated detector apart, which ran in this process: it is no cost of the service.
    pub fn set_apart(&mut self, simulator: Cpu) {
        self.cpu.user = (self.cpu.user - simulator.user).max(0.0);
        self.cpu.system = (self.cpu.system - simulator.system).max(0.0);
        self.simulator = Some(simulator);
    }

    fn counter(&self, name: &str) -> u64 {
        self.entries.get(name).unwrap_or(0)
    }

    /// Unit of a counter, as a word.
    fn unit(&self, name: &str) -> &'static str {
        self.entries.iter().find(|e| e.info.name == name).map_or("events", |e| e.info.unit.name())
    }

    /// Events made.
    pub fn events(&self) -> u64 {
        self.counter("events.count")
    }

    /// Payload Gb/s, packets in millions/s and events/s over the active time.
    pub fn rates(&self) -> (f64, f64, f64) {
        let seconds = self.active.as_secs_f64();
        if seconds <= 0.0 {
            return (0.0, 0.0, 0.0);
        }
        let bits = self.counter("receive.bytes") as f64 * 8.0;
        let packets = self.account.received as f64;
        (bits / seconds / 1e9, packets / seconds / 1e6, self.events() as f64 / seconds)
    }

    /// Gb/s on the wire over the active time, if it is known.
    pub fn wire_gbps(&self) -> Option<f64> {
        let seconds = self.active.as_secs_f64();
        self.wire_bits.filter(|_| seconds > 0.0).map(|bits| bits as f64 / seconds / 1e9)
    }

    /// True if a packet, or an event of a required sink, was lost, or the balance is not 0.
    pub fn lost(&self) -> bool {
        // Missing packets are in the account; what else is missing (messages of a spool) has no other place.
        let lost = |e: &Entry| match e.info.role {
            Role::Dropped(_) => e.value > 0,
            Role::Missing(_) => e.value > 0 && e.info.unit != Unit::Packets,
            _ => false,
        };
        self.account.anything_lost() || self.account.balance > 0 || self.entries.iter().any(lost)
    }

    /// Exit code: 0 balanced, nothing lost and no more refused than allowed; 1 a required output failed on a source that waits; 3
    /// something was lost (a failed output of a source that does not wait loses only its own events).
    pub fn exit_code(&self) -> u8 {
        let failed = self.outputs.iter().any(|o| o.required && o.failure.is_some());
        match (failed, self.lossless) {
            (true, true) => 1,
            (true, false) => 3,
            (false, _) => {
                if self.lost() || self.refused.is_some() {
                    3
                } else {
                    0
                }
            }
        }
    }

    /// The object.
    pub fn to_json(&self) -> Value {
        let a = &self.account;
        let mut packets = Map::new();
        if let Some(sent) = a.sent {
            packets.insert("sent".into(), json!(sent));
        }
        packets.insert("received".into(), json!(a.received));
        packets.insert("accepted".into(), json!(a.accepted));
        packets.insert("rejected".into(), a.rejected.iter().cloned().collect::<Value>());
        packets.insert("truncated".into(), json!(a.truncated));
        packets.insert("queued".into(), json!(a.queued));
        let lost: Map<String, Value> =
            Place::ALL.iter().zip(a.lost).map(|(p, n)| (p.name().into(), json!(n))).collect();
        packets.insert("lost".into(), lost.into());
        packets.insert("lost_at_least".into(), json!(a.at_least > 0));
        packets.insert("lost_shared".into(), a.shared.iter().map(shared_json).collect());
        packets.insert("lost_witnesses".into(), witnesses_json(a));
        for (name, n) in [
            ("duplicate", a.duplicate),
            ("reordered", a.reordered),
            ("late", a.late),
            ("restarts", a.restarts),
        ] {
            packets.insert(name.into(), json!(n));
        }
        if let Some(Parts { delivered, lost, rejected }) = a.unannounced() {
            let parts = json!({"delivered": delivered, "lost": lost, "rejected": rejected});
            packets.insert("unannounced".into(), parts);
        }
        let mut bytes = Map::new();
        if let Some(sent) = self.sent_bytes {
            bytes.insert("sent".into(), json!(sent));
        }
        bytes.insert("received".into(), json!(self.counter("receive.bytes")));
        let (gbps, mpps, events_per_s) = self.rates();
        let mut rates = Map::new();
        rates.insert("gbps".into(), json!(gbps));
        if let Some(wire) = self.wire_gbps() {
            rates.insert("wire_gbps".into(), json!(wire));
        }
        rates.insert("mpps".into(), json!(mpps));
        rates.insert("events_per_s".into(), json!(events_per_s));
        let mut cpu = Map::new();
        cpu.insert("user".into(), json!(self.cpu.user));
        cpu.insert("system".into(), json!(self.cpu.system));
        if let Some(c) = self.simulator {
            cpu.insert("simulator".into(), json!({"user": c.user, "system": c.system}));
        }
        if let Some(s) = self.cpu.softirq {
            cpu.insert("softirq".into(), json!(s));
        }
        let counters: Map<String, Value> =
            self.entries.iter().map(|e| (e.info.name.to_string(), json!(e.value))).collect();
        let mut outputs = Map::new();
        let mut events_lost = Map::new();
        for o in &self.outputs {
            let mut out = Map::new();
            out.insert("path".into(), json!(o.place));
            if o.rows.is_empty() {
                out.insert("events".into(), json!(o.events));
            } else {
                let rows: Map<String, Value> =
                    o.rows.iter().map(|(table, n)| ((*table).into(), json!(n))).collect();
                out.insert("rows".into(), rows.into());
            }
            if o.bytes > 0 {
                out.insert("bytes".into(), json!(o.bytes));
            }
            if let Some(why) = &o.failure {
                out.insert("failure".into(), json!(why));
            }
            outputs.insert(o.name.into(), out.into());
            if o.required {
                let dropped =
                    self.counter(&format!("queue.{}.dropped", o.name)) + self.dropped_by(o.name);
                events_lost.insert(o.name.into(), json!(dropped));
            }
        }
        if let Some(captured) = &self.captured {
            let out = match captured {
                Ok(r) => json!({"path": r.place, "packets": r.packets, "bytes": r.bytes,
                                "files": r.files}),
                Err(why) => json!({"packets": self.counter("sink.capture.written"),
                                   "bytes": self.counter("sink.capture.bytes"), "failure": why}),
            };
            outputs.insert("capture".into(), out);
        }
        if let Some(raw) = &self.raw {
            let out = match raw {
                Ok(r) => json!({"path": r.place, "packets": r.events, "bytes": r.bytes}),
                Err(why) => json!({"packets": self.counter("sink.raw.written"), "failure": why}),
            };
            outputs.insert("raw".into(), out);
        }
        for (output, folder) in &self.spools {
            let [messages, content, bytes] = self.spooled(output);
            let what = if *output == "raw" { "packets" } else { "events" };
            if let Some(out) = outputs.get_mut(*output) {
                let path = folder.display().to_string();
                out["spool"] =
                    json!({"path": path, "messages": messages, what: content, "bytes": bytes});
            }
        }
        let part = |p: &PartLine| {
            let mut o = json!({"label": p.label, "packets": p.packets, "bytes": p.bytes,
                               "kernel_drops": p.kernel_drops});
            if let Some(lost) = p.lost {
                o["lost"] = json!(lost);
            }
            if let Some(missing) = self.missing(p) {
                o["missing"] = json!(missing);
            }
            o
        };
        let mut messages_lost = Map::new();
        for e in self.entries.iter() {
            let missing = matches!(e.info.role, Role::Missing(_) | Role::Dropped(_));
            if let (Unit::Messages, true, Some(of)) =
                (e.info.unit, missing, e.info.hop.strip_prefix("sink."))
            {
                let sum = messages_lost.get(of).and_then(Value::as_u64).unwrap_or(0);
                messages_lost.insert(of.into(), json!(sum.saturating_add(e.value)));
            }
        }
        let mut object = json!({
            "schema": "fullcount/summary/1",
            "verb": self.verb,
            "seconds": self.active.as_secs_f64(),
            "packets": packets,
            "bytes": bytes,
            "readouts": self.counter("readouts.count"),
            "hits": self.counter("hits.count"),
            "events": self.events(),
            "events_lost": events_lost,
            "messages_lost": messages_lost,
            "rates": rates,
            "per": a.per(),
            "cpu": cpu,
            "counters": counters,
            "outputs": outputs,
            "balance": a.balance,
        });
        if let Some(r) = &self.refused {
            object["refused"] = json!({"packets": r.counted.refused, "percent": r.counted.percent(),
                                       "limit_percent": r.limit, "looks_like": r.looks_like,
                                       "message": r.message});
        }
        if !a.lost_numbered.is_empty() {
            let each = a.lost_numbered.iter().map(|s| (s.unit.key().to_owned(), numbered::json(s)));
            object["lost_numbered"] = each.collect();
        }
        if let Some(clock) = &self.clock {
            object["clock"] = clock::value(clock);
        }
        if !self.parts.is_empty() {
            object["workers"] = self.parts.iter().map(part).collect();
        }
        object
    }

    /// Messages that an output's spool holds, the events or packets in them, and the bytes of its files.
    fn spooled(&self, output: &str) -> [u64; 3] {
        let waiting = if output == "raw" { "queued" } else { "waiting" };
        let spool = |what: &str| self.counter(&format!("{output}.spool.{what}"));
        [spool("messages"), self.counter(&format!("sink.{output}.{waiting}")), spool("bytes")]
    }

    /// Events that an output itself had to drop, behind its queue.
    fn dropped_by(&self, output: &str) -> u64 {
        let hop = format!("sink.{output}");
        let own = |e: &&Entry| {
            e.info.hop == hop
                && e.info.unit == Unit::Events
                && matches!(e.info.role, Role::Dropped(_))
        };
        self.entries.iter().filter(own).map(|e| e.value).sum()
    }

    /// Numbers that did not come over a link of a redundant pair; copies that nobody waited for at the end
    /// are among them. `None`: a worker, which counts its own.
    fn missing(&self, p: &PartLine) -> Option<u64> {
        match p.lost {
            Some(_) => None,
            None => Some(self.account.delivered().saturating_sub(p.packets)),
        }
    }

    /// The ledger as text: hops, losses by place, and every line that asks for something.
    pub fn to_text(&self) -> String {
        let mut t = String::new();
        let a = &self.account;
        let (gbps, mpps, events_per_s) = self.rates();
        let _ = writeln!(t, "ledger");
        let _ = writeln!(
            t,
            "  {:.3} s of data: {gbps:.3} Gbit/s payload{}, {mpps:.3} Mpackets/s, {} events/s",
            self.active.as_secs_f64(),
            self.wire_gbps().map_or(String::new(), |w| format!(" ({w:.3} Gbit/s on the wire)")),
            grouped(events_per_s as u64)
        );
        if let Some(sent) = a.sent {
            let of = a.of_sent();
            let (sent, got, rejected) =
                (grouped(sent), grouped(of.delivered), grouped(of.rejected));
            let lost = lost_text(a, of.lost);
            let _ =
                writeln!(t, "  sent {sent} = delivered {got} + lost {lost} + rejected {rejected}");
        }
        if let Some(Parts { delivered, lost, rejected }) = a.unannounced().filter(Parts::is_any) {
            let (got, lost, rejected) = (grouped(delivered), grouped(lost), grouped(rejected));
            let _ = writeln!(
                t,
                "  beside it, of streams that announced no end: delivered {got} + lost {lost} + rejected {rejected}"
            );
        }
        for p in &self.parts {
            let (n, share) =
                (grouped(p.packets), 100.0 * p.packets as f64 / a.received.max(1) as f64);
            let lost = match (p.lost, self.missing(p)) {
                (Some(lost), _) => format!(", lost {}", grouped(lost)),
                (None, Some(n)) if n > 0 => format!(", {} did not come over it", grouped(n)),
                (None, _) => String::new(),
            };
            let _ = writeln!(t, "  {}: {n} packets ({share:.1} %){lost}", p.label);
        }
        // Hops that nothing went through (the ring with one thread) say nothing.
        for h in self.entries.hops().into_iter().filter(|h| h.arrived > 0) {
            let _ = writeln!(
                t,
                "  {:<16}in {:>16} = accepted {} + rejected {} + dropped {} + queued {} {}",
                h.hop,
                grouped(h.arrived),
                grouped(h.accepted),
                grouped(h.rejected),
                grouped(h.dropped),
                grouped(h.queued),
                h.unit.name(),
            );
        }
        let ratio = match a.per() {
            0.0 => String::new(),
            per => format!(" (packet error ratio {per:.1e}: lost / (first copies + lost))"),
        };
        let lost = if a.at_least > 0 { "lost at least" } else { "lost" };
        let _ = writeln!(t, "  {lost:<28}{:>18} packets{ratio}", grouped(a.lost_total()));
        let faults = self.counter("fault.dropped");
        places_text(a, faults, self.recorded, &mut t);
        for series in &a.lost_numbered {
            numbered::text(a, series, (faults, self.recorded), &mut t);
        }
        for (what, n) in [("duplicate", a.duplicate), ("reordered", a.reordered), ("late", a.late)]
        {
            if n > 0 {
                let _ = writeln!(t, "  {what:<28}{:>18} packets", grouped(n));
            }
        }
        for o in &self.outputs {
            let dropped = self.counter(&format!("queue.{}.dropped", o.name));
            let offered = self.counter(&format!("queue.{}.offered", o.name));
            let percent = 100.0 * dropped as f64 / offered.max(1) as f64;
            let (n, name) = (grouped(dropped), o.name);
            if dropped > 0 && o.required {
                let unit = self.unit(&format!("queue.{name}.dropped"));
                let _ = writeln!(t, "  lost for {name:<19}{n:>18} {unit} ({percent:.1} %)");
            } else if dropped > 0 {
                let _ = writeln!(t, "  not shown by {name:<15}{n:>18} events ({percent:.1} %)");
            }
        }
        // Counters of the host stand beside the place that they name; they may be of other programs.
        let asks = |e: &&Entry| e.value > 0 && !e.info.todo.is_empty() && e.info.hop != "host";
        for e in self.entries.iter().filter(asks) {
            let (name, n) = (&e.info.name, grouped(e.value));
            let _ = writeln!(t, "  ! {name} {n} {}: {}", e.info.unit.name(), e.info.meaning);
            let _ = writeln!(t, "      what to do: {}", e.info.todo);
        }
        let Cpu { user, system, .. } = self.cpu;
        let _ = writeln!(t, "  CPU {user:.2} s user, {system:.2} s system");
        if let Some(Cpu { user, system, .. }) = self.simulator {
            let _ = writeln!(
                t,
                "  CPU of the simulated detector, not in the line above: {user:.2} s user, {system:.2} s system"
            );
        }
        for o in self.outputs.iter().filter(|o| o.failure.is_some() || o.bytes > 0) {
            match &o.failure {
                None => {
                    let b = grouped(o.bytes);
                    let of = |(table, n): &(&str, u64)| format!("{} rows of {table}", grouped(*n));
                    let what = match o.rows.is_empty() {
                        true => format!("{} events", grouped(o.events)),
                        false => o.rows.iter().map(of).collect::<Vec<_>>().join(", "),
                    };
                    let _ = writeln!(t, "  {}: {what}, {b} bytes in {}", o.name, o.place);
                }
                Some(why) => {
                    let _ = writeln!(t, "  {} failed: {why}", o.name);
                }
            }
        }
        match &self.captured {
            None => {}
            Some(Ok(r)) => {
                let (n, b) = (grouped(r.packets), grouped(r.bytes));
                let files =
                    if r.files > 1 { format!(", {} files", r.files) } else { String::new() };
                let _ = writeln!(t, "  capture: {n} packets, {b} bytes in {}{files}", r.place);
            }
            Some(Err(why)) => {
                let _ = writeln!(t, "  capture failed: {why}");
            }
        }
        match &self.raw {
            None => {}
            Some(Ok(r)) => {
                let (n, b) = (grouped(r.events), grouped(r.bytes));
                let _ = writeln!(t, "  raw: {n} packets, {b} bytes to {}", r.place);
            }
            Some(Err(why)) => {
                let _ = writeln!(t, "  raw failed: {why}");
            }
        }
        for (output, folder) in &self.spools {
            let [messages, content, _] = self.spooled(output);
            if messages > 0 {
                let what = if *output == "raw" { "packets" } else { "events" };
                let _ = writeln!(
                    t,
                    "  {output} spool: {} messages with {} {what} wait in {}: the next start sends them",
                    grouped(messages),
                    grouped(content),
                    folder.display()
                );
            }
        }
        if let Some(clock) = self.clock.filter(|clock| clock.anchor.is_some()) {
            let _ = writeln!(t, "  {}", clock::line(&clock));
        }
        if let Some(refused) = &self.refused {
            let _ = writeln!(t, "  ! {}", refused.message);
        }
        let _ = writeln!(t, "  {:<28}{:>18}", "balance", grouped(a.balance));
        t
    }
}

/// All that is lost, or what of it can be known.
fn lost_text(a: &Account, lost: u64) -> String {
    let n = grouped(lost);
    if a.at_least > 0 { format!("at least {n}") } else { n }
}

/// One shared loss.
fn shared_json(s: &Shared) -> Value {
    let places: Vec<&str> = s.places.iter().map(|p| p.name()).collect();
    json!({"places": places, "packets": s.packets})
}

/// The host's counters that moved, by the place that they name.
fn witnesses_json(a: &Account) -> Value {
    let each = |(place, all): &(Place, Vec<Testimony>)| {
        let one = |t: &Testimony| json!({"place": place.name(), "counter": t.name, "times": t.times, "of": t.of});
        all.iter().map(one).collect::<Vec<_>>()
    };
    a.testimony.iter().flat_map(each).collect()
}

/// Where packets were lost: the amount, what named the place, and what to do. `faults`: packets that
/// were dropped on purpose, whose place no counter knows.
fn places_text(a: &Account, faults: u64, recorded: bool, t: &mut String) {
    let mut line = |where_: &str, n: u64, places: &[Place]| {
        let _ = writeln!(t, "    at {where_:<23}{:>18} packets", grouped(n));
        witnesses_text(a, places, t);
    };
    let unknown = Place::ALL.len() - 1;
    for (place, n) in Place::ALL[..unknown].iter().zip(a.lost).filter(|(_, n)| *n > 0) {
        line(place.name(), n, &[*place]);
    }
    for s in &a.shared {
        let names: Vec<&str> = s.places.iter().map(|p| p.name()).collect();
        line(&names.join(" or "), s.packets, &s.places);
    }
    let unexplained = a.unexplained();
    if unexplained > 0 {
        line(Place::Unknown.name(), unexplained, &[]);
        if faults > 0 {
            let _ =
                writeln!(t, "        {} were dropped on purpose (source.fault)", grouped(faults));
        }
        let why = match a.watched {
            _ if faults >= unexplained => return,
            true => UNEXPLAINED,
            false if recorded => RECORDED,
            false => UNREAD,
        };
        let _ = writeln!(t, "        {why}");
    }
}

/// What named these places, and what to do.
fn witnesses_text(a: &Account, places: &[Place], t: &mut String) {
    let named = |p: &Place| a.testimony.iter().find(|(q, _)| q == p).map(|(_, all)| all);
    for told in places.iter().filter_map(named).flatten() {
        let of = told.of.join(", ");
        let of = if of.is_empty() { of } else { format!(" ({of})") };
        let times = grouped(told.times);
        let _ = writeln!(t, "        {} {times} times{of}: {}", told.name, told.todo);
    }
}

/// Where the user switched the probes off.
const UNREAD: &str = "the host's counters were not read (engine.probes = off)";

/// What is known of packets that a recording does not have.
const RECORDED: &str =
    "they are not in the recording: lost before it was made, or while it was made";

/// What is known of packets that no counter of this host names.
const UNEXPLAINED: &str = "no counter of this host moved: they were lost before it, on the link, in a switch \
    (its port counters) or at the sender (ethtool -S IF, tc -s qdisc there)";

/// `12,345,678`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(a: &Account, faults: u64) -> String {
        let mut t = String::new();
        places_text(a, faults, false, &mut t);
        t
    }

    #[test]
    fn the_text_names_place_counter_and_knob_and_splits_what_is_shared() {
        let one = Testimony {
            name: "host.backlog.dropped".into(),
            times: 1234,
            of: vec!["core 1".into(), "core 3".into()],
            todo: "raise it".into(),
        };
        let mut a = Account::default();
        a.watched = true;
        a.lost = [0, 0, 5, 0, 0, 0, 0, 10];
        a.shared = vec![Shared { places: vec![Place::Backlog, Place::Socket], packets: 7 }];
        a.testimony = vec![(Place::Backlog, vec![one])];
        let text = told(&a, 0);
        let backlog = "host.backlog.dropped 1,234 times (core 1, core 3): raise it";
        assert_eq!(text.matches(backlog).count(), 2, "alone and shared: {text}");
        for words in ["at backlog ", "at backlog or socket ", "at unknown ", "lost before it"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.contains("  3 packets"), "10 unknown ones without 7 shared ones: {text}");
        let text = told(&a, 3);
        assert!(text.contains("3 were dropped on purpose") && !text.contains("lost before it"));
        a.watched = false;
        assert!(told(&a, 0).contains("engine.probes = off"));
        // Who did not switch anything off is not told so.
        let mut text = String::new();
        places_text(&a, 0, true, &mut text);
        assert!(text.contains("not in the recording") && !text.contains("probes"), "{text}");
        assert_eq!(told(&Account::default(), 0), "");
    }

    fullcount_core::counters! {
        /// Of an output with a spool.
        enum Spooled {
            Damaged "kafka.spool.damaged" Messages Sum "sink.kafka" Missing(Queue) "m" "check the disk";
            Lost "sink.kafka.refused" Events Sum "sink.kafka" Dropped(Queue) "e" "";
        }
    }

    #[test]
    fn messages_that_a_spool_has_lost_are_a_loss_of_the_run() {
        let sheet = fullcount_core::ledger::Sheet::new(Spooled::catalogue());
        let ledger = fullcount_core::ledger::Ledger::default();
        ledger.register(sheet.clone());
        let summary = || Summary {
            verb: "run",
            active: Duration::from_secs(1),
            entries: ledger.read(),
            account: Account::default(),
            cpu: Cpu::default(),
            outputs: Vec::new(),
            captured: None,
            raw: None,
            wire_bits: None,
            sent_bytes: None,
            parts: Vec::new(),
            lossless: false,
            refused: None,
            spools: Vec::new(),
            clock: None,
            recorded: false,
            simulator: None,
        };
        assert_eq!(
            (summary().exit_code(), summary().to_json()["messages_lost"]["kafka"].clone()),
            (0, json!(0))
        );
        sheet.add(Spooled::Damaged as usize, 10);
        assert_eq!(
            (summary().exit_code(), summary().to_json()["messages_lost"]["kafka"].clone()),
            (3, json!(10))
        );
        assert!(summary().to_text().contains("! kafka.spool.damaged 10 messages"));
    }

    #[test]
    fn a_lower_bound_is_called_one() {
        let mut a = Account::default();
        a.lost[7] = 2496;
        assert_eq!(lost_text(&a, 2496), "2,496");
        a.at_least = 1;
        assert_eq!(lost_text(&a, 2496), "at least 2,496");
    }

    #[test]
    fn large_numbers_are_grouped() {
        let shown: Vec<String> = [0, 999, 1000, 1234567].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
