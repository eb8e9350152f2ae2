//! Between card and socket: the queue of each core, the rounds that empty it, and what was dropped there.
//!
//! Sources: kernel `Documentation/admin-guide/sysctl/net`, `net/core/dev.c`.

use fullcount_core::quantity::time_text;
use fullcount_io::host::interface::InterfaceKind;

use super::facts::HostFacts;
use super::line::{AdviceLine, AdviceStatus};
use super::need::{Need, count_text};
use super::place::Change;
use super::wish::Wish;

/// Time that the queue should hold: one tick of the slowest usual clock (HZ = 250) for which the round
/// that empties it may have to wait.
const BACKLOG_HOLD: f64 = 4e-3;
/// The value that the paper "Reliable UDP at 10 Gb/s" tuned to; no less is asked for.
const BACKLOG_LEAST: u64 = 5000;
/// More only delays: a quarter of a million packets of 2 KiB are half a gigabyte.
const BACKLOG_MOST: u64 = 250_000;
/// Rate above which the usual 300 packets a round (twice 64 to a ring and a few more) come round more
/// than 3000 times a second.
const BUDGET_RATE: f64 = 1e6;
const BUDGET: u64 = 600;

/// Lines about the kernel's own queues; only a receiver meets them.
pub fn lines(wish: &Wish, facts: &HostFacts, need: &Need) -> Vec<AdviceLine> {
    match wish.role.receives() {
        true => vec![backlog(facts, need), budget(facts, need)],
        false => vec![],
    }
}

const ELSEWHERE: &str =
    "this network namespace does not show it, and it holds for the whole host: look there";

fn backlog(facts: &HostFacts, need: &Need) -> AdviceLine {
    let key = "net.core.netdev_max_backlog";
    let Some(now) = facts.tuning.netdev_max_backlog else {
        return AdviceLine::unknown(key, ELSEWHERE);
    };
    let enough = need.frames_in(BACKLOG_HOLD).next_multiple_of(1000);
    let wanted = enough.clamp(BACKLOG_LEAST, BACKLOG_MOST);
    let holds = |entries| time_text(need.queue_seconds(entries));
    let card = facts.card.as_ref();
    let spread = card.is_some_and(|c| c.rps.iter().any(|cores| !cores.is_empty()));
    let passed_by = card.is_some_and(|c| c.kind == InterfaceKind::Device) && !spread;
    let dropped = facts.backlog.map_or(0, |b| b.dropped);
    let mut lost = String::new();
    if dropped > 0 {
        lost =
            format!("; {} packets were dropped here since the start", count_text(dropped as f64));
    }
    let says = format!("{now} packets");
    if now >= wanted || need.queue_seconds(now) >= BACKLOG_HOLD {
        let why = format!("{now} packets hold {}{lost}", holds(now));
        return AdviceLine::new(key, says, why);
    }
    let mut why =
        format!("{now} packets hold {}, {wanted} hold {}{lost}", holds(now), holds(wanted));
    let status = match passed_by {
        true => {
            why.push_str("; a card's packets pass this queue by unless RPS is on");
            AdviceStatus::Hint
        }
        false => AdviceStatus::Short,
    };
    let line = AdviceLine::new(key, says, why).wanted(format!("{wanted} packets"));
    line.status(status).change(Change::sysctl(key, wanted))
}

fn budget(facts: &HostFacts, need: &Need) -> AdviceLine {
    let key = "net.core.netdev_budget";
    let Some(now) = facts.tuning.netdev_budget else { return AdviceLine::unknown(key, ELSEWHERE) };
    let time = match facts.tuning.netdev_budget_usecs {
        Some(us) => format!(" or {}", time_text(us as f64 / 1e6)),
        None => String::new(),
    };
    let squeezed = facts.backlog.map_or(0, |b| b.squeezed);
    let why = format!(
        "a round of network work ends after {now} packets{time}, {} rounds/s; {} rounds ended with work left",
        count_text((need.frames() / now.max(1) as f64).max(1.0)),
        count_text(squeezed as f64)
    );
    let line = AdviceLine::new(key, format!("{now} packets"), why);
    match need.frames() > BUDGET_RATE && now < BUDGET {
        true => {
            let line = line.wanted(format!("{BUDGET} packets")).status(AdviceStatus::Hint);
            line.change(Change::sysctl(key, BUDGET))
        }
        false => line,
    }
}
