//! Square modules of equal size on one flat panel: picture cells and positions of every pixel.
//!
//! Refuses modules that share a pixel number or a picture cell (both are named) and numbers that belong
//! to no module. Frame: the picture is the panel as the sample sees it, row 0 on top; x counts in metres to
//! the left along the beam (NeXus), so it falls with the column, and y up. Source: the contract of
//! `fullcount_core::view::PixelMap`.

use fullcount_core::refusal::{Refusal, setting};
use fullcount_core::view::PixelMap;

/// Quarter turns of a module, clockwise in the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuarterTurn {
    /// As the format's logical view shows it.
    #[default]
    None,
    /// 90 degrees.
    Quarter,
    /// 180 degrees.
    Half,
    /// 270 degrees.
    ThreeQuarters,
}

impl QuarterTurn {
    /// The turn of 0, 90, 180 or 270 degrees.
    pub fn from_degrees(degrees: u16) -> Option<QuarterTurn> {
        match degrees {
            0 => Some(QuarterTurn::None),
            90 => Some(QuarterTurn::Quarter),
            180 => Some(QuarterTurn::Half),
            270 => Some(QuarterTurn::ThreeQuarters),
            _ => None,
        }
    }

    /// Where the pixel at column `x`, row `y` of an unturned `side` × `side` module is seen.
    pub fn apply(self, x: u32, y: u32, side: u32) -> (u32, u32) {
        let last = side - 1;
        match self {
            QuarterTurn::None => (x, y),
            QuarterTurn::Quarter => (last - y, x),
            QuarterTurn::Half => (last - x, last - y),
            QuarterTurn::ThreeQuarters => (y, last - x),
        }
    }
}

/// One module on the panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// How messages call it: key and source.
    pub label: String,
    /// Added to the module's pixels 1..=side².
    pub pixel_offset: u32,
    /// Column of the module in the picture, in modules.
    pub column: u32,
    /// Row of the module in the picture, in modules.
    pub row: u32,
    /// Turn against the format's logical view.
    pub turn: QuarterTurn,
    /// Centre, metres: x to the left along the beam, y up.
    pub centre_m: (f64, f64),
}

/// Size of the modules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pitch {
    /// Columns and rows of a module.
    pub side: u32,
    /// Distance of neighbouring pixels of a module, metres.
    pub pixel_m: f64,
}

