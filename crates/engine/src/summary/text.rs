//! The ledger as text: hops, losses by place, and every line that asks for something.
//!
//! Source: `docs/losses.md`.

use std::fmt::Write;

use fullcount_core::ledger::{Entry, Place};
use fullcount_core::status::ModuleFacts;

use super::{Cpu, Summary, clock, grouped, numbered};
use crate::account::{Account, PacketParts};

/// Modules that are named at most.
const MOST_NAMED: usize = 8;

impl Summary {
    /// The ledger as text: hops, losses by place, and every line that asks for something.
    pub fn to_text(&self) -> String {
        let mut t = String::new();
        let (gbps, mpps, events_per_s) = self.rates();
        let _ = writeln!(t, "ledger");
        let _ = writeln!(
            t,
            "  {:.3} s of data: {gbps:.3} Gbit/s payload{}, {mpps:.3} Mpackets/s, {} events/s",
            self.active.as_secs_f64(),
            self.wire_gbps().map_or(String::new(), |w| format!(" ({w:.3} Gbit/s on the wire)")),
            grouped(events_per_s as u64)
        );
        self.sent_text(&mut t);
        self.silent_text(&mut t);
        self.hops_text(&mut t);
        self.lost_lines(&mut t);
        self.queues_text(&mut t);
        self.asking_text(&mut t);
        self.outputs_text(&mut t);
        self.end_text(&mut t);
        let _ = writeln!(t, "  {:<28}{:>18}", "balance", grouped(self.account.balance));
        t
    }

    /// What was sent and what became of it; workers and links.
    fn sent_text(&self, t: &mut String) {
        let a = &self.account;
        if let Some(sent) = a.sent {
            let of = a.of_sent();
            let (sent, got, rejected) =
                (grouped(sent), grouped(of.delivered), grouped(of.rejected));
            let lost = lost_text(a, of.lost);
            let _ =
                writeln!(t, "  sent {sent} = delivered {got} + lost {lost} + rejected {rejected}");
        }
        if let Some(PacketParts { delivered, lost, rejected }) =
            a.unannounced().filter(PacketParts::is_any)
        {
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
    }

    /// Modules that stopped before the end.
    fn silent_text(&self, t: &mut String) {
        let silent: Vec<&ModuleFacts> = self.modules.0.iter().filter(|m| m.silent).collect();
        for m in silent.iter().take(MOST_NAMED) {
            let seconds = m.age_ms / 1000;
            let _ =
                writeln!(t, "  silent                      {:>16} s {}", grouped(seconds), m.name);
        }
        if silent.len() > MOST_NAMED {
            let _ =
                writeln!(t, "  silent                      and {} more", silent.len() - MOST_NAMED);
        }
    }

    /// Each hop's balance.
    fn hops_text(&self, t: &mut String) {
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
    }

    /// What was lost, and where.
    fn lost_lines(&self, t: &mut String) {
        let a = &self.account;
        let ratio = match a.per() {
            0.0 => String::new(),
            per => format!(" (packet error ratio {per:.1e}: lost / (first copies + lost))"),
        };
        let lost = if a.at_least > 0 { "lost at least" } else { "lost" };
        let _ = writeln!(t, "  {lost:<28}{:>18} packets{ratio}", grouped(a.lost_total()));
        let faults = self.counter("fault.dropped");
        places_text(a, faults, self.recorded, t);
        for series in &a.lost_numbered {
            numbered::text(a, series, (faults, self.recorded), t);
        }
        for (what, n) in [("duplicate", a.duplicate), ("reordered", a.reordered), ("late", a.late)]
        {
            if n > 0 {
                let _ = writeln!(t, "  {what:<28}{:>18} packets", grouped(n));
            }
        }
    }

    /// What full queues cost.
    fn queues_text(&self, t: &mut String) {
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
    }

    /// Counters that ask for something, and the processor's time.
    fn asking_text(&self, t: &mut String) {
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
    }

    /// What was written where.
    fn outputs_text(&self, t: &mut String) {
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
        for (name, taken) in &self.packets {
            match taken {
                Ok(r) => {
                    let (n, b) = (grouped(r.packets), grouped(r.bytes));
                    let towards = if r.files.is_some() { "in" } else { "to" };
                    let files = r.files.filter(|&files| files > 1);
                    let files = files.map_or(String::new(), |files| format!(", {files} files"));
                    let _ = writeln!(
                        t,
                        "  {name}: {n} packets, {b} bytes {towards} {}{files}",
                        r.place
                    );
                }
                Err(why) => {
                    let _ = writeln!(t, "  {name} failed: {why}");
                }
            }
        }
    }

    /// What waits in spools, the clock, and refused packets.
    fn end_text(&self, t: &mut String) {
        for (output, folder) in &self.spools {
            let [messages, content, _] = self.spooled(output);
            if messages > 0 {
                let what = if self.takes_packets(output) { "packets" } else { "events" };
                // Records of merged events are a message each: there is nothing else to count.
                let with = match content {
                    0 => String::new(),
                    content => format!(" with {} {what}", grouped(content)),
                };
                let _ = writeln!(
                    t,
                    "  {output} spool: {} messages{with} wait in {}: the next start sends them",
                    grouped(messages),
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
    }
}

/// All that is lost, or what of it can be known.
pub(super) fn lost_text(a: &Account, lost: u64) -> String {
    let n = grouped(lost);
    if a.at_least > 0 { format!("at least {n}") } else { n }
}

/// Where packets were lost: the amount, what named the place, and what to do. `faults`: packets that
/// were dropped on purpose, whose place no counter knows.
pub(super) fn places_text(a: &Account, faults: u64, recorded: bool, t: &mut String) {
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
pub(super) fn witnesses_text(a: &Account, places: &[Place], t: &mut String) {
    let named = |p: &Place| a.testimony.iter().find(|(q, _)| q == p).map(|(_, all)| all);
    for told in places.iter().filter_map(named).flatten() {
        let of = told.of.join(", ");
        let of = if of.is_empty() { of } else { format!(" ({of})") };
        let times = grouped(told.times);
        let _ = writeln!(t, "        {} {times} times{of}: {}", told.name, told.todo);
    }
}

/// Where the user switched the probes off.
pub(super) const UNREAD: &str = "the host's counters were not read (engine.probes = off)";

/// What is known of packets that a recording does not have.
pub(super) const RECORDED: &str =
    "they are not in the recording: lost before it was made, or while it was made";

/// What is known of packets that no counter of this host names.
pub(super) const UNEXPLAINED: &str = "no counter of this host moved: they were lost before it, on the link, in a switch \
    (its port counters) or at the sender (ethtool -S IF, tc -s qdisc there)";
