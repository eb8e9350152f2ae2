//! Socket buffers: how large they may be and how long they hold the stream.
//!
//! Sources: `socket(7)`, `udp(7)`, kernel `net/core/sock.c`.

use fullcount_core::quantity::{bits_text, exact_size_text, time_text};

use super::facts::HostFacts;
use super::line::{AdviceLine, AdviceStatus};
use super::need::{Need, count_text};
use super::place::Change;
use super::wish::Wish;

/// Largest value that has a meaning: the kernel doubles it and keeps it in a signed 32-bit number.
const MOST: u64 = (1 << 30) - 1;
/// Least that is asked for where something is short, so that a slow stream is not tuned to a few packets:
/// 4 MiB.
const LEAST: u64 = 4 << 20;
/// Time that a send buffer should bridge, two ticks of a clock of 1000 Hz: the sender only has to keep the
/// card busy while it is off its core.
const SEND_HOLD: f64 = 2e-3;
/// A page of memory.
const PAGE: u64 = 4096;

/// Receive buffer that Fullcount asks for unless it is told otherwise.
const OWN: u64 = 64 << 20;

/// Lines about socket buffers.
pub fn lines(wish: &Wish, facts: &HostFacts, need: &Need) -> Vec<AdviceLine> {
    let hold = wish.hold.as_secs_f64();
    let mut lines = vec![];
    if wish.role.receives() {
        let wanted = need.buffer_bytes(hold).clamp(LEAST, MOST);
        let enough = |now: u64| now >= wanted || need.buffer_seconds(now) >= hold;
        lines.push(receive(facts, need, wanted, facts.tuning.rmem_max.is_some_and(enough)));
        lines.push(default(facts, need, wanted, facts.tuning.rmem_default.is_some_and(enough)));
        lines.push(all_sockets(facts, wanted));
        lines.extend(memory(facts, wanted));
        lines.extend(port(wish, facts));
    }
    if wish.role.sends() {
        lines.push(send(facts, need));
    }
    lines
}

/// `212992 B hold 0.17 ms of 10 Gbit/s, 64 MiB hold 54 ms`.
fn compare(need: &Need, now: u64, wanted: u64) -> String {
    let holds = |bytes| time_text(need.buffer_seconds(bytes));
    let (a, b) = (exact_size_text(now), exact_size_text(wanted));
    format!("{a} hold {} of {}, {b} hold {}", holds(now), bits_text(need.bits), holds(wanted))
}

/// Says what small packets take, where that decides.
fn small(need: &Need) -> String {
    // The kernel grants twice what is asked for: below, the payload decides.
    match need.taken() > 2 * need.size as u64 {
        true => format!("; each packet of {} B takes {} B of it", need.size, need.taken()),
        false => String::new(),
    }
}

/// Says what Fullcount has to be told, where its own default is less.
fn ask(wanted: u64) -> String {
    match wanted > OWN {
        true => format!("; give Fullcount --receive-buffer {}MiB", wanted >> 20),
        false => String::new(),
    }
}

fn unprivileged(facts: &HostFacts) -> &'static str {
    match facts.bounds.net_admin {
        Some(true) => "; this process may exceed it (CAP_NET_ADMIN), others may not",
        _ => "",
    }
}

fn receive(facts: &HostFacts, need: &Need, wanted: u64, enough: bool) -> AdviceLine {
    let key = "net.core.rmem_max";
    let errors = facts.udp.map_or(0, |u| u.receive_buffer_errors);
    let lost = match errors {
        0 => String::new(),
        n => format!("; {} drops at full buffers since the start", count_text(n as f64)),
    };
    let Some(now) = facts.tuning.rmem_max else {
        return AdviceLine::unknown(key, "the host does not show the largest receive buffer");
    };
    if enough {
        let holds = time_text(need.buffer_seconds(now));
        let (bytes, rate) = (exact_size_text(now), bits_text(need.bits));
        let why = format!("{bytes} hold {holds} of {rate}{}{lost}", ask(wanted));
        return AdviceLine::new(key, exact_size_text(now), why);
    }
    let why = format!(
        "{}{}{}{}{lost}",
        compare(need, now, wanted),
        small(need),
        ask(wanted),
        unprivileged(facts)
    );
    let line = AdviceLine::new(key, exact_size_text(now), why).wanted(exact_size_text(wanted));
    line.status(AdviceStatus::Short).change(Change::sysctl(key, wanted))
}