/// Makes the pixel map of `modules`; `file` stands in front of messages.
///
/// # Errors
/// Two modules with common pixel numbers or the same cell; numbers without a module.
pub fn place(
    file: &str,
    name: &str,
    modules: &[Module],
    pitch: Pitch,
) -> Result<PixelMap, Refusal> {
    let value = |key: &str, value: String, allowed: String| {
        setting(format!("{file}: {key}"), value, allowed)
    };
    let Pitch { side, pixel_m } = pitch;
    let pixels = side * side;
    let mut by_number: Vec<&Module> = modules.iter().collect();
    by_number.sort_by_key(|m| m.pixel_offset);
    let mut expected = 0;
    for (i, m) in by_number.iter().enumerate() {
        if m.pixel_offset < expected {
            let other = by_number[i - 1];
            return Err(value(
                "pixel_offset",
                format!("{} in {}", m.pixel_offset, m.label),
                format!(
                    "its pixels {}..={} overlap {}..={} of {}",
                    m.pixel_offset + 1,
                    m.pixel_offset + pixels,
                    other.pixel_offset + 1,
                    other.pixel_offset + pixels,
                    other.label
                ),
            ));
        }
        if m.pixel_offset > expected {
            return Err(value(
                "pixel_offset",
                format!("{} in {}", m.pixel_offset, m.label),
                format!(
                    "pixels {}..={} would belong to no module; give {expected}",
                    expected + 1,
                    m.pixel_offset
                ),
            ));
        }
        expected += pixels;
    }
    let mut cells: std::collections::HashMap<(u32, u32), &Module> = Default::default();
    for m in modules {
        if let Some(other) = cells.insert((m.column, m.row), m) {
            return Err(value(
                "cell",
                format!("[{}, {}] in {}", m.column, m.row, m.label),
                format!("{} is already there", other.label),
            ));
        }
    }
    let columns = side * modules.iter().map(|m| m.column + 1).max().unwrap_or(0);
    let rows = side * modules.iter().map(|m| m.row + 1).max().unwrap_or(0);
    let n = modules.len() * pixels as usize;
    let (mut cell, mut x_m, mut y_m) = (vec![0; n], vec![0.0; n], vec![0.0; n]);
    let middle = f64::from(side - 1) / 2.0;
    for m in modules {
        for i in 0..pixels {
            let (x, y) = m.turn.apply(i % side, i / side, side);
            let at = (m.pixel_offset + i) as usize;
            cell[at] = (m.row * side + y) * columns + m.column * side + x;
            x_m[at] = m.centre_m.0 - (f64::from(x) - middle) * pixel_m;
            y_m[at] = m.centre_m.1 - (f64::from(y) - middle) * pixel_m;
        }
    }
    Ok(PixelMap { name: name.to_owned(), columns, rows, cell, x_m, y_m, ..PixelMap::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PITCH: Pitch = Pitch { side: 2, pixel_m: 0.5 };

    fn module(label: &str, pixel_offset: u32, column: u32, row: u32) -> Module {
        let turn = QuarterTurn::None;
        let centre_m = (0.0, 0.0);
        Module { label: label.into(), pixel_offset, column, row, turn, centre_m }
    }

    #[test]
    fn cells_and_positions_agree_in_the_frame_of_the_picture() {
        let map = place("f", "p", &[module("a", 0, 0, 0), module("b", 4, 1, 0)], PITCH).unwrap();
        assert_eq!((map.columns, map.rows, map.pixels()), (4, 2, 8));
        assert_eq!(map.cell, [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(map.x_m[..4], [0.25, -0.25, 0.25, -0.25], "x falls with the column");
        assert_eq!(map.y_m[..4], [0.25, 0.25, -0.25, -0.25], "y falls with the row");
    }

    #[test]
    fn a_quarter_turn_is_clockwise_and_four_of_them_are_none() {
        assert_eq!(QuarterTurn::Quarter.apply(0, 0, 8), (7, 0), "top left goes to top right");
        for (x, y) in [(0, 0), (3, 1), (7, 2)] {
            let mut at = (x, y);
            for _ in 0..4 {
                at = QuarterTurn::Quarter.apply(at.0, at.1, 8);
            }
            assert_eq!(at, (x, y));
            let half = QuarterTurn::Quarter.apply(x, y, 8);
            assert_eq!(
                QuarterTurn::Quarter.apply(half.0, half.1, 8),
                QuarterTurn::Half.apply(x, y, 8)
            );
            let back = QuarterTurn::ThreeQuarters.apply(x, y, 8);
            assert_eq!(QuarterTurn::Quarter.apply(back.0, back.1, 8), (x, y));
        }
        assert_eq!(QuarterTurn::from_degrees(45), None);
    }

    #[test]
    fn refusals_name_both_modules() {
        let says =
            |modules: &[Module]| place("f.toml", "p", modules, PITCH).unwrap_err().to_string();
        let e = says(&[module("a", 0, 0, 0), module("b", 3, 1, 0)]);
        assert!(e.contains("3 in b") && e.contains("4..=7 overlap 1..=4 of a"), "{e}");
        let e = says(&[module("a", 0, 0, 0), module("b", 4, 0, 0)]);
        assert!(e.contains("[0, 0] in b") && e.contains("a is already there"), "{e}");
        let e = says(&[module("a", 0, 0, 0), module("b", 6, 1, 0)]);
        assert!(e.contains("pixels 5..=6 would belong to no module; give 4"), "{e}");
    }
}
