//! What `send` says: a line of progress, and the sum at the end.

use std::time::Duration;

use fullcount_core::destination::{DestinationPart, HeldBack};
use fullcount_engine::summary::grouped;
use fullcount_lab::send::{Reached, SendProgress, Sent};
use serde_json::json;

use crate::{note, say};

/// A line on standard error: every second on a terminal, every ten seconds elsewhere.
pub fn watch(progress: &SendProgress, finished: impl Fn() -> bool) {
    use std::io::IsTerminal;
    use std::sync::atomic::Ordering::Relaxed;
    let plain = fullcount_log::is_quiet() || fullcount_log::terminal::is_json();
    let terminal = std::io::stderr().is_terminal() && !plain;
    let (mut ticks, mut last) = (0u64, (0, 0));
    while !finished() {
        std::thread::sleep(Duration::from_millis(20));
        ticks += 1;
        let every = if terminal { 50 } else { 500 };
        if ticks % every != 0 {
            continue;
        }
        let seconds = every as f64 * 0.02;
        let (p, b) = (progress.packets.load(Relaxed), progress.bytes.load(Relaxed));
        let gbps = (b - last.1) as f64 * 8.0 / seconds / 1e9;
        let pps = ((p - last.0) as f64 / seconds) as u64;
        last = (p, b);
        let text =
            format!("sent {} packets  {gbps:.3} Gbit/s  {} packets/s", grouped(p), grouped(pps));
        match terminal {
            true => crate::say::write_error(format_args!("\r\x1b[2K{text}")),
            false => crate::fact!("{text}"),
        }
    }
    if terminal && ticks >= 50 {
        crate::say::write_error(format_args!("\r\x1b[2K"));
    }
}

/// A sender that is more than 1 % slower than it was asked to be says so.
pub fn shortfall(sent: &Sent) -> Option<String> {
    if let Some(behind) = sent.behind {
        let share = behind.as_secs_f64() / sent.active.as_secs_f64().max(1e-9);
        return (behind >= Duration::from_millis(100) && share > 0.01).then(|| {
            format!(
                "the packets were {:.1} s behind the detector's clock at the end ({:.1} % of the time): this host's \
                 sender is too slow for the rate",
                behind.as_secs_f64(),
                100.0 * share
            )
        });
    }
    let asked = sent.asked_packets_per_s?;
    let reached = sent.packets as f64 / sent.active.as_secs_f64().max(1e-9);
    // A second or a thousand packets decide nothing.
    let enough = sent.active.as_secs_f64() >= 0.9 && sent.packets >= 1000;
    (enough && reached < 0.99 * asked).then(|| {
        let percent = 100.0 * reached / asked;
        format!(
            "asked for {} packets/s, reached {} ({percent:.1} %): this host's sender is too slow or was \
             interrupted",
            grouped(asked as u64),
            grouped(reached as u64)
        )
    })
}

/// What each of several destinations got, for people; empty for one.
fn by_destination(sent: &Sent) -> String {
    if sent.reached.len() < 2 {
        return String::new();
    }
    let line = |r: &Reached| {
        let (there, failed) = (grouped(sent.packets.saturating_sub(r.failed)), grouped(r.failed));
        let mut line = format!("  {}: {there} packets", r.to);
        if let Some(why) = &r.failure {
            line += &format!(", {failed} not sent: {why}");
        }
        line + &held(r) + "\n"
    };
    sent.reached.iter().map(line).collect()
}

/// How a destination held its source back, for people; empty where it did not.
fn held(r: &Reached) -> String {
    match r.held.filter(|held| held.times > 0) {
        Some(held) => {
            let (times, seconds) = (grouped(held.times), held.time_ns as f64 / 1e9);
            let [median, p99, most] = seen_after_us(&held);
            let seen = match held.seen {
                0 => String::new(),
                seen => format!(
                    ", seen {} times after {median:.0} µs (median), {p99:.0} µs (p99), {most:.0} µs (most)",
                    grouped(seen)
                ),
            };
            format!("; told to hold {times} times, {seconds:.3} s in all{seen}")
        }
        None => String::new(),
    }
}

/// How soon the source saw that it had to hold, µs: median, 99 of a hundred, longest.
fn seen_after_us(held: &HeldBack) -> [f64; 3] {
    [held.seen_after_median_ns, held.seen_after_p99_ns, held.seen_after_most_ns]
        .map(|ns| ns as f64 / 1e3)
}

/// How a destination held its source back, as the summary has it.
fn held_json(held: &HeldBack) -> serde_json::Value {
    let seconds = held.time_ns as f64 / 1e9;
    let mut one = json!({"times": held.times, "seconds": seconds, "seen": held.seen});
    if held.seen > 0 {
        let [median, p99, most] = seen_after_us(held);
        one["seen_after_us"] = json!({"median": median, "p99": p99, "most": most});
    }
    one
}

