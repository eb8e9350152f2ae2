//! The cores: node, interrupts, spreading, clock, sleep, neighbours.
//!
//! Sources: kernel `Documentation/networking/scaling`, `.../admin-guide/pm/cpuidle`,
//! `.../admin-guide/pm/cpufreq`.

use fullcount_core::quantity::time_text;
use fullcount_io::host::cpu::{Core, CoreSet, IdleState};
use fullcount_io::host::interface::{Interface, InterfaceKind};

use super::facts::HostFacts;
use super::line::{AdviceLine, AdviceStatus};
use super::need::{Need, count_text, frames_arrive};
use super::place::Change;
use super::wish::Wish;

/// Share of its time above which a core is called busy.
const BUSY: f64 = 0.2;
/// Share of its time above which what the hypervisor takes is worth a line.
const STOLEN: f64 = 0.01;
/// Rate above which a packet's way across sockets, or a sharing of one core, is short: at a million
/// packets a second a core has 1 µs for each.
const FAST: f64 = 1e6;
/// The same in payload bit/s.
const WIDE: f64 = 5e9;
/// Rates above which a core's clock matters: a tenth of what the paper "Reliable UDP at 10 Gb/s" had, packets
/// a second and payload bit/s.
const CLOCKED: (f64, f64) = (100e3, 1e9);
/// Wake-ups above this are worth a line even where the rings hold them, µs.
const SLOW_WAKE: u64 = 50;
/// Frames that wait for a sleeping core where there is no ring: the kernel's own queue.
const QUEUE: u64 = 1000;

/// Lines about the cores.
pub fn lines(wish: &Wish, facts: &HostFacts, need: &Need) -> Vec<AdviceLine> {
    let mut lines = vec![];
    let card = facts.card.as_ref();
    lines.extend(node(wish, facts, card, need));
    if wish.role.receives() {
        lines.extend(card.and_then(|c| interrupts(wish, facts, c, need)));
        lines.extend(card.and_then(|c| spreading(wish, facts, c)));
    }
    lines.extend(balancer(wish, facts, card));
    lines.push(governor(wish, facts, need));
    lines.push(sleep(wish, facts, need));
    lines.extend(wish.core.and_then(|core| busy(core, facts)));
    lines.extend(wish.core.and_then(|core| sibling(core, facts)));
    lines.extend(wish.core.and_then(|core| isolated(core, facts)));
    lines.extend(stolen(wish, facts));
    lines
}

/// `core 2`, `cores 0-3`.
fn named(cores: &CoreSet) -> String {
    let many = if cores.0.len() == 1 { "" } else { "s" };
    format!("core{many} {cores}")
}

/// A core is shared with the pinned one: it is the same or runs on the same hardware.
fn shares(facts: &HostFacts, pinned: u32, core: u32) -> bool {
    let same = |c: &&Core| c.number == pinned;
    pinned == core || facts.each.iter().find(same).is_some_and(|c| c.siblings.has(core))
}

/// Cores near the card that nobody has claimed.
fn free(wish: &Wish, facts: &HostFacts, card: &Interface) -> Vec<u32> {
    let near = card.node.and_then(|n| facts.cores.of_node(n)).unwrap_or(&facts.cores.online);
    let on = near.0.intersection(&facts.cores.online.0).copied();
    on.filter(|&c| wish.core.is_none_or(|pinned| !shares(facts, pinned, c))).collect()
}

