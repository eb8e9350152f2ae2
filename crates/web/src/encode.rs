//! One plot as bytes for the page.
//!
//! Little-endian: magic `FCP1`, length of the head (u32), head as JSON padded with blanks to a multiple of 8, then the
//! cells as u32, or as f64 where one is above 2³²−1 (exact to 2⁵³). A picture of 160 × 160 takes 100 KiB. Read by
//! `page/wire.js`.

use serde_json::{Value, json};

use fullcount_core::view::{Axis, PixelMap, Plot, PlotColumn, PlotKind};

use super::fill::TRACK_NUMBERS;
use super::snapshot::PlotPicture;

/// Which counts are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Since the last clear.
    Total,
    /// The window.
    Current,
}

/// An axis for the page.
fn axis(a: &Axis) -> Value {
    let column = match a.column {
        PlotColumn::Pixel => "pixel",
        PlotColumn::OffsetNs => "offset_ns",
        PlotColumn::Adc => "adc",
        PlotColumn::HitPixel => "hit_pixel",
        PlotColumn::ClusterPlane => "cluster_plane",
        PlotColumn::ClusterSize => "cluster_size",
        PlotColumn::ClusterSpanNs => "cluster_span_ns",
        PlotColumn::ClusterAdc => "cluster_adc",
        PlotColumn::RecordBytes => "record_bytes",
        PlotColumn::RecordMissing => "record_missing",
        PlotColumn::PartSource => "part_source",
        PlotColumn::PartMissing => "part_missing",
        PlotColumn::PartDamaged => "part_damaged",
    };
    json!({"column": column, "label": a.label, "unit": a.unit, "scale": a.scale,
           "first": a.first, "last": a.last, "bins": a.bins})
}

/// What a plot is, without its counts.
pub(super) fn describe(plot: &Plot, pixels: &PixelMap) -> Value {
    let (mut tiles, mut planes) = (Value::Null, Value::Null);
    let label = |text: &str| json!({"label": text});
    let (kind, x, y, width, height) = match &plot.kind {
        PlotKind::Image => ("image", Value::Null, Value::Null, pixels.columns, pixels.rows),
        PlotKind::Tiles(t) => {
            tiles = json!({"name": t.name, "x": t.x, "y": t.y, "columns": t.columns, "rows": t.rows,
                           "upwards": t.upwards});
            ("image", Value::Null, Value::Null, pixels.columns, pixels.rows)
        }
        // One row is a spectrum over cells; no column is named, so the page offers no other bins.
        PlotKind::Projection(p) if p.rows == 1 => {
            let x = json!({"column": Value::Null, "label": p.x, "unit": "", "scale": 1.0,
                           "first": 0, "last": p.columns, "bins": p.columns});
            ("line", x, Value::Null, p.columns, 1)
        }
        PlotKind::Projection(p) => ("projection", label(&p.x), label(&p.y), p.columns, p.rows),
        PlotKind::Histogram(x) => ("line", axis(x), Value::Null, x.bins, 1),
        PlotKind::Histogram2(x, y) => ("plane", axis(x), axis(y), x.bins, y.bins),
        PlotKind::Tracks(t) => {
            planes = json!(t.planes);
            // A hit is a row of numbers; how many there are changes.
            ("tracks", Value::Null, Value::Null, TRACK_NUMBERS as u32, 0)
        }
        PlotKind::Waterfall(w) => {
            let x = label(w.item.as_deref().unwrap_or("cell"));
            ("waterfall", x, label("heap, newest 0"), w.bins, w.lines)
        }
    };
    json!({"id": plot.id, "title": plot.title, "kind": kind, "log": plot.log,
           "gates": plot.gates.len(), "x": x, "y": y, "tiles": tiles, "planes": planes, "width": width, "height": height})
}

