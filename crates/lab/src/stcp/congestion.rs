//! `lab stcp congestion`: the experiment of the paper with its figures, scans around it, four links into one port, and 600 sources.
//!
//! Each part says what it must reach, and the campaign whether it did. Refuses: unknown parts and variants, numbers out of
//! range, before anything runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::cell::{ScanCell, ScanOutcome, SenderRates};
use super::figures::{self, PAPER_LINK_GBPS, PAPER_USEFUL_GBPS};
use super::variant::Variant;
use super::watch::{SimWatch, WatchFiles};
use crate::Tell;
use crate::error::LabError;
use crate::plot::Chart;
use crate::record::{self, Record};

/// What can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanPart {
    /// The paper's experiment, with figures.
    Reference,
    /// The same over queue, window, retransmission time and rate of the links.
    Scan,
    /// The same over retransmission times from 1 to 200 ms, with a table.
    Times,
    /// Four links of 10 Gb/s, full, into a port of 40 Gb/s.
    Merge,
    /// 600 sources at 100 kHz, four to a port of 40 Gb/s.
    Detector,
}

impl ScanPart {
    /// All, in the order of a run.
    pub const ALL: [ScanPart; 5] =
        [ScanPart::Reference, ScanPart::Scan, ScanPart::Times, ScanPart::Merge, ScanPart::Detector];

    /// As a person names it.
    pub const fn name(self) -> &'static str {
        match self {
            ScanPart::Reference => "reference",
            ScanPart::Scan => "scan",
            ScanPart::Times => "times",
            ScanPart::Merge => "merge",
            ScanPart::Detector => "detector",
        }
    }
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// Parts.
    pub parts: Vec<ScanPart>,
    /// Senders that are compared in the reference.
    pub variants: Vec<Variant>,
    /// Sender of scan, merge and detector.
    pub scanned: Variant,
    /// The network of the reference.
    pub cell: ScanCell,
    /// Length of each of the three parts of a network of the scan and of times, ns.
    pub scan_ns: u64,
    /// Time of merge and detector, ns.
    pub layout_ns: u64,
    /// Sources of `detector`, a multiple of four.
    pub sources: usize,
    /// Cells at a time.
    pub threads: usize,
    /// What is written of the first sender of the first network of the reference, or of the first part without it.
    pub watch: WatchFiles,
}

impl ScanOptions {
    /// The part of which a sender is watched.
    fn watched(&self) -> Option<ScanPart> {
        let of = |part: &&ScanPart| **part == ScanPart::Reference;
        self.parts.iter().find(of).or(self.parts.first()).copied()
    }
}

/// What came of it.
#[derive(Debug)]
pub struct ScanFindings {
    /// Tables in Markdown.
    pub text: String,
    /// Figures, to be written.
    pub figures: Vec<Chart>,
    /// What was to be reached and was not.
    pub missed: Vec<String>,
}

fn gbps(bits: f64) -> f64 {
    (bits / 1e6).round() / 1e3
}

fn rates(r: SenderRates) -> String {
    format!("{:.3} / {:.3}", r.useful / 1e9, r.wire / 1e9)
}

fn recovery(o: &ScanOutcome) -> String {
    match o.recovery_s {
        Some(0.0) => "at once".to_owned(),
        Some(s) => format!("{s:.2} s"),
        None => "never".to_owned(),
    }
}

fn row(part: ScanPart, cell: &ScanCell, o: &ScanOutcome) -> Value {
    let rates = |r: SenderRates| json!({"useful_gbps": gbps(r.useful), "link_gbps": gbps(r.wire)});
    let sum =
        |f: fn(&fullcount_stcp::StcpCounters) -> u64| o.course.counters.iter().map(f).sum::<u64>();
    json!({
        "part": part.name(), "variant": cell.variant.name(), "senders": cell.senders,
        "queue_bytes": cell.queue_bytes, "window_bytes": cell.window_bytes, "rto_us": cell.rto_us,
        "emit_gbps": cell.emit_bps as f64 / 1e9, "port_gbps": cell.port_bps as f64 / 1e9, "seed": cell.seed,
        "seconds": cell.end_ns as f64 / 1e9, "overloaded": cell.overloaded(),
        "before": rates(o.before), "during": rates(o.during), "after": rates(o.after),
        "recovery_s": o.recovery_s, "frames": o.course.frames, "dropped": o.course.dropped,
        "drop_share": o.drop_share, "rto_expired": sum(|c| c.rto_expired), "again_fast": sum(|c| c.again_fast),
        "throttled_fragments": o.course.throttled.iter().sum::<u64>(),
        "connected": o.course.connected.iter().all(|c| *c), "hash": format!("{:016x}", o.course.hash),
    })
}

