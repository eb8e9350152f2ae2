//! Figures as SVG and PNG, drawn alike: lines with markers and spread over logarithmic sizes, a legend above.
//!
//! Text is set in an embedded font, so that a host without fonts draws the same. [`campaign`] makes the three figures
//! of a campaign. Refuses: a figure without a point, and what the file system says.

pub mod campaign;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fullcount_io::newfile;
use plotters::coord::combinators::BindKeyPoints;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use crate::record::files;

/// Family, as SVG viewers look it up; registered with the embedded font for measuring and for PNG.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
/// Latin, Greek and mathematical characters of DejaVu Sans; licence beside the file.
static FONT: &[u8] = include_bytes!("DejaVuSans-latin.ttf");

/// Width and height in pixels: 16 cm at 254 dpi.
const SIZE: (u32, u32) = (1600, 1100);
/// Letters of axes and legend, and of the title, pixels high.
const LETTERS: f64 = 32.0;
const TITLE: f64 = 38.0;
/// Left edge of the plot; title and legend begin there.
const LEFT: i32 = 160;
/// Free at the left of the vertical axis' label, which is centred on its edge.
const MARGIN: i32 = 30;

const INK: RGBColor = RGBColor(34, 34, 34);
const PALE: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(226, 226, 226);
/// Colours that stay apart for most colour-blind readers (Okabe and Ito 2008), dark ones first.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ChartError {
    #[error("figure {0}: no point was measured")]
    Empty(String),
    #[error("figure {name}: {cause}")]
    Draw { name: String, cause: String },
    #[error("{path}: {cause}: check that the folder exists and is writable")]
    Write { path: PathBuf, cause: std::io::Error },
}

/// One value with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Place on the axis of sizes.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Least and most, where there were several.
    pub spread: Option<(f64, f64)>,
    /// True: the value is a bound that nothing was seen above of; drawn as a hollow triangle that points down.
    pub below: bool,
}

/// How a line is drawn: with markers, or without (theory, limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// Solid with filled markers.
    Solid,
    /// Dashed with hollow markers.
    Dashed,
    /// Solid, no marker.
    Line,
    /// Thin and dotted in the colour of its kind, no marker.
    Limit,
    /// Dotted, grey, no marker.
    Floor,
}

