//! A whole computation: instruments by name or file, the committed costs, the plan and simulation of each, and the text.
//!
//! Refuses: unknown instruments, files that cannot be read, and values out of range.

use fullcount_engine::config::refuse;
use fullcount_io::input_file;
use fullcount_messages::EventWriter;

use super::CapacityError;
use super::advice::run;
use super::instrument::{Instrument, InstrumentFile, InstrumentKind, named, table};
use super::measured::{Measure, MeasuredRates};
use super::plan::{EVENT_BYTES, Wishes, plan};
use super::queues::{QueueSetup, Sizes};
use super::report::{CapacityReport, overview, row, section};
use crate::bench::costs;
use crate::error::LabError;
use crate::record::Record;

/// Results of this repository, in the order of being read.
const COMMITTED: [(&str, &str); 4] = [
    ("detectors-memory.json", include_str!("../../../../docs/results/detectors-memory.json")),
    ("detectors-udp.json", include_str!("../../../../docs/results/detectors-udp.json")),
    ("lossless-veth-cut.json", include_str!("../../../../docs/results/lossless-veth-cut.json")),
    ("capacity-measured.json", include_str!("../../../../docs/results/capacity-measured.json")),
];

fn wrong(e: CapacityError) -> LabError {
    LabError::Refused(e.to_string())
}

/// The costs of the committed results.
///
/// # Errors
/// One of these files has none.
pub fn committed() -> Result<MeasuredRates, CapacityError> {
    let mut facts = MeasuredRates::default();
    COMMITTED.iter().try_for_each(|(name, text)| facts.read(name, text))?;
    Ok(facts)
}

/// Instruments of a name, or of a file that ends with `.toml`.
///
/// # Errors
/// A name that is not known, and a file that cannot be read.
pub fn instruments(name: &str) -> Result<Vec<Instrument>, LabError> {
    if !name.ends_with(".toml") {
        return named(name).map_err(wrong);
    }
    let text = input_file::text(name.as_ref(), input_file::LARGEST_INPUT)
        .map_err(|e| refuse("instrument", name, format!("a file that can be read ({e})")))?;
    let file: InstrumentFile = toml::from_str(&text)
        .map_err(|e| refuse("instrument", name, e.to_string().trim_end().to_owned()))?;
    file.instruments(name).map_err(wrong)
}

/// Bytes of an ev44 message beside its events: one is made and counted.
///
/// # Errors
/// No message of so many events.
pub fn message_bytes(events: u64) -> Result<f64, LabError> {
    let batch = costs::batch(events as u32, 0);
    let mut writer = EventWriter::new();
    let message = writer.ev44("detector", 1, &batch).map_err(anyhow::Error::from)?;
    Ok(message.len() as f64 - events as f64 * EVENT_BYTES)
}

/// Plans and simulates every instrument, notes it, and gives the text.
///
/// # Errors
/// Values out of range, and a detector that nothing was measured of.
pub fn compute(
    instruments: &[Instrument],
    facts: &MeasuredRates,
    wishes: &Wishes,
    sizes: Sizes,
    record: &mut Record,
) -> Result<String, LabError> {
    let value = |m: &Option<Measure>| m.as_ref().map(|m| m.value);
    let mut reports = vec![];
    for instrument in instruments {
        let plan = plan(instrument, facts, wishes).map_err(wrong)?;
        let produce = wishes.produce.or(value(&facts.produce));
        let setup = QueueSetup::new(&plan, &sizes, value(&facts.spool), produce);
        reports.push(CapacityReport::new(plan, run(setup), sizes));
    }
    record
        .parameter("headroom", wishes.headroom)
        .parameter("peak_factor", wishes.peak_factor)
        .parameter("threads", wishes.threads)
        .parameter("host_cores", wishes.host_cores)
        .parameter("reserve_cores", wishes.reserve)
        .parameter("port_bits_per_s", wishes.port)
        .parameter("ports", wishes.ports)
        .parameter("size_for", if wishes.size_for_peak { "peak" } else { "average" })
        .parameter("message_events", wishes.message_events)
        .parameter("message_bytes", wishes.message_bytes)
        .parameter("replication", wishes.replication)
        .parameter("retention_s", wishes.retention_s)
        .parameter("outage_s", wishes.outage_s)
        .parameter("step_s", sizes.step_s)
        .parameter("seed", sizes.seed);
    reports.iter().for_each(|r| {
        record.row(row(r, facts));
    });
    let mut text = overview(&reports);
    text +=
        "\nBefore the arrow: average over pulses. Behind it: in the 1 ms at the peak of a pulse.\n";
    reports.iter().for_each(|r| text += &section(r, facts));
    Ok(text)
}

/// The table of instruments, what is known of them, and where from.
pub fn list() -> String {
    let mut text = "| instrument | what | events/s | bytes an event | links | source |\n\
                    |:--|:--|--:|--:|:--|:--|\n"
        .to_owned();
    for i in table() {
        let of_events = |v: Option<String>| v.filter(|_| i.kind != InstrumentKind::Packets);
        let shown = |v: Option<String>| of_events(v).unwrap_or("–".to_owned());
        let rate = shown(i.rate.map(|rate| format!("{} M", rate / 1e6)));
        let links =
            i.links.map_or("–".to_owned(), |l| format!("{} × {} GbE", l.count, l.speed / 1e9));
        let each = shown(i.bytes_per_event.map(|bytes| format!("{bytes:.1}")));
        let assumed = i.kind.assumption().map_or(String::new(), |what| format!("; {what}"));
        text += &format!(
            "| {} | {} | {rate} | {each} | {links} | {}{assumed} |\n",
            i.name, i.about, i.source
        );
    }
    text
}