/// Runs cells on several threads; the outcomes come in their order. The first sender of the first cell is watched; the watch comes back.
fn run_watched(
    cells: &[ScanCell],
    threads: usize,
    watch: Option<SimWatch>,
) -> Result<(Vec<ScanOutcome>, Option<SimWatch>), LabError> {
    for cell in cells {
        cell.check().map_err(|e| LabError::Refused(e.to_string()))?;
    }
    let (next, watch, back) = (AtomicUsize::new(0), Mutex::new(watch), Mutex::new(None));
    let done: Mutex<Vec<(usize, ScanOutcome)>> = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(at) else { return };
                    let mine = if at == 0 { lock(&watch).take() } else { None };
                    if let Ok((outcome, mine)) = cell.run_watched(mine) {
                        lock(&done).push((at, outcome));
                        if mine.is_some() {
                            *lock(&back) = mine;
                        }
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|d| d.0);
    let watch = back.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((done.into_iter().map(|d| d.1).collect(), watch))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues, windows, retransmission times and links of the scan: 72 cells.
pub fn scan_cells(variant: Variant, part_ns: u64, seed: u64) -> Vec<ScanCell> {
    let mut cells = vec![];
    for queue_bytes in [300_000, 1_000_000, 2_000_000, 4_000_000] {
        for window_bytes in [1 << 20, 4 << 20] {
            for rto_us in [2000, 5000, 10_000] {
                for emit in [5, 7, 10] {
                    let emit_bps = emit * 1_000_000_000;
                    let bin_ns = 20_000_000.min(part_ns / 10).max(1_000_000);
                    let base = ScanCell::reference(variant, part_ns);
                    cells.push(ScanCell {
                        queue_bytes,
                        window_bytes,
                        rto_us,
                        emit_bps,
                        seed,
                        bin_ns,
                        ..base
                    });
                }
            }
        }
    }
    cells
}

/// Retransmission times of `times`, µs.
const TIMES_US: [u32; 8] = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000];

/// Networks of `times`: 48, a row of the table for each queue and window. A part lasts ten retransmission times at least, or what comes
/// after the fifth sender would be the time alone.
pub fn times_cells(variant: Variant, part_ns: u64, seed: u64) -> Vec<ScanCell> {
    let mut cells = vec![];
    for queue_bytes in [300_000, 1_000_000, 4_000_000] {
        for window_bytes in [1 << 20, 4 << 20] {
            for rto_us in TIMES_US {
                let part_ns = part_ns.max(u64::from(rto_us) * 10_000);
                let bin_ns = 20_000_000.min(part_ns / 10).max(1_000_000);
                let base = ScanCell::reference(variant, part_ns);
                cells.push(ScanCell { queue_bytes, window_bytes, rto_us, seed, bin_ns, ..base });
            }
        }
    }
    cells
}

/// Networks of `detector`: a port for four sources. No buffer on the way has more than 1 MB: queue, send buffer, and the receiver's, which
/// is its window.
pub fn detector_cells(
    variant: Variant,
    sources: usize,
    layout_ns: u64,
    seed: u64,
) -> Vec<ScanCell> {
    let cell = |port| ScanCell {
        senders: 4,
        guest_ns: None,
        rate_hz: 100_000,
        buffer_bytes: 1 << 19,
        queue_bytes: 1_000_000,
        window_bytes: 1_000_000,
        emit_bps: 10_000_000_000,
        port_bps: 40_000_000_000,
        end_ns: layout_ns,
        bin_ns: (layout_ns / 10).max(1_000_000),
        seed: seed.wrapping_add(port),
        ..ScanCell::reference(variant, layout_ns)
    };
    (0..sources.div_ceil(4) as u64).map(cell).collect()
}

