//! The results as tables: in the shape of the paper's Table 3, set beside set, and what each ablation changes.
//!
//! Speeds are medians over the trials with their spread; losses are counted over all trials together. What was not
//! measured is a dash.

use crate::cores::Near;
use crate::record::dash;
use std::fmt::Write;

use super::parameters::Parameters;
use super::{Campaign, TrialOutcome, theoretical_gbps, wire};
use crate::agent::sample::Share;
use crate::profile::Symbol;
use crate::record::Figure;

/// What all trials of one set and size say together.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Payload, bytes.
    pub size: usize,
    /// User data speed, Gb/s.
    pub received: Figure,
    /// Packets received, millions per second, median.
    pub mpps: f64,
    /// Highest speed that the link allows, Gb/s.
    pub theoretical: f64,
    /// Packets sent in all trials.
    pub sent: u64,
    /// Packets lost in all trials, those unaccounted included.
    pub lost: u64,
    /// Where, over all trials.
    pub lost_at: Vec<(String, u64)>,
    /// Reordered packets in all trials.
    pub reordered: u64,
    /// Cores in use by receiver and sender process, medians.
    pub cores: (Option<f64>, Option<f64>),
    /// System calls per packet of receiver and sender, medians.
    pub calls: (Option<f64>, Option<f64>),
    /// What receiver's and sender's core did, mean over the intervals of the CPU pass.
    pub shares: (Option<Share>, Option<Share>),
    /// Voluntary and involuntary context switches of the receiver per packet, from the CPU pass.
    pub switches: Option<(f64, f64)>,
}