/// Head and cells.
pub(super) fn plot(picture: &PlotPicture, pixels: &PixelMap, mode: Mode) -> Vec<u8> {
    let cells = match mode {
        Mode::Total => &picture.total,
        Mode::Current => &picture.current,
    };
    // Those of a waterfall are the bits of doubles.
    let doubles = matches!(picture.plot.kind, PlotKind::Waterfall(_));
    let largest = cells.iter().copied().max().unwrap_or(0);
    let narrow = largest <= u64::from(u32::MAX) && !doubles;
    // They are no counts: heaps are counted.
    let sum = if doubles { picture.tally.counted } else { cells.iter().sum::<u64>() };
    let mut head = describe(&picture.plot, pixels);
    let extra = json!({
        "version": picture.version,
        "cell": if narrow { "u32" } else { "f64" },
        "mode": match mode { Mode::Total => "total", Mode::Current => "current" },
        "sum": sum,
        "counted": picture.tally.counted,
        "outside": picture.tally.outside,
        "gated": picture.tally.gated,
        "since_s": picture.since.as_secs_f64(),
        "window_from_s": picture.window_from.as_secs_f64(),
        "at_s": picture.at.as_secs_f64(),
    });
    if let (Value::Object(head), Value::Object(extra)) = (&mut head, extra) {
        head.extend(extra);
    }
    let mut head = head.to_string().into_bytes();
    head.resize(head.len().next_multiple_of(8), b' ');
    let mut out = Vec::with_capacity(8 + head.len() + cells.len() * 8);
    out.extend_from_slice(b"FCP1");
    out.extend_from_slice(&(head.len() as u32).to_le_bytes());
    out.extend_from_slice(&head);
    if doubles {
        cells.iter().for_each(|&c| out.extend_from_slice(&c.to_le_bytes()));
    } else if narrow {
        cells.iter().for_each(|&c| out.extend_from_slice(&(c as u32).to_le_bytes()));
    } else {
        cells.iter().for_each(|&c| out.extend_from_slice(&(c as f64).to_le_bytes()));
    }
    out
}

/// Pixel number of each picture cell as u32: 0 if there is none, the first if there are several.
pub(super) fn pixels(map: &PixelMap) -> Vec<u8> {
    let mut of_cell = vec![0u32; map.columns as usize * map.rows as usize];
    for (i, &cell) in map.cell.iter().enumerate() {
        if let Some(p) = of_cell.get_mut(cell as usize).filter(|p| **p == 0) {
            *p = i as u32 + 1;
        }
    }
    of_cell.iter().flat_map(|p| p.to_le_bytes()).collect()
}

