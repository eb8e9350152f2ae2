//! The suite that every simulated detector must pass, ours and those of others.
//!
//! [`check`] reports in one sentence what is wrong: packets that do not depend only on the seed, trains that
//! break their bounds, totals that differ from what was sent, a truth that does not add up, a declaration
//! that cannot be used, an option that accepts any value.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::{
    Simulator, SimulatorPace, Traffic, TrafficMade, TrafficOptions, TrafficOrder, TrafficTotals,
};

/// Packets of each trial at least.
const PACKETS: u64 = 300;
/// Longest payload of a datagram, bytes.
const LONGEST: usize = 65_507;

macro_rules! ensure {
    ($ok:expr, $($why:tt)+) => {{
        let ok: bool = $ok;
        if !ok {
            return Err(format!($($why)+));
        }
    }};
}

/// Runs the whole suite.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(kind: &dyn Simulator) -> Result<(), String> {
    declared(kind)?;
    let none = TrafficOptions::default();
    let usual = order(&none, SimulatorPace::Usual);
    let (bytes, totals) = trial(kind, &usual)?;
    let (again, _) = trial(kind, &usual)?;
    ensure!(bytes == again, "other packets of the same seed");
    ensure!(totals.packets > 0, "no packet");
    for load in kind.loads() {
        let order = order(&load.options, SimulatorPace::Events(load.events_per_s));
        trial(kind, &order).map_err(|why| format!("load {}: {why}", load.name))?;
        kind.geometry(&order).map_err(|e| format!("load {}: {e}", load.name))?;
    }
    if let Some(shown) = kind.declared().demonstration {
        let options = TrafficOptions::of(shown.options);
        trial(kind, &order(&options, SimulatorPace::Usual))
            .map_err(|why| format!("demo: {why}"))?;
    }
    let link = |mean: f64| 1e9 / (8.0 * mean);
    let (_, on_link) = trial(kind, &order(&none, SimulatorPace::Link(&link)))?;
    ensure!(on_link.packets > 0, "no packet at a rate of the link");
    truth(kind)
}

fn order<'a>(options: &'a TrafficOptions, pace: SimulatorPace<'a>) -> TrafficOrder<'a> {
    // The shortest turn, so that it repeats within the trial.
    TrafficOrder { pace, prepared_bytes: Some(1), ..TrafficOrder::of(options, 7) }
}

fn declared(kind: &dyn Simulator) -> Result<(), String> {
    let plain = |text: &str| {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !text.is_empty() && text.chars().all(good)
    };
    ensure!(plain(kind.name()), "name {:?}: lower case, digits and hyphens", kind.name());
    ensure!(!kind.declared().about.is_empty(), "it does not say what it is");
    let mut keys: Vec<&str> = vec![];
    for option in kind.declared().options {
        let key = option.key;
        ensure!(plain(key), "option {key:?}: lower case, digits and hyphens");
        ensure!(!keys.contains(&key), "two options called {key}");
        ensure!(!option.about.is_empty() && !option.range.is_empty(), "{key} says nothing");
        keys.push(key);
        let mut options = TrafficOptions::default();
        options.set(key, "no such value");
        match kind.make(&order(&options, SimulatorPace::Usual)) {
            Ok(_) => return Err(format!("option {key} takes anything")),
            Err(e) => ensure!(e.to_string().contains(key), "a refusal without its key: {e}"),
        }
    }
    let mut inputs: Vec<&str> = kind.declared().recorded.iter().map(|input| input.name).collect();
    inputs.extend(kind.loads().iter().map(|load| load.name));
    let all = inputs.len();
    inputs.sort_unstable();
    inputs.dedup();
    ensure!(inputs.len() == all, "two inputs of one name");
    Ok(())
}