impl Stroke {
    fn marked(self) -> bool {
        match self {
            Stroke::Solid | Stroke::Dashed => true,
            Stroke::Line | Stroke::Limit | Stroke::Floor => false,
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartLine {
    /// In the legend.
    pub name: String,
    /// Which colour and marker; lines that belong together share it.
    pub colour: usize,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Points in the order of x.
    pub dots: Vec<Dot>,
}

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlotAxis {
    /// From 0 to at least the number given.
    Linear(f64),
    /// Whole decades around the values.
    Logarithmic,
}

/// A figure over packet sizes, or over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// File name without extension.
    pub name: String,
    /// Above it.
    pub title: String,
    /// Under the horizontal axis, with the unit.
    pub x_label: String,
    /// Beside the vertical axis, with the unit.
    pub y_label: String,
    /// Horizontal axis; logarithmic over sizes.
    pub x_axis: PlotAxis,
    /// Vertical axis.
    pub axis: PlotAxis,
    /// Lines, the first drawn first.
    pub lines: Vec<ChartLine>,
}

impl Chart {
    /// Its files.
    pub fn files(&self) -> [String; 2] {
        ["svg", "png"].map(|e| format!("{}.{e}", self.name))
    }

    /// Draws `<folder>/<name>.svg` and `.png`, each in one step; gives their paths ([`crate::record::files::place`]).
    ///
    /// # Errors
    /// No point at all, or what the file system says.
    pub fn write(&self, folder: &Path, overwrite: bool) -> Result<[PathBuf; 2], ChartError> {
        let svg = self.svg()?;
        let paths = self.files().map(|file| folder.join(file));
        let refuse = |path: &Path| {
            let path = path.to_owned();
            move |cause| ChartError::Write { path, cause }
        };
        std::fs::create_dir_all(folder).map_err(refuse(folder))?;
        // The drawing library takes the format from the name's end, and its own error for a folder that cannot be written says
        // nothing. It opens the file by its name: in a folder where nobody else can have put one.
        let scratch = newfile::Scratch::make(folder, ".figure").map_err(refuse(folder))?;
        let drawn = self.files().map(|file| scratch.path().join(file));
        std::fs::write(&drawn[0], svg).map_err(refuse(&paths[0]))?;
        self.draw(BitMapBackend::new(&drawn[1], SIZE).into_drawing_area())?;
        let mut placed = paths.clone();
        for ((drawn, path), placed) in drawn.iter().zip(&paths).zip(&mut placed) {
            *placed = files::place(drawn, path, overwrite).map_err(refuse(path))?;
        }
        Ok(placed)
    }

    /// The figure as SVG.
    ///
    /// # Errors
    /// No point at all.
    pub fn svg(&self) -> Result<String, ChartError> {
        let mut text = String::new();
        self.draw(SVGBackend::with_string(&mut text, SIZE).into_drawing_area())?;
        Ok(text)
    }

    /// True if there is no point to draw.
    pub fn is_empty(&self) -> bool {
        self.dots().next().is_none()
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.lines.iter().flat_map(|l| &l.dots)
    }

    fn failed(&self, cause: impl std::fmt::Display) -> ChartError {
        ChartError::Draw { name: self.name.clone(), cause: cause.to_string() }
    }

    fn draw<B: DrawingBackend>(
        &self,
        area: DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<(), ChartError> {
        let fail = |e: DrawingAreaErrorKind<B::ErrorType>| self.failed(e);
        if self.is_empty() {
            return Err(ChartError::Empty(self.name.clone()));
        }
        font().map_err(|e| self.failed(e))?;
        area.fill(&WHITE).map_err(fail)?;
        let title = letters(TITLE, &INK);
        area.draw(&Text::new(self.title.clone(), (LEFT, 28), title)).map_err(fail)?;
        let rows = self.legend(&area).map_err(fail)?;
        let (_, plot) = area.split_vertically(95 + 46 * rows);
        let mut builder = ChartBuilder::on(&plot);
        builder.margin_right(50).margin_bottom(20).margin_top(10);
        builder.margin_left(MARGIN).x_label_area_size(100).y_label_area_size(LEFT - MARGIN);
        let style = letters(LETTERS, &INK);
        macro_rules! chart {
            ($x:expr, $x_labels:expr, $axis:expr, $labels:expr, $text:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, $axis).map_err(fail)?;
                let mut mesh = chart.configure_mesh();
                mesh.x_desc(self.x_label.clone()).y_desc(self.y_label.clone());
                mesh.label_style(style.clone()).axis_desc_style(style.clone());
                mesh.x_label_formatter(&|x: &f64| linear_text(*x)).y_label_formatter(&$text);
                mesh.x_labels($x_labels).y_labels($labels);
                mesh.bold_line_style(GRID).light_line_style(TRANSPARENT).axis_style(PALE);
                mesh.draw().map_err(fail)?;
                for line in &self.lines {
                    draw_line(chart.plotting_area(), line).map_err(fail)?;
                }
            }};
        }
        macro_rules! over_x {
            ($axis:expr, $labels:expr, $text:expr) => {{
                match self.x_axis {
                    PlotAxis::Linear(from) => {
                        let most = self.dots().map(|d| d.x).fold(from, f64::max);
                        // A single point has a place as well.
                        let to = if most > from { most } else { from + 1.0 };
                        chart!(from..to, 11, $axis, $labels, $text)
                    }
                    PlotAxis::Logarithmic => {
                        let xs = self.x_range();
                        let ticks = x_ticks(&xs);
                        let x_axis = xs.log_scale().with_key_points(ticks.clone());
                        chart!(x_axis, ticks.len(), $axis, $labels, $text)
                    }
                }
            }};
        }
        match self.axis {
            PlotAxis::Linear(least) => {
                let most = self.dots().map(|d| d.spread.map_or(d.y, |s| s.1.max(d.y)));
                let top = most.fold(least, f64::max) * 1.06;
                over_x!(0.0..top, 8, |y: &f64| linear_text(*y));
            }
            PlotAxis::Logarithmic => {
                let ys = self.dots().map(|d| d.y).filter(|y| *y > 0.0);
                let (low, high) = ys.fold((f64::MAX, f64::MIN), |(l, h), y| (l.min(y), h.max(y)));
                // Values at the very edge of a decade get one more, so that markers stay inside.
                let from = (low / 1.5).log10().floor() as i32;
                let to = ((high * 1.5).log10().ceil() as i32).max(from + 2);
                let decades: Vec<f64> = (from..=to).map(|d| 10f64.powi(d)).collect();
                let range = (10f64.powi(from)..10f64.powi(to)).log_scale();
                let axis = range.with_key_points(decades.clone());
                over_x!(axis, decades.len(), |y: &f64| decade_text(*y));
            }
        }
        area.present().map_err(fail)
    }

    fn x_range(&self) -> std::ops::Range<f64> {
        let xs = self.dots().map(|d| d.x);
        let (low, high) = xs.fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
        low / 1.18..high * 1.18
    }

    /// The legend, in rows under the title; how many.
    fn legend<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<i32, DrawingAreaErrorKind<B::ErrorType>> {
        let style = letters(LETTERS, &INK);
        let beside = style.pos(Pos::new(HPos::Left, VPos::Center));
        let (mut x, mut row) = (LEFT, 0);
        for line in &self.lines {
            let width = area.estimate_text_size(&line.name, &style)?.0 as i32 + 130;
            if x > LEFT && x + width > SIZE.0 as i32 - 20 {
                (x, row) = (LEFT, row + 1);
            }
            let y = 102 + 46 * row;
            let (ink, wide) = (line_colour(line), line_width(line));
            for path in dashed_path(&[(x, y), (x + 60, y)], line.stroke) {
                area.draw(&PathElement::new(path, ink.stroke_width(wide)))?;
            }
            if line.stroke.marked() {
                let filled = line.stroke == Stroke::Solid;
                draw_marker(area, (x + 30, y), line.colour, ink, filled)?;
            }
            area.draw(&Text::new(line.name.clone(), (x + 74, y), beside.clone()))?;
            x += width;
        }
        Ok(row + 1)
    }
}

/// Registers the font once.
fn font() -> Result<(), &'static str> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let register = || register_font(FAMILY, FontStyle::Normal, FONT).is_ok();
    if *DONE.get_or_init(register) { Ok(()) } else { Err("the embedded font does not load") }
}