struct Campaign<'a> {
    asked: &'a ScanOptions,
    /// Files of the sender that is watched: of the part that runs first.
    watch: Option<SimWatch>,
    record: &'a mut Record,
    found: ScanFindings,
}

impl Campaign<'_> {
    fn must(&mut self, reached: bool, what: String) {
        if !reached {
            self.found.missed.push(what);
        }
    }

    fn figure(&mut self, key: &str, value: f64, unit: &str) {
        if let Some(figure) = record::Figure::of(&[value], unit) {
            self.record.figure(key, &figure);
        }
    }

    /// Runs cells of a part; of the one that is watched the files end with them.
    fn run(&mut self, part: ScanPart, cells: &[ScanCell]) -> Result<Vec<ScanOutcome>, LabError> {
        let mine = if self.asked.watched() == Some(part) { self.watch.take() } else { None };
        let (outcomes, watch) = run_watched(cells, self.asked.threads, mine)?;
        if let Some(watch) = watch {
            let written = watch.finish()?;
            self.record.parameter("frames_in_file", written.frames);
            self.record.parameter("lines_in_trace", written.lines);
        }
        Ok(outcomes)
    }

    fn reference(&mut self) -> Result<(), LabError> {
        let asked = self.asked;
        let cells: Vec<ScanCell> = asked
            .variants
            .iter()
            .map(|&variant| ScanCell { variant, ..asked.cell.clone() })
            .collect();
        let outcomes = self.run(ScanPart::Reference, &cells)?;
        let c = &asked.cell;
        self.found.text += &format!(
            "\n## The paper's experiment\n\n{} senders of {}-byte fragments at {} kHz ({:.3} Gb/s each) into a port of {} Gb/s with a queue of \
             {} kB; links of {} Gb/s, windows of {} kB, retransmission time {} ms; the last sender is there for the middle {} s. \
             Useful / link rate of one of the others, Gb/s, means.\n\n\
             | sender | before | during | after | recovers | dropped |\n|:--|--:|--:|--:|--:|--:|\n",
            c.senders,
            c.fragment_bytes,
            c.rate_hz as f64 / 1e3,
            c.offered_bps().unwrap_or(0.0) / 1e9,
            c.port_bps as f64 / 1e9,
            c.queue_bytes / 1000,
            c.emit_bps as f64 / 1e9,
            c.window_bytes / 1000,
            f64::from(c.rto_us) / 1e3,
            c.guest_ns.map_or(0.0, |(a, b)| (b - a) as f64 / 1e9),
        );
        self.found.text += &format!(
            "| paper, without control | 2.048 | {PAPER_USEFUL_GBPS} / {PAPER_LINK_GBPS} | {PAPER_USEFUL_GBPS} | never | |\n"
        );
        for (cell, o) in cells.iter().zip(&outcomes) {
            let name = cell.variant.name();
            self.record.row(row(ScanPart::Reference, cell, o));
            self.found.text += &format!(
                "| {name} | {} | {} | {} | {} | {:.2} % |\n",
                rates(o.before),
                rates(o.during),
                rates(o.after),
                recovery(o),
                o.drop_share * 100.0
            );
            let key = name.replace('=', "-");
            self.figure(&format!("{key}_during_useful"), gbps(o.during.useful), "Gb/s");
            self.figure(&format!("{key}_after_useful"), gbps(o.after.useful), "Gb/s");
            if let Some(s) = o.recovery_s {
                self.figure(&format!("{key}_recovery"), s, "s");
            }
            self.reached(cell, o);
            self.draw(cell, o);
        }
        Ok(())
    }

    /// What the reference must reach; nothing is asked of other networks, or of runs too short to tell.
    fn reached(&mut self, cell: &ScanCell, o: &ScanOutcome) {
        let part_ns = cell.end_ns / 3;
        let usual = ScanCell {
            seed: cell.seed,
            bin_ns: cell.bin_ns,
            ..ScanCell::reference(cell.variant, part_ns)
        };
        let least_ns = if cell.variant == Variant::Figure6 { 2_000_000_000 } else { 1_000_000_000 };
        if *cell != usual || part_ns < least_ns {
            return;
        }
        let within = |most: f64| o.recovery_s.is_some_and(|s| s <= most);
        match cell.variant {
            Variant::None => {
                let collapse = (0.5e9..1.2e9).contains(&o.during.useful) && o.after.useful < 1.4e9;
                let full = o.during.wire > 4.5e9;
                self.must(
                    collapse && full && o.recovery_s.is_none(),
                    "none: collapses and stays".into(),
                );
            }
            Variant::Simplified => {
                let goes_on = o.during.useful >= 1.9e9 && o.after.useful >= 2.03e9;
                self.must(goes_on && within(0.1), "simplified: recovers within 0.1 s".into());
            }
            Variant::Figure6 => self.must(within(1.5), "figure6: recovers within 1.5 s".into()),
            _ => {}
        }
    }

    fn draw(&mut self, cell: &ScanCell, o: &ScanOutcome) {
        let (part, title, of_paper) = match cell.variant {
            Variant::None => ("figure5", "Figure 5: without control", true),
            Variant::Figure6 => {
                ("figure6", "Figure 6: with a back-off that looks like the paper's", false)
            }
            Variant::Simplified => ("simplified", "The default: simplified", false),
            _ => return,
        };
        let name = format!("{}-{part}", self.record.name());
        self.found.figures.push(figures::over_time(&name, title, cell, o, of_paper));
    }

    fn scan(&mut self) -> Result<(), LabError> {
        let asked = self.asked;
        let cells = scan_cells(asked.scanned, asked.scan_ns, asked.cell.seed);
        let outcomes = self.run(ScanPart::Scan, &cells)?;
        let mut slow = vec![];
        for (cell, o) in cells.iter().zip(&outcomes) {
            self.record.row(row(ScanPart::Scan, cell, o));
            if cell.overloaded() && o.recovery_s.is_none_or(|s| s > 0.1) {
                slow.push((cell, o));
            }
        }
        let least = |f: fn(&ScanOutcome) -> f64| outcomes.iter().map(f).fold(f64::MAX, f64::min);
        self.found.text += &format!(
            "\n## Scan\n\n`{}` in {} cells (queue 0.3, 1, 2, 4 MB; window 1, 4 MiB; retransmission time 2, 5, 10 ms; links 5, 7, 10 Gb/s; three \
             parts of {:.1} s): {} recover within 0.1 s. Least useful rate during overload {:.3} Gb/s, afterwards {:.3} Gb/s; \
             largest share dropped {:.2} %.\n",
            asked.scanned.name(),
            cells.len(),
            asked.scan_ns as f64 / 1e9,
            cells.len() - slow.len(),
            least(|o| o.during.useful) / 1e9,
            least(|o| o.after.useful) / 1e9,
            outcomes.iter().map(|o| o.drop_share).fold(0.0, f64::max) * 100.0,
        );
        if !slow.is_empty() {
            self.found.text += "\n| queue, kB | window, kB | RTO, ms | link, Gb/s | during | after | recovers |\n\
                                |--:|--:|--:|--:|--:|--:|--:|\n";
        }
        for (c, o) in &slow {
            self.found.text += &format!(
                "| {} | {} | {} | {} | {} | {} | {} |\n",
                c.queue_bytes / 1000,
                c.window_bytes / 1000,
                c.rto_us / 1000,
                c.emit_bps / 1_000_000_000,
                rates(o.during),
                rates(o.after),
                recovery(o)
            );
        }
        let count = slow.len();
        self.figure("scan_not_recovered", count as f64, "cells");
        if asked.scanned == Variant::Simplified {
            self.must(count == 0, format!("scan: {count} cells do not recover within 0.1 s"));
        }
        let all = || cells.iter().zip(&outcomes).filter(|(cell, _)| cell.must_collapse());
        if all().next().is_some() {
            let (of, up) = (all().count(), all().filter(|(_, o)| o.recovery_s.is_some()).count());
            let stay = of - up;
            self.found.text += &format!(
                "\nOf {of} networks where the windows of the senders that stay are at least twice the queue, {stay} collapse for good.\n"
            );
            self.must(up == 0, format!("scan: {up} cells without control recover"));
        }
        Ok(())
    }

    fn times(&mut self) -> Result<(), LabError> {
        let asked = self.asked;
        let cells = times_cells(asked.scanned, asked.scan_ns, asked.cell.seed);
        let outcomes = self.run(ScanPart::Times, &cells)?;
        self.found.text += &format!(
            "\n## Retransmission times\n\n`{}` with a link of 5 Gb/s; three parts of {:.1} s, or ten retransmission times. Useful rate of one of the \
             others during overload / afterwards, Gb/s, and when it recovers.\n\n| queue, kB | window, kB |",
            asked.scanned.name(),
            asked.scan_ns as f64 / 1e9,
        );
        let heads = TIMES_US.map(|us| format!(" {} ms |", us / 1000)).concat();
        self.found.text += &format!("{heads}\n|--:|--:|{}\n", "--:|".repeat(TIMES_US.len()));
        let rows = cells.chunks(TIMES_US.len()).zip(outcomes.chunks(TIMES_US.len()));
        for (cells, outcomes) in rows {
            let (queue, window) = (cells[0].queue_bytes / 1000, cells[0].window_bytes / 1000);
            self.found.text += &format!("| {queue} | {window} |");
            for (cell, o) in cells.iter().zip(outcomes) {
                self.record.row(row(ScanPart::Times, cell, o));
                let (during, after) = (o.during.useful / 1e9, o.after.useful / 1e9);
                self.found.text += &format!(" {during:.2} / {after:.2}, {} |", recovery(o));
            }
            self.found.text += "\n";
        }
        let never = outcomes.iter().filter(|o| o.recovery_s.is_none()).count();
        self.found.text += &format!("\nOf {} networks {never} do not recover.\n", cells.len());
        self.figure("times_not_recovered", never as f64, "cells");
        let collapse = || cells.iter().zip(&outcomes).filter(|(cell, _)| cell.must_collapse());
        let up = collapse().filter(|(_, o)| o.recovery_s.is_some()).count();
        self.must(up == 0, format!("times: {up} cells without control recover"));
        // As of the scan; a longer one may cost more than that by itself.
        let slow = |(cell, o): &(&ScanCell, &ScanOutcome)| {
            cell.rto_us <= 10_000 && o.recovery_s.is_none_or(|s| s > 0.1)
        };
        let slow = cells.iter().zip(&outcomes).filter(slow).count();
        if asked.scanned == Variant::Simplified && asked.scan_ns >= 1_000_000_000 {
            self.must(slow == 0, format!("times: {slow} cells do not recover within 0.1 s"));
        }
        Ok(())
    }

    fn merge(&mut self) -> Result<(), LabError> {
        let asked = self.asked;
        let base = ScanCell::reference(asked.scanned, asked.layout_ns);
        let cell = ScanCell {
            senders: 4,
            guest_ns: None,
            fragment_bytes: 8192,
            rate_hz: 0,
            emit_bps: 10_000_000_000,
            port_bps: 40_000_000_000,
            end_ns: asked.layout_ns,
            bin_ns: (asked.layout_ns / 10).max(1_000_000),
            seed: asked.cell.seed,
            ..base
        };
        let cells = [cell];
        let outcomes = self.run(ScanPart::Merge, &cells)?;
        for (cell, o) in cells.iter().zip(&outcomes) {
            self.record.row(row(ScanPart::Merge, cell, o));
            self.found.text += &format!(
                "\n## Four links of 10 Gb/s into a port of 40 Gb/s\n\nFull links for {:.1} s: {:.3} Gb/s useful on each, {} of {} frames dropped.\n",
                asked.layout_ns as f64 / 1e9,
                o.before.useful / 1e9,
                o.course.dropped,
                o.course.frames
            );
            self.figure("merge_useful", gbps(o.before.useful * 4.0), "Gb/s");
            self.must(o.before.useful > 9.7e9, "merge: at least 9.7 Gb/s on each link".into());
        }
        Ok(())
    }

    /// Ports do nothing to each other, so each is a network of its own.
    fn detector(&mut self) -> Result<(), LabError> {
        let asked = self.asked;
        let cells = detector_cells(asked.scanned, asked.sources, asked.layout_ns, asked.cell.seed);
        let (ports, of) = (cells.len(), cells.first().cloned());
        let of = of.ok_or_else(|| LabError::Refused("sources: at least 1".into()))?;
        let outcomes = self.run(ScanPart::Detector, &cells)?;
        let sum = |f: &dyn Fn(&ScanOutcome) -> u64| outcomes.iter().map(f).sum::<u64>();
        let fragments = sum(&|o| o.course.counters.iter().map(|c| c.fragments).sum());
        let throttled = sum(&|o| o.course.throttled.iter().sum());
        let (frames, dropped) = (sum(&|o| o.course.frames), sum(&|o| o.course.dropped));
        let aborted = sum(&|o| o.course.connected.iter().filter(|c| !**c).count() as u64);
        let most = outcomes.iter().flat_map(|o| &o.course.underway).max().copied().unwrap_or(0);
        let useful: f64 = outcomes.iter().map(|o| o.before.useful * 4.0).sum();
        let (sources, seconds) = (ports * 4, asked.layout_ns as f64 / 1e9);
        self.record.row(json!({
            "part": "detector", "variant": asked.scanned.name(), "sources": sources, "ports": ports, "seconds": seconds,
            "queue_bytes": of.queue_bytes, "buffer_bytes": of.buffer_bytes, "window_bytes": of.window_bytes,
            "fragments": fragments, "throttled_fragments": throttled, "frames": frames, "dropped": dropped,
            "aborted": aborted, "useful_gbps": gbps(useful), "most_underway_bytes": most,
        }));
        self.found.text += &format!(
            "\n## {sources} sources at 100 kHz\n\nFour links of 10 Gb/s into each of {ports} ports of 40 Gb/s with queues of 1 MB, send buffers \
             of 0.5 MB, receivers' of 1 MB, {seconds:.2} s: {fragments} fragments of 2048 B ({:.1} Gb/s useful), {throttled} not made because of back-pressure, \
             {dropped} of {frames} frames dropped, {aborted} connections lost; at the end at most {most} B of a source were not in order \
             at its receiver.\n",
            useful / 1e9
        );
        self.figure("detector_useful", gbps(useful), "Gb/s");
        self.must(
            throttled == 0 && aborted == 0 && dropped == 0,
            "detector: nothing throttled, dropped or aborted".into(),
        );
        Ok(())
    }
}

