//! Plots that suit the readout unit: sizes of events, and fragments by source: those that came, that are missing, that are damaged.
//!
//! Source: `docs/fragments.md`.

use fullcount_core::view::{Axis, Gate, Plot, PlotColumn, PlotKind};

/// Ids of sources: 12 bits.
const SOURCES: u32 = 4096;
/// Sizes of events that are shown, bytes: 1,000 sources of 2 KiB and some. The page shows other ranges on request.
const MOST_BYTES: u64 = 4 << 20;

/// Presets.
pub(super) fn plots() -> Vec<Plot> {
    let sizes = Axis {
        column: PlotColumn::RecordBytes,
        label: "event size".to_owned(),
        unit: "kB".to_owned(),
        scale: 1000.0,
        first: 0,
        last: MOST_BYTES,
        bins: 4096,
    };
    let missing = Axis {
        column: PlotColumn::RecordMissing,
        label: "missing fragments of an event".to_owned(),
        unit: String::new(),
        scale: 1.0,
        first: 0,
        last: 64,
        bins: 64,
    };
    let gate = |column, value| Gate { column, min: value, max: value };
    let came = vec![gate(PlotColumn::PartMissing, 0)];
    let lost = vec![gate(PlotColumn::PartMissing, 1)];
    let damaged = vec![gate(PlotColumn::PartDamaged, 1)];
    let one = |id: &str, title: &str, axis: Axis, gates: Vec<Gate>, log: bool| {
        let (id, title, kind) = (id.to_owned(), title.to_owned(), PlotKind::Histogram(axis));
        Plot { id, title, kind, gates, log }
    };
    vec![
        one("sizes", "Sizes of events", sizes, vec![], true),
        one("incomplete", "Missing fragments of each event", missing, vec![], true),
        one("came", "Fragments by source", sources(), came, false),
        one("missing", "Missing fragments by source", sources(), lost, false),
        one("damaged", "Damaged fragments by source", sources(), damaged, false),
    ]
}

fn sources() -> Axis {
    Axis {
        column: PlotColumn::PartSource,
        label: "source".to_owned(),
        unit: String::new(),
        scale: 1.0,
        first: 0,
        last: SOURCES.into(),
        bins: SOURCES,
    }
}