fn letters(size: f64, colour: &'static RGBColor) -> TextStyle<'static> {
    let style = TextStyle::from((FAMILY, size).into_font());
    style.color(colour).pos(Pos::new(HPos::Left, VPos::Top))
}

fn line_colour(line: &ChartLine) -> RGBColor {
    match line.stroke {
        Stroke::Floor => PALE,
        Stroke::Solid | Stroke::Dashed | Stroke::Line | Stroke::Limit => {
            COLOURS[line.colour % COLOURS.len()]
        }
    }
}

fn line_width(line: &ChartLine) -> u32 {
    if line.stroke.marked() { 4 } else { 3 }
}

type Plane<'a, B, X, Y> = &'a DrawingArea<B, Cartesian2d<X, Y>>;

fn draw_line<B: DrawingBackend, X: Ranged<ValueType = f64>, Y: Ranged<ValueType = f64>>(
    area: Plane<'_, B, X, Y>,
    line: &ChartLine,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let (ink, wide) = (line_colour(line), line_width(line));
    let places: Vec<(i32, i32)> =
        line.dots.iter().map(|d| area.map_coordinate(&(d.x, d.y))).collect();
    let pixels = area.strip_coord_spec();
    // The pixels of a stripped area count from its own corner.
    let (left, top) = (area.get_base_pixel().0, area.get_base_pixel().1);
    let at = |(x, y): (i32, i32)| (x - left, y - top);
    if !line.stroke.marked() {
        // Dense points: dashes go on across their borders.
        for path in dashed_path(&places.iter().map(|p| at(*p)).collect::<Vec<_>>(), line.stroke) {
            pixels.draw(&PathElement::new(path, ink.stroke_width(wide)))?;
        }
        return Ok(());
    }
    for (pair, dots) in places.windows(2).zip(line.dots.windows(2)) {
        // What leads to a bound is not measured; between two bounds the floor's own line says all.
        if dots.iter().all(|d| d.below) {
            continue;
        }
        let bound = dots.iter().any(|d| d.below);
        let (stroke, wide) = if bound { (Stroke::Limit, 2) } else { (line.stroke, wide) };
        for path in dashed_path(&[at(pair[0]), at(pair[1])], stroke) {
            pixels.draw(&PathElement::new(path, ink.stroke_width(wide)))?;
        }
    }
    for (dot, place) in line.dots.iter().zip(&places) {
        let place = at(*place);
        if let Some((low, high)) = dot.spread.filter(|(low, high)| low < high) {
            let (a, b) = (area.map_coordinate(&(dot.x, low)), area.map_coordinate(&(dot.x, high)));
            let bar = vec![at(a), at(b)];
            pixels.draw(&PathElement::new(bar, ink.stroke_width(2)))?;
            for end in [at(a), at(b)] {
                let cap = vec![(end.0 - 8, end.1), (end.0 + 8, end.1)];
                pixels.draw(&PathElement::new(cap, ink.stroke_width(2)))?;
            }
        }
        if dot.below {
            let (x, y) = place;
            let corners = vec![(x - 12, y - 10), (x + 12, y - 10), (x, y + 12), (x - 12, y - 10)];
            pixels.draw(&Polygon::new(corners.clone(), WHITE.filled()))?;
            pixels.draw(&PathElement::new(corners, ink.stroke_width(3)))?;
        } else {
            draw_marker(&pixels, place, line.colour, ink, line.stroke == Stroke::Solid)?;
        }
    }
    Ok(())
}

/// A path cut into the dashes of a stroke.
fn dashed_path(path: &[(i32, i32)], stroke: Stroke) -> Vec<Vec<(i32, i32)>> {
    let (dash, gap) = match stroke {
        Stroke::Solid | Stroke::Line => return vec![path.to_vec()],
        Stroke::Dashed => (24.0, 12.0),
        Stroke::Limit | Stroke::Floor => (6.0, 6.0),
    };
    let mut all = Vec::new();
    let mut current: Vec<(i32, i32)> = Vec::new();
    // Length that is left of the dash or gap under way.
    let (mut drawing, mut left) = (true, dash);
    for pair in path.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = dx.hypot(dy);
        let at = |s: f64| {
            let part = if length > 0.0 { s / length } else { 0.0 };
            (from.0 + (dx * part).round() as i32, from.1 + (dy * part).round() as i32)
        };
        let mut done = 0.0;
        if drawing && current.is_empty() {
            current.push(from);
        }
        while length - done > left {
            done += left;
            if drawing {
                current.push(at(done));
                all.push(std::mem::take(&mut current));
            } else {
                current.push(at(done));
            }
            drawing = !drawing;
            left = if drawing { dash } else { gap };
        }
        left -= length - done;
        if drawing {
            current.push(to);
        }
    }
    if current.len() > 1 {
        all.push(current);
    }
    all
}