impl Cell {
    /// Packet error ratio: lost of all that were sent.
    pub fn per(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// CPU of the receiver in percent of one core: its core's load in the CPU pass, else its process's time.
    pub fn receiver_cpu(&self) -> Option<f64> {
        self.shares.0.map(|s| s.busy()).or(self.cores.0.map(|c| 100.0 * c))
    }

    /// The same of the sender.
    pub fn sender_cpu(&self) -> Option<f64> {
        self.shares.1.map(|s| s.busy()).or(self.cores.1.map(|c| 100.0 * c))
    }

    fn per_text(&self) -> String {
        match self.lost {
            0 => format!("0 (< {:.1e})", 1.0 / self.sent.max(1) as f64),
            _ => format!("{:.1e}", self.per()),
        }
    }
}

/// The cell of a set and size; `None` if it was not measured.
pub fn cell(campaign: &Campaign, p: &Parameters, size: usize) -> Option<Cell> {
    let trials: Vec<&TrialOutcome> = campaign.trials(&p.name, size).collect();
    let all =
        |of: &dyn Fn(&TrialOutcome) -> f64| trials.iter().map(|o| of(o)).collect::<Vec<f64>>();
    let median = |of: &dyn Fn(&TrialOutcome) -> Option<f64>| {
        let known: Option<Vec<f64>> = trials.iter().map(|o| of(o)).collect();
        Some(Figure::of(&known?, "")?.value)
    };
    let mut lost_at: Vec<(String, u64)> = Vec::new();
    for (place, n) in trials.iter().flat_map(|o| &o.lost_at) {
        match lost_at.iter_mut().find(|(p, _)| p == place) {
            Some((_, all)) => *all += n,
            None => lost_at.push((place.clone(), *n)),
        }
    }
    let sum = |of: &dyn Fn(&TrialOutcome) -> u64| trials.iter().map(|o| of(o)).sum();
    let unaccounted: u64 = sum(&|o| o.unaccounted());
    if unaccounted > 0 {
        lost_at.push(("unaccounted".to_owned(), unaccounted));
    }
    let cpu = campaign.cpu_trial(&p.name, size);
    let switches = cpu.and_then(|o| {
        let packets_per_s = o.mpps * 1e6;
        let mean = |of: fn(&crate::agent::sample::Interval) -> Option<f64>| {
            let known: Vec<f64> = o.receiver.intervals.iter().filter_map(of).collect();
            let n = known.len() as f64;
            (n > 0.0 && packets_per_s > 0.0).then(|| known.iter().sum::<f64>() / n / packets_per_s)
        };
        Some((mean(|i| i.voluntary_per_s)?, mean(|i| i.involuntary_per_s)?))
    });
    Some(Cell {
        size,
        received: Figure::of(&all(&|o| o.received_gbps), "Gb/s")?,
        mpps: median(&|o| Some(o.mpps)).unwrap_or(0.0),
        theoretical: theoretical_gbps(p, size, campaign.plan.link_bits_per_s),
        sent: sum(&|o| o.sent),
        lost: sum(&|o| o.lost) + unaccounted,
        lost_at,
        reordered: sum(&|o| o.reordered),
        cores: (median(&|o| o.receiver.cores()), median(&|o| o.sender.cores())),
        calls: (median(&|o| o.receiver.calls_per_packet), median(&|o| o.sender.calls_per_packet)),
        shares: (
            cpu.and_then(|o| mean_share(&o.receiver.intervals)),
            cpu.and_then(|o| mean_share(&o.sender.intervals)),
        ),
        switches,
    })
}

fn mean_share(intervals: &[crate::agent::sample::Interval]) -> Option<Share> {
    let shares: Vec<Share> = intervals.iter().filter_map(|i| Some(i.core?.1)).collect();
    let n = shares.len() as f64;
    let mean = |of: fn(&Share) -> f64| shares.iter().map(of).sum::<f64>() / n;
    (!shares.is_empty()).then(|| Share {
        user: mean(|s| s.user),
        system: mean(|s| s.system),
        softirq: mean(|s| s.softirq),
        irq: mean(|s| s.irq),
        steal: mean(|s| s.steal),
        idle: mean(|s| s.idle),
    })
}

fn share_text(share: Option<Share>) -> String {
    dash(share, |s| format!("{:.0}/{:.0}/{:.0}/{:.0}", s.user, s.system, s.softirq, s.irq))
}

/// The whole document.
pub fn markdown(campaign: &Campaign) -> String {
    let mut text = String::new();
    let plan = &campaign.plan;
    let _ = writeln!(text, "# {}\n", plan.name);
    let _ = writeln!(
        text,
        "{}, {}, {} per trial{}. Medians over the trials (least–most); losses over all of them.\n",
        match plan.place.as_str() {
            "loopback" => "On loopback".to_owned(),
            "namespaces" => "Between two network namespaces".to_owned(),
            host => format!("With {host}"),
        },
        plan.load.name(),
        trials_text(campaign),
        if plan.repeats > 1 { format!(", {} trials", plan.repeats) } else { String::new() },
    );
    if plan.near {
        let _ = writeln!(text, "{}\n", nearness(campaign));
    }
    if plan.ablation {
        text.push_str(&ablation(campaign));
        return text;
    }
    if plan.series.len() > 1 {
        text.push_str(&side_by_side(campaign));
    }
    for p in &plan.series {
        let _ = writeln!(text, "## {}\n", p.name);
        text.push_str(&series_table(campaign, p));
        text.push('\n');
        text.push_str(&profiles(campaign, p));
    }
    text
}

/// On which cores the trials were made.
fn nearness(campaign: &Campaign) -> String {
    let all: Vec<Near> = campaign.done.iter().filter_map(|d| d.outcome.near).collect();
    let far = all.iter().filter(|n| !n.is_near()).count();
    let longest = all.iter().map(|n| n.round_trip_ns).fold(0.0, f64::max);
    format!(
        "Each trial was made on two cores that shared a cache, as measured before and after it (`fullcount lab cores`); \
         {far} of {} found none. Longest round trip of a cache line: {longest:.0} ns.",
        all.len()
    )
}

fn trials_text(campaign: &Campaign) -> String {
    match campaign.plan.volume {
        super::TrialVolume::Milliseconds(ms) => format!("{} s", ms as f64 / 1e3),
        super::TrialVolume::Bytes(n) => format!("{} GB", n as f64 / 1e9),
    }
}

/// One set in the shape of Table 3.
pub fn series_table(campaign: &Campaign, p: &Parameters) -> String {
    let gbps = campaign.plan.link_bits_per_s / 1e9;
    let mut text = format!(
        "| user data size, B | frames | user data speed, Gb/s | theoretical at {gbps} Gb/s | M packets/s | PER \
         | lost at | reordered | receiver CPU, % of a core | receiver's core user/system/softirq/irq, % \
         | sender CPU, % of a core | sender's core user/system/softirq/irq, % \
         | context switches per packet, voluntary/involuntary | system calls per packet, receiver/sender |\n\
         |--:|--:|--:|--:|--:|--:|:--|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    for &size in &campaign.plan.sizes {
        let Some(c) = cell(campaign, p, size) else { continue };
        let (low, high) = c.received.interval;
        let spread =
            if c.received.repeats > 1 { format!(" ({low:.2}–{high:.2})") } else { String::new() };
        let places: Vec<String> = c.lost_at.iter().map(|(at, n)| format!("{at} {n}")).collect();
        let process = |cores: Option<f64>| dash(cores, |c| format!("{:.0}", 100.0 * c));
        let calls = |calls: Option<f64>| dash(calls, |n| format!("{n:.2e}"));
        let _ = writeln!(
            text,
            "| {size} | {} | {:.2}{spread} | {:.2} | {:.3} | {} | {} | {} | {} | {} | {} | {} | {} | {}/{} |",
            wire(p).frames(size),
            c.received.value,
            c.theoretical,
            c.mpps,
            c.per_text(),
            if places.is_empty() { "–".to_owned() } else { places.join(", ") },
            c.reordered,
            process(c.cores.0),
            share_text(c.shares.0),
            process(c.cores.1),
            share_text(c.shares.1),
            dash(c.switches, |(v, i)| format!("{v:.1e}/{i:.1e}")),
            calls(c.calls.0),
            calls(c.calls.1),
        );
    }
    text
}

/// What the receiver's core spent its time on, where the CPU pass recorded it.
fn profiles(campaign: &Campaign, p: &Parameters) -> String {
    let sizes = campaign.plan.sizes.iter();
    let found = sizes.filter_map(|&size| Some((size, campaign.cpu_trial(&p.name, size)?)));
    let found: Vec<_> = found.filter(|(_, outcome)| !outcome.profile.is_empty()).collect();
    let mut text = String::new();
    for (size, outcome) in found {
        let _ = writeln!(
            text,
            "Busy time of both cores with {size} B, function by function (`perf record`):\n\n\
             | receiver's core, % | | sender's core, % | |\n|--:|:--|--:|:--|"
        );
        let side = |symbol: Option<&Symbol>| {
            symbol.map_or("| ".into(), |s| format!("{:.1} | `{}`", s.percent, s.name))
        };
        let (ours, theirs) = (&outcome.profile, &outcome.sender_profile);
        for i in 0..ours.len().max(theirs.len()) {
            let _ = writeln!(text, "| {} | {} |", side(ours.get(i)), side(theirs.get(i)));
        }
        text.push('\n');
    }
    text
}

/// All sets beside one another: speed, PER, receiver's CPU.
fn side_by_side(campaign: &Campaign) -> String {
    let series = &campaign.plan.series;
    let mut text = String::from("| user data size, B |");
    for what in ["speed, Gb/s", "PER", "receiver CPU, %"] {
        for p in series {
            let _ = write!(text, " {what}: {} |", p.name);
        }
    }
    text.push_str("\n|--:|");
    text.push_str(&"--:|".repeat(3 * series.len()));
    text.push('\n');
    for &size in &campaign.plan.sizes {
        let cells: Vec<Option<Cell>> = series.iter().map(|p| cell(campaign, p, size)).collect();
        let _ = write!(text, "| {size} |");
        for c in &cells {
            let _ = write!(text, " {} |", dash(c.as_ref(), |c| format!("{:.2}", c.received.value)));
        }
        for c in &cells {
            let _ = write!(text, " {} |", dash(c.as_ref(), Cell::per_text));
        }
        for c in &cells {
            let cpu = c.as_ref().and_then(Cell::receiver_cpu);
            let _ = write!(text, " {} |", dash(cpu, |v| format!("{v:.0}")));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// The sets after the first against it, size by size.
fn ablation(campaign: &Campaign) -> String {
    let Some((base, others)) = campaign.plan.series.split_first() else { return String::new() };
    let mut text = format!(
        "Each line differs from `{}` in one thing. Speed is also given as a ratio to it, CPU in percent of a \
         core.\n\n",
        base.name
    );
    for &size in &campaign.plan.sizes {
        let Some(first) = cell(campaign, base, size) else { continue };
        let _ = writeln!(text, "## {size} B\n");
        text.push_str(
            "| switched | speed, Gb/s | of the base | PER | receiver CPU, % | change | sender CPU, % | change |\n\
             |:--|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        let line = |p: &Parameters, c: &Cell| {
            let ratio = c.received.value / first.received.value;
            let change = |now: Option<f64>, then: Option<f64>| {
                dash(now.zip(then), |(now, then)| format!("{:+.0}", now - then))
            };
            let percent = |v: Option<f64>| dash(v, |v| format!("{v:.0}"));
            format!(
                "| {} | {:.2} ({:.2}–{:.2}) | {} | {} | {} | {} | {} | {} |\n",
                p.name,
                c.received.value,
                c.received.interval.0,
                c.received.interval.1,
                dash(Some(ratio).filter(|r| r.is_finite()), |r| format!("{r:.2}")),
                c.per_text(),
                percent(c.receiver_cpu()),
                change(c.receiver_cpu(), first.receiver_cpu()),
                percent(c.sender_cpu()),
                change(c.sender_cpu(), first.sender_cpu()),
            )
        };
        text.push_str(&line(base, &first));
        for p in others {
            if let Some(c) = cell(campaign, p, size) {
                text.push_str(&line(p, &c));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