fn node(
    wish: &Wish,
    facts: &HostFacts,
    card: Option<&Interface>,
    need: &Need,
) -> Option<AdviceLine> {
    let card = card.filter(|c| c.kind == InterfaceKind::Device)?;
    let key = "numa";
    if facts.cores.nodes.len() < 2 {
        return Some(AdviceLine::new(key, "one node", "all cores are equally near to the card"));
    }
    let Some(of_card) = card.node else {
        return Some(AdviceLine::unknown(key, format!("{} does not say its NUMA node", card.name)));
    };
    let near = facts.cores.of_node(of_card).map_or("none".to_owned(), CoreSet::to_string);
    let Some(core) = wish.core else {
        let why = format!("{} is on node {of_card}: pin with --core to one of {near}", card.name);
        return Some(AdviceLine::new(key, format!("card on node {of_card}"), why));
    };
    match facts.cores.node_of(core) {
        Some(n) if n == of_card => {
            let why = format!("core {core} and {} are on the same node", card.name);
            Some(AdviceLine::new(key, format!("both on node {n}"), why))
        }
        Some(n) => {
            let why = format!(
                "every byte crosses the link between the sockets: pin with --core to one of {near}"
            );
            let fast = need.pps > FAST || need.bits > WIDE;
            let line = AdviceLine::new(
                key,
                format!("core {core} on node {n}, card on node {of_card}"),
                why,
            );
            let line = line.wanted(format!("a core of node {of_card}"));
            Some(line.status(if fast { AdviceStatus::Short } else { AdviceStatus::Hint }))
        }
        None => {
            Some(AdviceLine::unknown(key, format!("the host does not say the node of core {core}")))
        }
    }
}

fn interrupts(wish: &Wish, facts: &HostFacts, card: &Interface, need: &Need) -> Option<AdviceLine> {
    if card.kind != InterfaceKind::Device {
        return None;
    }
    let key = "irq.affinity";
    let all: Vec<_> = card.interrupts.iter().filter(|i| i.receives()).collect();
    if all.is_empty() {
        let why =
            format!("the host does not say which interrupts tell of packets on {}", card.name);
        return Some(AdviceLine::unknown(key, why));
    }
    let near =
        card.node.and_then(|n| facts.cores.of_node(n)).filter(|_| facts.cores.nodes.len() > 1);
    let far = |cores: &CoreSet| near.is_some_and(|n| !cores.0.is_subset(&n.0));
    let same = |cores: &CoreSet| {
        wish.core.is_some_and(|pinned| cores.0.iter().any(|&c| shares(facts, pinned, c)))
    };
    let (mut distant, mut together) = (0u32, 0u32);
    let mut bad = vec![];
    for interrupt in &all {
        let (f, s) = (far(&interrupt.cores), same(&interrupt.cores));
        distant += u32::from(f);
        together += u32::from(s);
        if f || s {
            bad.push(interrupt.number);
        }
    }
    let mut cores = CoreSet::default();
    all.iter().for_each(|i| cores.0.extend(&i.cores.0));
    let says = format!("{} on {}", all.len(), named(&cores));
    if bad.is_empty() {
        let why = match wish.core {
            Some(core) => format!("they come to cores near the card and apart from core {core}"),
            None => "they come to cores near the card".to_owned(),
        };
        return Some(AdviceLine::new(key, says, why));
    }
    let mut whys = vec![];
    if distant > 0 {
        whys.push(format!("{distant} may come to a core on another node than the card's"));
    }
    if together > 0 {
        let core = wish.core.unwrap_or_default();
        whys.push(format!(
            "{together} may come to core {core} or its sibling, where the pinned thread waits meanwhile"
        ));
    }
    let to = free(wish, facts, card);
    let fast = need.frames() > FAST || need.bits > WIDE;
    let status = if fast { AdviceStatus::Short } else { AdviceStatus::Hint };
    let mut line = AdviceLine::new(key, says, whys.join("; ")).status(status);
    if to.is_empty() {
        line.why.push_str("; no other core is left for them");
        return Some(line.status(AdviceStatus::Hint));
    }
    line = line.wanted(format!("cores {}", CoreSet(to.iter().copied().collect())));
    for (i, number) in bad.iter().enumerate() {
        let core = to[i % to.len()];
        line = line.change(Change::file(format!("proc/irq/{number}/smp_affinity_list"), core));
    }
    Some(line)
}

fn spreading(wish: &Wish, facts: &HostFacts, card: &Interface) -> Option<AdviceLine> {
    let key = "rps";
    if card.rps.is_empty() {
        return None;
    }
    let mut cores = CoreSet::default();
    card.rps.iter().for_each(|mask| cores.0.extend(&mask.0));
    if cores.is_empty() {
        let why = match card.kind {
            InterfaceKind::Device => "each queue's packets stay on the core of its interrupt",
            _ => "packets are handled on the sender's core up to the socket",
        };
        return Some(AdviceLine::new(key, "off", why));
    }
    let why = "packets are handed on to these cores, through net.core.netdev_max_backlog";
    let line = AdviceLine::new(key, format!("to {}", named(&cores)), why);
    let pinned = wish.core.filter(|&p| cores.0.iter().any(|&c| shares(facts, p, c)));
    Some(match pinned {
        Some(core) => {
            let why =
                format!("{why}; core {core} of the pinned thread is among them or shares one");
            AdviceLine { why, ..line }.wanted("other cores").status(AdviceStatus::Hint)
        }
        None => line,
    })
}

