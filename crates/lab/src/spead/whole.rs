//! Whole heaps over TCP (`?framing=heap`), by turns with iperf3 with writes of 64 KiB: part of `lab spead lossless`.
//!
//! Both run with cubic, and with the system's congestion control too if that is another one (`congestion=`, `iperf3 -C`).
//! Both ends have a core of their own, the same as in the rows above (`taskset`). Rates are payload over the sender's time; a trial counts
//! only if the receiver had every heap. Refuses a program that gives no result. Source: `docs/spead.md`.

use std::path::Path;

use fullcount_child::Asked;
use serde_json::{Value, json};

use super::goals::{self, RateGoals};
use super::ground::SpeadGround;
use super::heaps_run::{HeapsRun, HeapsRunner};
use super::kept::Kept;
use super::lossless::BisectionOrder;
use super::tables::{IperfRun, failed};
use crate::Tell;
use crate::error::LabError;
use crate::peers::iperf3;
use crate::record::host::congestion_control;
use crate::record::{Figure, Record};

/// The congestion control that is judged.
const CUBIC: &str = "cubic";
/// Iperf3 takes whole seconds.
const SECONDS: u64 = 2;

/// Sends whole heaps for so long with that congestion control; Gb/s.
fn ours(runner: &HeapsRunner<'_>, (seconds, control): (f64, &str)) -> Result<Value, LabError> {
    let ran = runner.run(&HeapsRun {
        tcp: true,
        to: format!("framing=heap&congestion={control}"),
        from: Some("framing=heap".to_owned()),
        rate: None,
        seconds,
    })?;
    match ran.received == Some(ran.sent) {
        true => Ok(json!({"gbps": ran.gbps, "heaps": ran.sent})),
        false => {
            let why = format!("{} sent, {:?} received", ran.sent, ran.received);
            Err(failed("whole heaps", why))
        }
    }
}

/// Congestion controls of both: cubic, which is judged, and the system's own.
fn controls(own: Option<&str>) -> Vec<&str> {
    std::iter::once(CUBIC).chain(own.filter(|own| *own != CUBIC)).collect()
}

/// Rates of all turns with one congestion control, Gb/s.
struct WholeRates<'a> {
    control: &'a str,
    /// Of whole heaps.
    ours: Vec<f64>,
    /// Of iperf3.
    theirs: Vec<f64>,
}

impl WholeRates<'_> {
    fn of(control: &str) -> WholeRates<'_> {
        WholeRates { control, ours: vec![], theirs: vec![] }
    }
}