fn default(facts: &HostFacts, need: &Need, wanted: u64, enough: bool) -> AdviceLine {
    let key = "net.core.rmem_default";
    let Some(now) = facts.tuning.rmem_default else {
        return AdviceLine::unknown(
            key,
            "the host does not show the receive buffer of programs that do not ask",
        );
    };
    let why = "only programs that do not ask for a buffer get this one; Fullcount asks";
    match enough {
        true => AdviceLine::new(key, exact_size_text(now), why),
        false => {
            let why = format!("{}; {why}", compare(need, now, wanted));
            let line =
                AdviceLine::new(key, exact_size_text(now), why).wanted(exact_size_text(wanted));
            line.status(AdviceStatus::Hint).change(Change::sysctl(key, wanted))
        }
    }
}

fn all_sockets(facts: &HostFacts, wanted: u64) -> AdviceLine {
    let key = "net.ipv4.udp_mem";
    let Some([low, pressure, most]) = facts.tuning.udp_mem else {
        let why =
            "this network namespace does not show it, and it holds for the whole host: look there";
        return AdviceLine::unknown(key, why);
    };
    // A full socket takes twice what was asked for, and half as much again is for all others.
    let pages = (3 * wanted).div_ceil(PAGE);
    let says = format!("{} for all UDP sockets", exact_size_text(most.saturating_mul(PAGE)));
    let errors = facts.udp.map_or(0, |u| u.memory_errors);
    let lost = match errors {
        0 => String::new(),
        n => format!("; {} drops at this limit since the start", count_text(n as f64)),
    };
    let full = exact_size_text(2 * wanted);
    let why = format!("one full buffer of {} takes {full}{lost}", exact_size_text(wanted));
    if most >= pages {
        return AdviceLine::new(key, says, why);
    }
    let value = format!("{} {} {pages}", low.max(pages / 2), pressure.max(pages / 4 * 3));
    let line = AdviceLine::new(key, says, why).wanted(exact_size_text(pages * PAGE));
    line.status(AdviceStatus::Short).change(Change::sysctl(key, value))
}

/// A buffer that the host's memory does not hold.
fn memory(facts: &HostFacts, wanted: u64) -> Option<AdviceLine> {
    let memory = facts.memory?;
    let full = 2 * wanted;
    let says = format!("{:.1} GiB", memory as f64 / (1u64 << 30) as f64);
    let why = format!("a full receive buffer takes {}", exact_size_text(full));
    match full > memory / 4 {
        true => {
            let why = format!("{why}, over a quarter of the memory: ask for less time with --hold");
            Some(AdviceLine::new("memory", says, why).status(AdviceStatus::Hint))
        }
        false => Some(AdviceLine::new("memory", says, why)),
    }
}

fn port(wish: &Wish, facts: &HostFacts) -> Option<AdviceLine> {
    let (port, state) = (wish.port?, facts.port?);
    let key = "socket";
    if state.sockets == 0 {
        return Some(AdviceLine::new(
            key,
            "none",
            format!("nobody listens on UDP port {port} now"),
        ));
    }
    let says = format!("{} on port {port}", state.sockets);
    let why = format!(
        "{} wait, {} drops at a full buffer since it was opened",
        exact_size_text(state.queued_bytes),
        count_text(state.drops as f64)
    );
    let line = AdviceLine::new(key, says, why);
    Some(if state.drops > 0 { line.status(AdviceStatus::Hint) } else { line })
}

fn send(facts: &HostFacts, need: &Need) -> AdviceLine {
    let key = "net.core.wmem_max";
    let wanted = need.buffer_bytes(SEND_HOLD).clamp(LEAST, MOST);
    let Some(now) = facts.tuning.wmem_max else {
        return AdviceLine::unknown(key, "the host does not show the largest send buffer");
    };
    if now >= wanted || need.buffer_seconds(now) >= SEND_HOLD {
        let holds = time_text(need.buffer_seconds(now));
        let why = format!("{} keep the card busy for {holds}", exact_size_text(now));
        return AdviceLine::new(key, exact_size_text(now), why);
    }
    let why = format!(
        "{}{}; a sender waits while its buffer is full, and the card while it is empty{}",
        compare(need, now, wanted),
        small(need),
        unprivileged(facts)
    );
    let line = AdviceLine::new(key, exact_size_text(now), why).wanted(exact_size_text(wanted));
    line.status(AdviceStatus::Short).change(Change::sysctl(key, wanted))
}