/// How many pixels each cell of a picture sums, as u32; `None` for plots over columns.
pub(super) fn summed(plot: &Plot, map: &PixelMap) -> Option<Vec<u8>> {
    let (cells, table) = match &plot.kind {
        PlotKind::Image | PlotKind::Tiles(_) => {
            (map.columns as usize * map.rows as usize, &map.cell)
        }
        PlotKind::Projection(p) => (p.columns as usize * p.rows as usize, &p.cell),
        PlotKind::Histogram(_)
        | PlotKind::Histogram2(..)
        | PlotKind::Tracks(_)
        | PlotKind::Waterfall(_) => return None,
    };
    let mut of_cell = vec![0u32; cells];
    for &cell in table {
        if let Some(n) = of_cell.get_mut(cell as usize) {
            *n += 1;
        }
    }
    Some(of_cell.iter().flat_map(|n| n.to_le_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::PlotTally;
    use fullcount_core::view::{Projection, Tiles, Tracks};
    use std::time::Duration;

    fn picture(total: Vec<u64>) -> PlotPicture {
        let id = "image".to_owned();
        let plot = Plot { title: id.clone(), id, kind: PlotKind::Image, gates: vec![], log: false };
        PlotPicture {
            plot,
            version: 3,
            current: vec![0; total.len()],
            total,
            tally: PlotTally::default(),
            since: Duration::ZERO,
            window_from: Duration::ZERO,
            at: Duration::from_secs(1),
        }
    }

    fn map() -> PixelMap {
        PixelMap { columns: 2, rows: 2, cell: vec![3, 0, 0], ..PixelMap::default() }
    }

    fn split(bytes: &[u8]) -> (Value, &[u8]) {
        assert_eq!(&bytes[..4], b"FCP1");
        let n = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        assert_eq!(n % 8, 0, "cells stay aligned for typed arrays");
        (serde_json::from_slice(&bytes[8..8 + n]).unwrap(), &bytes[8 + n..])
    }

    #[test]
    fn small_counts_are_u32_and_large_ones_f64() {
        let bytes = plot(&picture(vec![1, 2, 3, 4]), &map(), Mode::Total);
        let (head, cells) = split(&bytes);
        assert_eq!((head["cell"].as_str(), head["sum"].as_u64()), (Some("u32"), Some(10)));
        assert_eq!((head["width"].as_u64(), head["kind"].as_str()), (Some(2), Some("image")));
        assert_eq!(cells, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        let bytes = plot(&picture(vec![0, 1 << 40, 0, 0]), &map(), Mode::Total);
        let (head, cells) = split(&bytes);
        assert_eq!(head["cell"].as_str(), Some("f64"));
        assert_eq!(f64::from_le_bytes(cells[8..16].try_into().unwrap()), (1u64 << 40) as f64);
    }

    fn said(kind: PlotKind) -> Value {
        let (id, title) = ("a".to_owned(), "A".to_owned());
        describe(&Plot { id, title, kind, gates: vec![], log: true }, &map())
    }

    fn projection(columns: u32, rows: u32, cell: Vec<u32>) -> PlotKind {
        let (x, y) = ("grid".to_owned(), "z".to_owned());
        PlotKind::Projection(Projection { x, y, columns, rows, cell })
    }

    #[test]
    fn a_projection_says_its_axes_and_its_own_size() {
        let head = said(projection(1, 3, vec![0, 1, 2]));
        assert_eq!(head["kind"], "projection");
        assert_eq!((&head["width"], &head["height"]), (&json!(1), &json!(3)));
        assert_eq!((&head["x"], &head["y"]), (&json!({"label": "grid"}), &json!({"label": "z"})));
        assert_eq!(head["tiles"], Value::Null);
        let mut counted = picture(vec![7, 0, 5]);
        counted.plot.kind = projection(1, 3, vec![0, 1, 2]);
        let bytes = plot(&counted, &map(), Mode::Total);
        let (head, cells) = split(&bytes);
        assert_eq!((head["kind"].as_str(), head["sum"].as_u64()), (Some("projection"), Some(12)));
        assert_eq!(cells.len(), 4 * 3, "a cell of the projection each, not of the picture");
    }

    #[test]
    fn a_projection_of_one_row_is_a_spectrum_without_a_column() {
        let head = said(projection(3, 1, vec![0, 1, 2]));
        assert_eq!((&head["kind"], &head["height"]), (&json!("line"), &json!(1)));
        let x = json!({"column": null, "label": "grid", "unit": "", "scale": 1.0, "first": 0, "last": 3, "bins": 3});
        assert_eq!((&head["x"], &head["y"]), (&x, &Value::Null));
    }

    #[test]
    fn single_events_are_rows_of_numbers_with_labels_of_planes() {
        let planes = vec!["x strip".to_owned(), "y strip".to_owned()];
        let head = said(PlotKind::Tracks(Tracks { planes, events: 3 }));
        assert_eq!((&head["kind"], &head["width"]), (&json!("tracks"), &json!(5)));
        assert_eq!(head["planes"], json!(["x strip", "y strip"]));
        assert_eq!(said(PlotKind::Image)["planes"], Value::Null);
    }

    #[test]
    fn tiles_are_an_image_that_says_what_its_parts_are() {
        let (name, x, y) = ("layer".to_owned(), "x".to_owned(), "y".to_owned());
        let head = said(PlotKind::Tiles(Tiles { name, x, y, columns: 1, rows: 2, upwards: true }));
        assert_eq!((&head["kind"], &head["width"]), (&json!("image"), &json!(2)));
        let tiles =
            json!({"name": "layer", "x": "x", "y": "y", "columns": 1, "rows": 2, "upwards": true});
        assert_eq!(head["tiles"], tiles);
        assert_eq!(said(PlotKind::Image)["tiles"], Value::Null);
    }

    #[test]
    fn cells_know_how_many_pixels_they_sum() {
        let of = |kind| {
            let (id, title) = ("a".to_owned(), "A".to_owned());
            let bytes = summed(&Plot { id, title, kind, gates: vec![], log: true }, &map())?;
            let words = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
            Some(words.collect::<Vec<_>>())
        };
        assert_eq!(of(PlotKind::Image), Some(vec![2, 0, 0, 1]));
        assert_eq!(of(projection(3, 1, vec![2, 2, 0])), Some(vec![1, 0, 2]));
        let (column, label, unit) = (PlotColumn::Pixel, String::new(), String::new());
        let x = Axis { column, label, unit, scale: 1.0, first: 0, last: 4, bins: 4 };
        assert_eq!(of(PlotKind::Histogram(x)), None);
    }

    #[test]
    fn cells_know_their_first_pixel() {
        assert_eq!(pixels(&map()), [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    }
}