/// Circle, square, diamond or triangle, so that colour is not all that tells lines apart.
fn draw_marker<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    (x, y): (i32, i32),
    kind: usize,
    ink: RGBColor,
    filled: bool,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let inside = if filled { ink } else { WHITE };
    let r = 10;
    let corners = match kind % 4 {
        0 => {
            area.draw(&Circle::new((x, y), r, inside.filled()))?;
            return area.draw(&Circle::new((x, y), r, ink.stroke_width(3)));
        }
        1 => vec![(x - 9, y - 9), (x + 9, y - 9), (x + 9, y + 9), (x - 9, y + 9), (x - 9, y - 9)],
        2 => vec![(x, y - 13), (x + 13, y), (x, y + 13), (x - 13, y), (x, y - 13)],
        _ => vec![(x - 11, y + 9), (x + 11, y + 9), (x, y - 12), (x - 11, y + 9)],
    };
    area.draw(&Polygon::new(corners.clone(), inside.filled()))?;
    area.draw(&PathElement::new(corners, ink.stroke_width(3)))
}

/// Powers of 2 inside the range; at least its two ends.
fn x_ticks(range: &std::ops::Range<f64>) -> Vec<f64> {
    let ticks: Vec<f64> = (0..=16).map(|p| f64::from(1u32 << p)).collect();
    let inside: Vec<f64> = ticks.into_iter().filter(|t| range.contains(t)).collect();
    if inside.len() >= 2 { inside } else { vec![range.start.ceil(), range.end.floor()] }
}

fn linear_text(y: f64) -> String {
    if (y - y.round()).abs() < 1e-6 { format!("{y:.0}") } else { format!("{y:.1}") }
}