/// Measures; a table of rates of its own.
///
/// # Errors
/// A program that gives no result.
pub(super) fn run(
    program: &Path,
    (order, cores): (&BisectionOrder, Option<[usize; 2]>),
    kept: &mut Kept,
    (record, goals): (&mut Record, &mut RateGoals),
    (tell, stop): (Tell, Asked<'_>),
) -> Result<String, LabError> {
    let own = congestion_control();
    let controls = controls(own.as_deref());
    record.parameter("tcp_congestion_control", own.as_deref());
    let iperf3 = iperf3::version(Path::new("iperf3")).ok();
    let mut both: Vec<_> = controls.iter().map(|&control| WholeRates::of(control)).collect();
    for turn in 0..order.repeats {
        for WholeRates { control, ours: heaps, theirs: rates } in &mut both {
            let key = format!("whole heaps {control} {turn}");
            let how = (order.seconds.max(1.0), *control);
            let runner = HeapsRunner { ground: &SpeadGround::Loopback, program, cores, stop };
            let value = kept.or_measure(&key, || ours(&runner, how))?;
            tell(&format!("{key}: {value}"));
            heaps.extend(value.get("gbps").and_then(Value::as_f64));
            record.row(json!({"whole_heaps": true, "peer": "fullcount", "congestion_control": control, "turn": turn, "found": value}));
            if iperf3.is_none() {
                continue;
            }
            let more = ["-l", "65536", "-C", control];
            let raw_run = IperfRun { tcp: true, seconds: SECONDS, more: &more, cores };
            let key = format!("iperf3 {control} 64 KiB {turn}");
            let ground = SpeadGround::Loopback;
            let value = kept.or_measure(&key, || raw_run.measure(&ground, stop))?;
            tell(&format!("{key}: {value}"));
            rates.extend(value.get("gbps").and_then(Value::as_f64));
            record.row(json!({"whole_heaps": true, "peer": "iperf3", "congestion_control": control, "turn": turn, "found": value}));
        }
    }
    if let Some(version) = iperf3 {
        record.parameter("iperf3", version);
    }
    Ok(table(own.as_deref(), &both, (record, goals)))
}

/// The table: whole heaps and iperf3 with each congestion control; figures and the goal.
fn table(
    own: Option<&str>,
    both: &[WholeRates<'_>],
    (record, goals): (&mut Record, &mut RateGoals),
) -> String {
    let own = own.unwrap_or("unknown");
    let mut text = format!(
        "\nBoth have the congestion control of the row; this system's own, net.ipv4.tcp_congestion_control, is {own}.\n\n\
         | congestion control | whole heaps over TCP, Gb/s | iperf3, writes of 64 KiB, Gb/s | ratio |\n|---|---|---|---|\n"
    );
    let cell = |figure: &Option<Figure>| Figure::cell(figure.clone(), 2, 1.0);
    for WholeRates { control, ours, theirs } in both {
        let (ours, theirs) = (Figure::of(ours, "Gb/s"), Figure::of(theirs, "Gb/s"));
        let judged = *control == CUBIC;
        let name = if judged { String::new() } else { format!("-{control}") };
        record.figure(&format!("tcp-whole-heaps{name}"), &ours);
        record.figure(&format!("tcp-iperf3{name}-64KiB"), &theirs);
        let ratio = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => Some(ours.value / theirs.value.max(1e-9)),
            _ => None,
        };
        let shown = ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
        text += &format!("| {control} | {} | {} | {shown} |\n", cell(&ours), cell(&theirs));
        if judged {
            let names = ("fullcount", "iperf3 with cubic");
            goals.judge("whole heaps over TCP", names, ratio, goals::OF_IPERF3);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spead::lossless::Buffers;
    use crate::spead::tools::SpeadPeer;

    #[test]
    fn both_run_with_cubic_and_the_system_s_own() {
        assert_eq!(controls(Some("bbr")), ["cubic", "bbr"]);
        assert_eq!(controls(Some("cubic")), ["cubic"]);
        assert_eq!(controls(None), ["cubic"]);
    }

    #[test]
    fn the_table_names_each_congestion_control_and_cubic_is_judged() {
        let order = BisectionOrder {
            packets: vec![],
            buffers: vec![Buffers::Large],
            repeats: 1,
            steps: 1,
            seconds: 1.0,
            tcp: true,
            sockets: None,
            quick: false,
        };
        let peers = [
            SpeadPeer::Ours { program: "/fullcount".into() },
            SpeadPeer::Spead2 { folder: "/spead2".into() },
        ];
        let told = |cubic: Vec<f64>| {
            let mut record = Record::new("x", String::new(), None, json!({})).unwrap();
            let mut goals = RateGoals::new(&order, &peers);
            let both = [
                WholeRates { control: "cubic", ours: vec![20.0], theirs: cubic },
                WholeRates { control: "bbr", ours: vec![10.0], theirs: vec![40.0] },
            ];
            let text = table(Some("bbr"), &both, (&mut record, &mut goals));
            (text, goals)
        };
        let (text, goals) = told(vec![25.0]);
        for words in [
            "tcp_congestion_control, is bbr",
            "| cubic | 20.00 (20.00–20.00) | 25.00 (25.00–25.00) | 0.80 |",
            "| bbr | 10.00 (10.00–10.00) | 40.00 (40.00–40.00) | 0.25 |",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let missed = "whole heaps over TCP: fullcount is 0.80 of iperf3 with cubic; wanted 0.90";
        assert_eq!(goals.missed, [missed]);
        assert!(told(vec![20.0]).1.missed.is_empty());
        let (text, goals) = told(vec![]);
        assert!(text.contains("| cubic | 20.00 (20.00–20.00) | – | – |"), "{text}");
        assert_eq!((goals.missed.len(), goals.unmeasured.len()), (0, 1), "no iperf3");
    }
}