fn balancer(wish: &Wish, facts: &HostFacts, card: Option<&Interface>) -> Option<AdviceLine> {
    if !facts.cores.irqbalance || card.is_none_or(|c| c.kind != InterfaceKind::Device) {
        return None;
    }
    let core = wish.core.map_or("the receiver's core".to_owned(), |c| format!("core {c}"));
    let why = format!(
        "moves interrupts about by itself, to {core} as well: stop it, or ban that core in IRQBALANCE_ARGS"
    );
    let line =
        AdviceLine::new("irqbalance", "runs", why).wanted("stopped").status(AdviceStatus::Hint);
    Some(line.command("systemctl stop irqbalance"))
}

fn governor(wish: &Wish, facts: &HostFacts, need: &Need) -> AdviceLine {
    let key = "governor";
    let known: Vec<(u32, &str)> =
        facts.meant(wish).iter().filter_map(|c| Some((c.number, c.governor.as_deref()?))).collect();
    if known.is_empty() {
        let why = "no clock control to be seen: a virtual machine, or the firmware's; set the firmware to \
                   performance";
        return AdviceLine::unknown(key, why);
    }
    let slow: Vec<_> = known.iter().filter(|(_, g)| *g != "performance").collect();
    let Some((_, first)) = slow.first() else {
        return AdviceLine::new(key, "performance", "the clock stays up between bursts");
    };
    let cores = CoreSet(slow.iter().map(|(c, _)| *c).collect());
    let says = format!("{first} on {}", named(&cores));
    let why = "the clock falls between bursts and is low when the next one comes";
    let fast = need.pps > CLOCKED.0 || need.bits > CLOCKED.1;
    let status = if fast { AdviceStatus::Short } else { AdviceStatus::Hint };
    let mut line = AdviceLine::new(key, says, why).wanted("performance").status(status);
    for (core, _) in &slow {
        let path = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
        line = line.change(Change::file(path, "performance"));
    }
    if wish.core.is_none() {
        line.commands = vec!["cpupower frequency-set -g performance".into()];
    }
    line
}

fn sleep(wish: &Wish, facts: &HostFacts, need: &Need) -> AdviceLine {
    let key = "idle";
    let limit = facts.cores.wake_limit_us.and_then(|l| u64::try_from(l).ok()).unwrap_or(u64::MAX);
    let used = |s: &&IdleState| !s.disabled && s.latency_us <= limit;
    let meant = facts.meant(wish);
    let deepest = |c: &Core| c.idle.iter().filter(used).max_by_key(|s| s.latency_us).cloned();
    let Some(deep) = meant.iter().filter_map(|c| deepest(c)).max_by_key(|s| s.latency_us) else {
        let why = "no sleep states to be seen: a virtual machine, or idle=poll";
        return AdviceLine::unknown(key, why);
    };
    let room = facts.rings.map_or(QUEUE, |r| u64::from(r.rx).max(1));
    let arrive = need.frames_in(deep.latency_us as f64 / 1e6);
    let wake = time_text(deep.latency_us as f64 / 1e6);
    let says = format!("{}, {wake} to wake", deep.name);
    let why = format!(
        "{} while a core wakes from {}; {} fit into the queue before it",
        frames_arrive(arrive),
        deep.name,
        count_text(room as f64)
    );
    let line = AdviceLine::new(key, says, why);
    if !wish.role.receives() {
        // Nothing arrives: only the sender's own pauses grow.
        let why = "a sender that sleeps between its bursts wakes that late, and catches up";
        let slow = deep.latency_us >= SLOW_WAKE;
        return AdviceLine { why: why.into(), ..line }.status(if slow {
            AdviceStatus::Hint
        } else {
            AdviceStatus::Fine
        });
    }
    let status = match () {
        () if arrive > room / 4 => AdviceStatus::Short,
        () if deep.latency_us >= SLOW_WAKE => AdviceStatus::Hint,
        () => return line,
    };
    // The deepest sleep whose wake-up fills no more than a quarter of the queue, and is not slow itself.
    let fits = |s: &IdleState| {
        let frames = need.frames_in(s.latency_us as f64 / 1e6);
        frames <= room / 4 && s.latency_us < SLOW_WAKE
    };
    let mut line = line.wanted("shallower sleep").status(status);
    if wish.core.is_none() {
        line.why.push_str("; --core says which core should stay awake");
        return line.command(format!("cpupower idle-set -D {}", SLOW_WAKE - 1));
    }
    for core in meant {
        for state in core.idle.iter().filter(|s| used(s) && !fits(s)) {
            let path = format!(
                "sys/devices/system/cpu/cpu{}/cpuidle/state{}/disable",
                core.number, state.number
            );
            line = line.change(Change::file(path, 1));
        }
    }
    line
}