/// `10⁻³`.
fn decade_text(y: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let power = y.log10().round() as i32;
    if power == 0 {
        return "1".to_owned();
    }
    let sign = if power < 0 { "⁻" } else { "" };
    let digits = power.unsigned_abs().to_string();
    let raised: String = digits.bytes().filter_map(|b| DIGITS.get(usize::from(b - b'0'))).collect();
    format!("10{sign}{raised}")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn figure() -> Chart {
        let dot = |x: f64, y: f64| Dot { x, y, spread: Some((y * 0.9, y * 1.1)), below: false };
        Chart {
            name: "speed".into(),
            title: "User data speed".into(),
            x_label: "User data size, B".into(),
            y_label: "Gb/s".into(),
            x_axis: PlotAxis::Logarithmic,
            axis: PlotAxis::Linear(10.0),
            lines: vec![ChartLine {
                name: "tuned".into(),
                colour: 0,
                stroke: Stroke::Solid,
                dots: vec![dot(64.0, 5.0), dot(8972.0, 9.9)],
            }],
        }
    }

    #[test]
    fn a_figure_is_drawn_twice_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let [svg, png] = figure().write(dir.path(), false).unwrap();
        figure().write(dir.path(), true).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no part is left");
        let text = std::fs::read_to_string(svg).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for words in ["User data speed", "User data size, B", "tuned", ">\n8192\n<"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let bytes = std::fs::read(png).unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
        // Width and height stand in the first block.
        assert_eq!(bytes[16..24], [0, 0, 0x06, 0x40, 0, 0, 0x04, 0x4C]);
    }

    #[test]
    fn time_begins_at_zero() {
        let mut over_time = Chart { x_axis: PlotAxis::Linear(0.0), ..figure() };
        over_time.lines[0].stroke = Stroke::Line;
        over_time.lines[0].dots.iter_mut().for_each(|d| d.x /= 1000.0);
        let text = over_time.svg().unwrap();
        assert!(text.contains(">\n0\n<") && text.contains(">\n8\n<"), "{text}");
    }

    #[test]
    fn decades_are_labelled_and_bounds_drawn() {
        let mut per = figure();
        per.axis = PlotAxis::Logarithmic;
        per.lines[0].dots[0] = Dot { x: 64.0, y: 1e-9, spread: None, below: true };
        per.lines[0].dots[1].y = 1e-3;
        per.lines[0].stroke = Stroke::Dashed;
        let text = per.svg().unwrap();
        for words in ["10⁻⁹", "10⁻³"] {
            assert!(text.contains(words), "{words}");
        }
        assert_eq!(decade_text(1e-12), "10⁻¹²");
        assert_eq!((decade_text(1.0), decade_text(100.0)), ("1".to_owned(), "10²".to_owned()));
    }

    #[test]
    fn nothing_and_nowhere_are_refused() {
        let empty = Chart { lines: vec![], ..figure() };
        assert!(matches!(empty.svg().unwrap_err(), ChartError::Empty(_)));
        let file = tempfile::NamedTempFile::new().unwrap();
        let e = figure().write(file.path(), true).unwrap_err();
        assert!(matches!(e, ChartError::Write { .. }), "{e}");
        let one = Chart { axis: PlotAxis::Logarithmic, ..figure() };
        let single = ChartLine { dots: vec![one.lines[0].dots[0]], ..one.lines[0].clone() };
        assert!(Chart { lines: vec![single], ..one }.svg().is_ok(), "a single point");
    }

    #[test]
    fn the_font_has_every_character_of_the_figures() {
        font().unwrap();
        // The table of characters, format 4 (Unicode BMP), read as the OpenType specification has it.
        let at = |i: usize| usize::from(u16::from_be_bytes([FONT[i], FONT[i + 1]]));
        let long = |i: usize| at(i) << 16 | at(i + 2);
        let entry = (0..at(4)).map(|t| 12 + 16 * t).find(|t| &FONT[*t..t + 4] == b"cmap").unwrap();
        let cmap = long(entry + 8);
        let tables = (0..at(cmap + 2)).map(|t| cmap + long(cmap + 4 + 8 * t + 4));
        let table = tables.into_iter().find(|t| at(*t) == 4).unwrap();
        let segments = at(table + 6) / 2;
        let has = |c: char| {
            (0..segments).any(|s| {
                let (last, first) = (table + 14 + 2 * s, table + 16 + 2 * segments + 2 * s);
                (at(first)..=at(last)).contains(&(c as usize))
            })
        };
        for c in "10⁻³⁴⁵⁶⁷⁸⁹ Gb/s, % – 1/N; ▽ AZaz µ≤≥×·".chars() {
            assert!(has(c), "{c}");
        }
        assert!(!has('漢') && !has('▲'));
    }

    #[test]
    fn dashes_go_round_corners() {
        let path = [(0, 0), (4, 0), (4, 20)];
        let all = dashed_path(&path, Stroke::Limit);
        assert_eq!(all, [vec![(0, 0), (4, 0), (4, 2)], vec![(4, 8), (4, 14)]]);
        assert_eq!(dashed_path(&path, Stroke::Solid), [path.to_vec()]);
        assert!(dashed_path(&[(1, 1)], Stroke::Dashed).is_empty());
    }
}