/// One destination as the summary has it.
fn destination(sent: &Sent, r: &Reached) -> serde_json::Value {
    let mut counters = json!({"send.datagrams": r.datagrams, "send.calls": r.calls});
    for (name, value) in &r.counters {
        counters[name] = json!(value);
    }
    let mut one = json!({
        "to": r.to,
        "packets": {"sent": sent.packets.saturating_sub(r.failed), "failed": r.failed},
        "counters": counters,
    });
    if let Some(held) = r.held {
        one["held"] = held_json(&held);
    }
    if let Some(why) = &r.failure {
        one["failure"] = json!(why);
    }
    let streams: Vec<_> = r.parts.iter().map(part).collect();
    if !streams.is_empty() {
        one["streams"] = json!(streams);
    }
    one
}

/// One connection of a destination, with what was measured of it.
fn part(p: &DestinationPart) -> serde_json::Value {
    let mut one = json!({"name": p.name});
    for (name, value) in &p.values {
        one[*name] = json!(value);
    }
    if let Some(why) = &p.ended {
        one["ended"] = json!(why);
    }
    one
}

/// How a single destination held its source back and what it did not get, for people.
fn not_sent(sent: &Sent) -> String {
    match sent.reached.as_slice() {
        [one] if one.failed > 0 => {
            let why = one.failure.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{}; {} of them did not arrive{why}", held(one), grouped(one.failed))
        }
        [one] => held(one),
        _ => String::new(),
    }
}

/// CPU seconds of this process; no keys where the system does not say.
fn cpu() -> serde_json::Value {
    let seconds = |ns: u64| ns as f64 / 1e9;
    match fullcount_io::sys::process_cpu_time() {
        Ok(t) => json!({"user": seconds(t.user_ns), "system": seconds(t.system_ns)}),
        Err(_) => json!({}),
    }
}

pub fn report(sent: &Sent, json: bool) -> u8 {
    let seconds = sent.active.as_secs_f64().max(1e-9);
    let gbps = sent.bytes as f64 * 8.0 / seconds / 1e9;
    let wire_gbps = sent.wire_bits as f64 / seconds / 1e9;
    let mpps = sent.packets as f64 / seconds / 1e6;
    let to = match sent.reached.len() {
        0 | 1 => String::new(),
        n => format!(" to each of {n} destinations"),
    };
    let mut text = format!(
        "sent {} packets, {} bytes{to} in {seconds:.3} s: {gbps:.3} Gbit/s payload, {wire_gbps:.3} Gbit/s \
         on the wire, {mpps:.3} Mpackets/s{}",
        grouped(sent.packets),
        grouped(sent.bytes),
        not_sent(sent),
    );
    let each = by_destination(sent);
    if !each.is_empty() {
        text = format!("{text}\n{}", each.trim_end());
    }
    for fact in sent.facts.iter().chain(&shortfall(sent)) {
        note!("{fact}");
    }
    if json {
        note!("{text}");
        say!(
            "{}",
            json!({
                "schema": "fullcount/summary/1",
                "verb": "send",
                "seconds": seconds,
                "packets": {"sent": sent.packets},
                "bytes": {"sent": sent.bytes},
                "events": sent.events,
                "rates": {
                    "gbps": gbps, "wire_gbps": wire_gbps, "mpps": mpps,
                    "events_per_s": sent.events as f64 / seconds,
                },
                "cpu": cpu(),
                "counters": {"send.datagrams": sent.datagrams, "send.calls": sent.calls},
                "destinations": sent.reached.iter().map(|r| destination(sent, r)).collect::<Vec<_>>(),
            })
        );
    } else {
        say!("{text}");
        if sent.events > 0 {
            say!("{} events", grouped(sent.events));
        }
    } // What a destination did not get is lost for it, whatever the others got.
    if sent.reached.iter().any(|r| r.failure.is_some() || r.failed > 0) { 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_source_is_told_with_how_soon_it_saw_it() {
        let all = HeldBack {
            times: 1200,
            time_ns: 1_500_000_000,
            seen: 1100,
            seen_after_median_ns: 60_400,
            seen_after_p99_ns: 300_000,
            seen_after_most_ns: 1_000_000,
        };
        let reached = |held| Reached { held: Some(held), ..Reached::default() };
        let said = held(&reached(all));
        let parts =
            ["1,200 times", "1.500 s", "1,100 times after 60 µs (median), 300 µs", "1000 µs"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        let value = held_json(&all);
        assert_eq!(value["seen_after_us"], json!({"median": 60.4, "p99": 300.0, "most": 1000.0}));
        assert_eq!((&value["times"], &value["seen"]), (&json!(1200), &json!(1100)));
        let unseen = HeldBack { times: 2, ..HeldBack::default() };
        assert!(!held(&reached(unseen)).contains("seen"));
        assert_eq!(held_json(&unseen), json!({"times": 2, "seconds": 0.0, "seen": 0}));
        assert_eq!(held(&reached(HeldBack::default())), "");
    }
}
