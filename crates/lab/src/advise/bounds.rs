//! What stands between the stream and the process: filters, and the limits of a container.
//!
//! Sources: kernel `Documentation/admin-guide/cgroup-v2`, `.../networking/nf_conntrack-sysctl`,
//! RFC 3704 (check of the way back).

use fullcount_core::quantity::{exact_size_text, time_text};

use super::facts::HostFacts;
use super::line::{AdviceLine, AdviceStatus};
use super::need::{Need, count_text};
use super::wish::Wish;

/// Memory that a receiver takes beside its socket's buffer.
const PROGRAM: u64 = 256 << 20;
/// Share of a full connection table from which it is called full.
const NEARLY: f64 = 0.9;

/// Lines about filters and limits.
pub fn lines(wish: &Wish, facts: &HostFacts, need: &Need) -> Vec<AdviceLine> {
    let mut lines = vec![];
    if wish.role.receives() {
        lines.push(tracking(wish, facts, need));
        lines.extend(way_back(facts));
        lines.extend(tables(facts));
    }
    lines.push(quota(facts));
    lines.extend(cores(wish, facts));
    lines.extend(memory(wish, facts, need));
    lines.extend(locked(facts));
    lines
}

fn tracking(wish: &Wish, facts: &HostFacts, need: &Need) -> AdviceLine {
    let key = "conntrack";
    let f = &facts.firewall;
    let (Some(now), Some(most)) = (f.tracked, f.tracked_max) else {
        return AdviceLine::new(key, "not loaded", "no connection tracking looks at the packets");
    };
    let says = format!("{now} of {most} connections");
    if now == 0 {
        return AdviceLine::new(key, says, "loaded, but no rule makes it look at packets now");
    }
    let port = wish.port.map_or("PORT".to_owned(), |p| p.to_string());
    let notrack = format!("iptables -t raw -I PREROUTING -p udp --dport {port} -j NOTRACK");
    let dropped = f.tracked_drops.unwrap_or(0);
    let full = most > 0 && now as f64 >= NEARLY * most as f64;
    let line = AdviceLine::new(key, says, "").command(notrack);
    if full || dropped > 0 {
        let why = format!(
            "the table is or was full ({} packets dropped): a new sender's packets are thrown away",
            count_text(dropped as f64)
        );
        let line = AdviceLine { why, ..line }.wanted("the stream not tracked");
        return line.status(if full { AdviceStatus::Short } else { AdviceStatus::Hint });
    }
    let why = format!(
        "each of {} packets/s is looked up in the table; exempt the stream",
        count_text(need.pps)
    );
    AdviceLine { why, ..line }.wanted("the stream not tracked").status(AdviceStatus::Hint)
}

fn way_back(facts: &HostFacts) -> Option<AdviceLine> {
    let mode = facts.firewall.rp_filter?;
    let key = "rp_filter";
    let (says, why) = match mode {
        1 => (
            "1 (strict)",
            "drops, without a trace in UDP's counters, packets whose sender would be answered through \
             another interface: multicast sources and second links often are",
        ),
        2 => ("2 (loose)", "drops only packets from senders to which there is no route at all"),
        _ => ("0 (off)", "no packet is dropped for the way back to its sender"),
    };
    let line = AdviceLine::new(key, says, why);
    let name = facts.card.as_ref().map(|c| c.name.replace('.', "/"));
    Some(match (mode, name) {
        (1, Some(name)) => {
            let command = format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2");
            line.wanted("2 (loose)").status(AdviceStatus::Hint).command(command)
        }
        _ => line,
    })
}

fn tables(facts: &HostFacts) -> Option<AdviceLine> {
    let tables = &facts.firewall.tables;
    if tables.is_empty() {
        return None;
    }
    let why = "each packet walks these rules; let the stream match the first one, or none";
    Some(AdviceLine::new("firewall", tables.join(", "), why).status(AdviceStatus::Hint))
}

fn quota(facts: &HostFacts) -> AdviceLine {
    let key = "cpu.quota";
    let b = &facts.bounds;
    let Some(cores) = b.cpu_quota else {
        let says = if b.container { "none (container)" } else { "none" };
        return AdviceLine::new(key, says, "no control group limits processor time");
    };
    let period = b.cpu_period_us.unwrap_or(100_000) as f64 / 1e6;
    let throttled = match b.throttled {
        Some(n) if n > 0 => format!("; it ran out {} times", count_text(n as f64)),
        _ => String::new(),
    };
    let says = format!("{cores:.2} cores");
    if cores < 1.0 {
        let why = format!(
            "a busy receiver stands still for {} of every {}{throttled}",
            time_text((1.0 - cores) * period),
            time_text(period)
        );
        let line = AdviceLine::new(key, says, why).wanted("none, or 2 cores and more");
        return line.status(AdviceStatus::Short).command(RELEASE);
    }
    let why = format!(
        "once all threads together have used it, all stand still to the end of each {}{throttled}",
        time_text(period)
    );
    let line = AdviceLine::new(key, says, why).wanted("none; give it cores (cpuset) instead");
    line.status(AdviceStatus::Hint).command(RELEASE)
}

const RELEASE: &str = "docker run --cpuset-cpus … without --cpus; Kubernetes: whole cores as both request \
                       and limit, with the static CPU manager";

fn cores(wish: &Wish, facts: &HostFacts) -> Option<AdviceLine> {
    let allowed = facts.bounds.cores.as_ref()?;
    let key = "cpuset";
    let says = format!("cores {allowed}");
    match wish.core {
        Some(core) if !allowed.has(core) => {
            let why =
                format!("core {core} is not allowed to this process: pinning to it will fail");
            Some(
                AdviceLine::new(key, says, why)
                    .wanted(format!("core {core} in it"))
                    .status(AdviceStatus::Short),
            )
        }
        Some(core) => {
            Some(AdviceLine::new(key, says, format!("core {core} is allowed to this process")))
        }
        None => Some(AdviceLine::new(
            key,
            says,
            "cores allowed to this process; choose one with --core",
        )),
    }
}

fn memory(wish: &Wish, facts: &HostFacts, need: &Need) -> Option<AdviceLine> {
    let limit = facts.bounds.memory?;
    let key = "memory.limit";
    let buffer = 2 * need.buffer_bytes(wish.hold.as_secs_f64()).min(1 << 30);
    let why = format!("a full receive buffer takes {} of it", exact_size_text(buffer));
    let line = AdviceLine::new(key, exact_size_text(limit), why);
    let wanted = buffer.saturating_add(PROGRAM);
    Some(match limit < wanted {
        true => line.wanted(exact_size_text(wanted)).status(AdviceStatus::Short),
        false => line,
    })
}

fn locked(facts: &HostFacts) -> Option<AdviceLine> {
    let limit = facts.bounds.locked_memory?;
    let why = "xdp:// locks its packet memory, and more only with CAP_IPC_LOCK; sockets need none";
    Some(AdviceLine::new("memlock", exact_size_text(limit), why))
}