/// Runs what is asked, and says so.
///
/// # Errors
/// Numbers out of range.
pub fn congestion(
    asked: &ScanOptions,
    record: &mut Record,
    tell: Tell,
) -> Result<ScanFindings, LabError> {
    asked.cell.check().map_err(|e| LabError::Refused(e.to_string()))?;
    record
        .parameter("parts", asked.parts.iter().map(|p| p.name()).collect::<Vec<_>>())
        .parameter("variants", asked.variants.iter().map(|v| v.name()).collect::<Vec<_>>())
        .parameter("seed", asked.cell.seed)
        .parameter("threads", asked.threads);
    let found = ScanFindings { text: String::new(), figures: vec![], missed: vec![] };
    let watch = asked.watch.create()?;
    let mut campaign = Campaign { asked, watch, record, found };
    for part in &asked.parts {
        tell(&format!("{} …", part.name()));
        match part {
            ScanPart::Reference => campaign.reference()?,
            ScanPart::Scan => campaign.scan()?,
            ScanPart::Times => campaign.times()?,
            ScanPart::Merge => campaign.merge()?,
            ScanPart::Detector => campaign.detector()?,
        }
    }
    let mut found = campaign.found;
    if !found.missed.is_empty() {
        found.text += &format!("\nNot reached: {}.\n", found.missed.join("; "));
    }
    Ok(found)
}