/// Bytes handed out, and the totals, after at least [`PACKETS`] packets in trains of all lengths.
fn trial(
    kind: &dyn Simulator,
    order: &TrafficOrder<'_>,
) -> Result<(Vec<u8>, TrafficTotals), String> {
    let made = kind.make(order).map_err(|e| e.to_string())?;
    let TrafficMade { mut traffic, packets_per_s, ports, .. } = made;
    let (lanes, largest) = (traffic.lanes(), traffic.largest_packet());
    ensure!(traffic.name() == kind.name(), "traffic is called {}", traffic.name());
    ensure!(ports.is_empty() || ports.len() == lanes, "{} ports, {lanes} lanes", ports.len());
    ensure!((1..=LONGEST).contains(&largest), "packets of {largest} B");
    ensure!(traffic.mean_packet() > 0.0, "no mean size");
    ensure!(packets_per_s.is_none_or(|n| n.is_finite() && n > 0.0), "{packets_per_s:?} packets/s");
    ensure!(traffic.next_train(0, 0).is_none(), "packets though none were asked for");
    let mut all = vec![];
    let mut handed = TrafficTotals::default();
    for asked in (1..=64).cycle() {
        if handed.packets >= PACKETS {
            break;
        }
        let Some(train) = traffic.next_train(asked, 1) else { break };
        let (n, stride) = (train.packets, train.stride);
        ensure!((1..=asked).contains(&n), "{n} packets of {asked}");
        ensure!((1..=largest).contains(&stride), "{stride} B, the largest {largest}");
        ensure!(train.bytes.len() == n * stride, "{} B for {n} of {stride}", train.bytes.len());
        ensure!(train.lane < lanes, "lane {} of {lanes}", train.lane);
        handed.packets += n as u64;
        handed.bytes += train.bytes.len() as u64;
        all.extend_from_slice(train.bytes);
    }
    let totals = traffic.totals();
    ensure!(totals.packets == handed.packets, "{} of {} packets", totals.packets, handed.packets);
    ensure!(totals.bytes == handed.bytes, "{} of {} B", totals.bytes, handed.bytes);
    let by_pixel = traffic.truth().map(|counts| counts.iter().sum::<u64>());
    ensure!(
        by_pixel.is_none_or(|sum| sum == totals.events),
        "{by_pixel:?} events by pixel, {} in all",
        totals.events
    );
    ready(&mut *traffic)?;
    Ok((all, totals))
}

/// A detector with its own clock never returns more than was requested, and says when there is more.
fn ready(traffic: &mut dyn Traffic) -> Result<(), String> {
    let at_ns = 1_000_000;
    if let Some(ready) = traffic.ready(at_ns, 3) {
        ensure!(ready.packets <= 3, "{} packets are ready of 3", ready.packets);
        ensure!(ready.packets == 3 || ready.next_ns >= at_ns, "the next one was before now");
    }
    Ok(())
}

/// Rows of truth: one for each event that is to be expected.
fn truth(kind: &dyn Simulator) -> Result<(), String> {
    let none = TrafficOptions::default();
    let mut traffic =
        kind.make(&order(&none, SimulatorPace::Usual)).map_err(|e| e.to_string())?.traffic;
    let (expected, beyond) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
    let (counts, wrong) = (expected.clone(), beyond.clone());
    let watched = traffic.watch(Box::new(move |made| {
        counts.fetch_add(u64::from(made.expected()), Relaxed);
        if let Ok(mut last) = wrong.lock() {
            *last = Some(made.packet);
        }
    }));
    let columns = kind.declared().truth_columns.is_some();
    ensure!(watched == columns, "rows of truth: {watched}, declared {columns}");
    while traffic.totals().packets < PACKETS {
        if traffic.next_train(16, 1).is_none() {
            break;
        }
    }
    let totals = traffic.totals();
    let (rows, last) = (expected.load(Relaxed), beyond.lock().map_or(None, |last| *last));
    ensure!(!watched || rows == totals.events, "{rows} rows for {} events", totals.events);
    ensure!(last.is_none_or(|packet| packet < totals.packets), "a row of a packet to come");
    Ok(())
}