fn when(facts: &HostFacts) -> &'static str {
    if facts.load_is_fresh { "just now" } else { "on average since the start" }
}

fn busy(core: u32, facts: &HostFacts) -> Option<AdviceLine> {
    let load = facts.load.get(&core)?;
    let says = format!("{:.0} % busy", 100.0 * load.busy);
    let line = |why: &str| {
        AdviceLine::new("core", says.clone(), format!("core {core} {}: {why}", when(facts)))
    };
    Some(match load.busy > BUSY {
        true => {
            let line = line("something else runs on it, or the receiver already does");
            line.wanted("idle").status(AdviceStatus::Hint)
        }
        false => line("it is free for the pinned thread"),
    })
}

fn sibling(core: u32, facts: &HostFacts) -> Option<AdviceLine> {
    let key = "smt";
    let own = facts.each.iter().find(|c| c.number == core)?;
    let others = CoreSet(own.siblings.0.iter().copied().filter(|&c| c != core).collect());
    if own.siblings.is_empty() {
        return None;
    }
    if others.is_empty() {
        return Some(AdviceLine::new(
            key,
            "none",
            format!("core {core} shares its hardware with no other"),
        ));
    }
    let busiest =
        others.0.iter().filter_map(|c| facts.load.get(c)).map(|l| l.busy).fold(0.0, f64::max);
    let says = format!("core {others}, {:.0} % busy", 100.0 * busiest);
    let why = format!("core {core} shares its hardware with core {others} ({})", when(facts));
    let line = AdviceLine::new(key, says, why);
    Some(match busiest > BUSY {
        true => {
            let why = format!("{}: both are slower while both work", line.why);
            AdviceLine { why, ..line }.wanted("idle").status(AdviceStatus::Hint)
        }
        false => line,
    })
}

fn isolated(core: u32, facts: &HostFacts) -> Option<AdviceLine> {
    if facts.cores.online.is_empty() {
        return None;
    }
    let key = "isolcpus";
    let set = &facts.cores.isolated;
    Some(match set.has(core) {
        true => {
            let why = format!("no other program is put on core {core}");
            AdviceLine::new(key, set.to_string(), why)
        }
        false => {
            let why = format!(
                "any program may be put on core {core} and stop the receiver for milliseconds; the kernel \
                 takes isolcpus={core} at its start"
            );
            AdviceLine::new(key, set.to_string(), why)
                .wanted(format!("core {core} in it"))
                .status(AdviceStatus::Hint)
        }
    })
}

fn stolen(wish: &Wish, facts: &HostFacts) -> Option<AdviceLine> {
    let of = |c: &&Core| facts.load.get(&c.number).map(|l| l.stolen);
    let most = facts.meant(wish).iter().filter_map(of).fold(0.0, f64::max);
    if most <= STOLEN {
        return None;
    }
    let why = format!(
        "the hypervisor took so much of a core {}: nothing in this machine can bring it back",
        when(facts)
    );
    Some(
        AdviceLine::new("steal", format!("{:.1} %", 100.0 * most), why)
            .wanted("0 %")
            .status(AdviceStatus::Hint),
    )
}
