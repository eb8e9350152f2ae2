//! What stands between the stream and the process: filters, and the limits of a container.
//!
//! Refuses nothing. Sources: kernel `Documentation/admin-guide/cgroup-v2`, `.../networking/nf_conntrack-sysctl`,
//! RFC 3704 (check of the way back).

use super::facts::Facts;
use super::line::{Line, Status};
use super::need::{Need, bytes_text, count_text, time_text};
use super::wish::Wish;

/// Memory that a receiver takes beside its socket's buffer.
const PROGRAM: u64 = 256 << 20;
/// Share of a full connection table from which it is called full.
const NEARLY: f64 = 0.9;

/// Lines about filters and limits.
pub fn lines(wish: &Wish, facts: &Facts, need: &Need) -> Vec<Line> {
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

fn tracking(wish: &Wish, facts: &Facts, need: &Need) -> Line {
    let key = "conntrack";
    let f = &facts.firewall;
    let (Some(now), Some(most)) = (f.tracked, f.tracked_max) else {
        return Line::new(key, "not loaded", "no connection tracking looks at the packets");
    };
    let says = format!("{now} of {most} connections");
    if now == 0 {
        return Line::new(key, says, "loaded, but no rule makes it look at packets now");
    }
    let port = wish.port.map_or("PORT".to_owned(), |p| p.to_string());
    let notrack = format!("iptables -t raw -I PREROUTING -p udp --dport {port} -j NOTRACK");
    let dropped = f.tracked_drops.unwrap_or(0);
    let full = most > 0 && now as f64 >= NEARLY * most as f64;
    let line = Line::new(key, says, "").command(notrack);
    if full || dropped > 0 {
        let why = format!(
            "the table is or was full ({} packets dropped): a new sender's packets are thrown away",
            count_text(dropped as f64)
        );
        let line = Line { why, ..line }.wanted("the stream not tracked");
        return line.status(if full { Status::Short } else { Status::Hint });
    }
    let why = format!(
        "each of {} packets/s is looked up in the table; exempt the stream",
        count_text(need.pps)
    );
    Line { why, ..line }.wanted("the stream not tracked").status(Status::Hint)
}

fn way_back(facts: &Facts) -> Option<Line> {
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
    let line = Line::new(key, says, why);
    let name = facts.card.as_ref().map(|c| c.name.replace('.', "/"));
    Some(match (mode, name) {
        (1, Some(name)) => {
            let command = format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2");
            line.wanted("2 (loose)").status(Status::Hint).command(command)
        }
        _ => line,
    })
}

fn tables(facts: &Facts) -> Option<Line> {
    let tables = &facts.firewall.tables;
    if tables.is_empty() {
        return None;
    }
    let why = "each packet walks these rules; let the stream match the first one, or none";
    Some(Line::new("firewall", tables.join(", "), why).status(Status::Hint))
}

fn quota(facts: &Facts) -> Line {
    let key = "cpu.quota";
    let b = &facts.bounds;
    let Some(cores) = b.cpu_quota else {
        let says = if b.container { "none (container)" } else { "none" };
        return Line::new(key, says, "no control group limits processor time");
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
        let line = Line::new(key, says, why).wanted("none, or 2 cores and more");
        return line.status(Status::Short).command(RELEASE);
    }
    let why = format!(
        "once all threads together have used it, all stand still to the end of each {}{throttled}",
        time_text(period)
    );
    let line = Line::new(key, says, why).wanted("none; give it cores (cpuset) instead");
    line.status(Status::Hint).command(RELEASE)
}

const RELEASE: &str = "docker run --cpuset-cpus … without --cpus; Kubernetes: whole cores as both request \
                       and limit, with the static CPU manager";

fn cores(wish: &Wish, facts: &Facts) -> Option<Line> {
    let allowed = facts.bounds.cores.as_ref()?;
    let key = "cpuset";
    let says = format!("cores {allowed}");
    match wish.core {
        Some(core) if !allowed.has(core) => {
            let why =
                format!("core {core} is not allowed to this process: pinning to it will fail");
            Some(
                Line::new(key, says, why)
                    .wanted(format!("core {core} in it"))
                    .status(Status::Short),
            )
        }
        Some(core) => Some(Line::new(key, says, format!("core {core} is allowed to this process"))),
        None => Some(Line::new(key, says, "cores allowed to this process; choose one with --core")),
    }
}

fn memory(wish: &Wish, facts: &Facts, need: &Need) -> Option<Line> {
    let limit = facts.bounds.memory?;
    let key = "memory.limit";
    let buffer = 2 * need.buffer_bytes(wish.hold.as_secs_f64()).min(1 << 30);
    let why = format!("a full receive buffer takes {} of it", bytes_text(buffer));
    let line = Line::new(key, bytes_text(limit), why);
    let wanted = buffer.saturating_add(PROGRAM);
    Some(match limit < wanted {
        true => line.wanted(bytes_text(wanted)).status(Status::Short),
        false => line,
    })
}

fn locked(facts: &Facts) -> Option<Line> {
    let limit = facts.bounds.locked_memory?;
    let why = "xdp:// locks its packet memory, and more only with CAP_IPC_LOCK; sockets need none";
    Some(Line::new("memlock", bytes_text(limit), why))
}
