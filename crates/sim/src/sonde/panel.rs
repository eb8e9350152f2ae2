//! A panel of SoNDe modules: position of each module, and its identity in packets.
//!
//! One module = 8 × 8 pixels, 6 mm apart, in a housing of 52 mm; groups of 2 × 2 modules have 2 mm more
//! between them. These are the numbers of `docs/examples/sonde-400-modules.toml`. Module i sends as system number `i mod 32` from source port
//! `first_port + 10 · (i div 32)` (the device's own data ports are 50011, 50021, …), and owns pixels
//! `64 i + 1 ..= 64 i + 64`. So up to 32 modules need one port; 400 need 13.
//! [`SimulatedPanel::geometry_toml`] writes the same as the text of a `[detector] geometry` file.
//! Refuses: 0 or more than 2,048 modules, groups of 2 × 2 on an odd panel, ports above 65535.
//! Source: `docs/formats/sonde.md`, section 6.

use std::net::{IpAddr, SocketAddr};

use crate::TrafficError;

fn modules_refused(columns: usize, rows: usize) -> TrafficError {
    TrafficError::value("modules", format!("{columns} x {rows}"), "1 to 2048 modules in all")
}

fn groups_refused(columns: usize, rows: usize) -> TrafficError {
    let value = format!("{columns} x {rows} in groups of 2 x 2");
    TrafficError::value("modules", value, "both numbers must be even")
}

fn ports_refused(first: u16, lanes: usize, allowed: u16) -> TrafficError {
    let value = format!("{lanes} source ports in steps of 10 from {first}");
    TrafficError::value("port", value, format!("a first port of at most {allowed}"))
}

/// System numbers that one source can distinguish (5 bits).
pub const SYSTEMS: usize = 32;
/// Pixels of one module.
pub const MODULE_PIXELS: usize = 64;
/// Distance between pixel centres, metres.
pub const PIXEL_M: f64 = 0.006;
/// Distance between module centres of one group, metres.
pub const MODULE_M: f64 = 0.052;
/// Added between groups of a panel that is counted by groups, metres.
pub const GROUP_GAP_M: f64 = 0.002;
/// The device's own first data port.
pub const FIRST_PORT: u16 = 50_011;

/// Order in which modules are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Rows,
    Groups,
}

/// Modules in rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedPanel {
    columns: usize,
    rows: usize,
    order: Order,
    first_port: u16,
}

impl SimulatedPanel {
    /// `columns` × `rows` modules, counted row by row from the top left.
    ///
    /// # Errors
    /// No module, or more than 2,048.
    pub fn new(columns: usize, rows: usize) -> Result<SimulatedPanel, TrafficError> {
        if !(1..=2048).contains(&columns.saturating_mul(rows)) {
            return Err(modules_refused(columns, rows));
        }
        Ok(SimulatedPanel { columns, rows, order: Order::Rows, first_port: FIRST_PORT })
    }

    /// The same, counted group by group of 2 × 2 modules (the planned instrument has 100 groups).
    ///
    /// # Errors
    /// As [`SimulatedPanel::new`], or an odd number of columns or rows.
    pub fn grouped(columns: usize, rows: usize) -> Result<SimulatedPanel, TrafficError> {
        let panel = SimulatedPanel::new(columns, rows)?;
        if !columns.is_multiple_of(2) || !rows.is_multiple_of(2) {
            return Err(groups_refused(columns, rows));
        }
        Ok(SimulatedPanel { order: Order::Groups, ..panel })
    }

    /// The panel of the demo: all 32 systems of one origin, 8 × 4 modules, 64 × 32 pixels.
    pub fn demo() -> SimulatedPanel {
        SimulatedPanel { columns: 8, rows: 4, order: Order::Rows, first_port: FIRST_PORT }
    }

    /// The planned instrument: 400 modules in 100 groups of 2 × 2, 160 × 160 pixels, 13 ports.
    pub fn full() -> SimulatedPanel {
        SimulatedPanel { columns: 20, rows: 20, order: Order::Groups, first_port: FIRST_PORT }
    }

    /// The same panel sending from `first_port`, `first_port + 10`, ….
    ///
    /// # Errors
    /// Ports above 65535.
    pub fn from_port(self, first_port: u16) -> Result<SimulatedPanel, TrafficError> {
        let lanes = self.lanes();
        let allowed = u16::MAX - 10 * (lanes as u16 - 1);
        if first_port > allowed {
            return Err(ports_refused(first_port, lanes, allowed));
        }
        Ok(SimulatedPanel { first_port, ..self })
    }

    /// Modules in all.
    pub fn modules(&self) -> usize {
        self.columns * self.rows
    }

    /// Pixels in all.
    pub fn pixels(&self) -> usize {
        self.modules() * MODULE_PIXELS
    }

    /// Source ports needed.
    pub fn lanes(&self) -> usize {
        self.modules().div_ceil(SYSTEMS)
    }

    /// Lane of a module.
    pub fn lane(&self, module: usize) -> usize {
        module / SYSTEMS
    }

    /// System number of a module, 0..=31.
    pub fn system(&self, module: usize) -> u8 {
        (module % SYSTEMS) as u8
    }

    /// Source port of a lane.
    pub fn source_port(&self, lane: usize) -> u16 {
        self.first_port + 10 * lane as u16
    }

    /// (column, row) of a module, row 0 on top.
    pub fn place(&self, module: usize) -> (usize, usize) {
        match self.order {
            Order::Rows => (module % self.columns, module / self.columns),
            Order::Groups => {
                let (group, k) = (module / 4, module % 4);
                let across = self.columns / 2;
                (2 * (group % across) + k % 2, 2 * (group / across) + k / 2)
            }
        }
    }

    /// Picture size in pixels: columns, rows.
    pub fn size(&self) -> (usize, usize) {
        (8 * self.columns, 8 * self.rows)
    }

    /// (column, row) in the picture of pixel `index + 1`, row 0 on top.
    pub fn cell(&self, index: usize) -> (usize, usize) {
        let (column, row) = self.place(index / MODULE_PIXELS);
        let local = index % MODULE_PIXELS;
        (8 * column + local % 8, 8 * row + local / 8)
    }

    /// Centre of a module, metres from the panel's centre: x along the picture's columns, y up.
    pub fn centre_m(&self, module: usize) -> (f64, f64) {
        let (column, row) = self.place(module);
        let x = self.behind_first_m(column) - self.behind_first_m(self.columns - 1) / 2.0;
        (x, self.behind_first_m(self.rows - 1) / 2.0 - self.behind_first_m(row))
    }

    /// Distance of the `n`-th column or row of modules from the first, metres.
    fn behind_first_m(&self, n: usize) -> f64 {
        let gaps = match self.order {
            Order::Rows => 0,
            Order::Groups => n / 2,
        };
        n as f64 * MODULE_M + gaps as f64 * GROUP_GAP_M
    }

    /// Centre of pixel `index + 1`, metres from the panel's centre: x along the columns, y up.
    pub fn pixel_m(&self, index: usize) -> (f64, f64) {
        let (mx, my) = self.centre_m(index / MODULE_PIXELS);
        let local = index % MODULE_PIXELS;
        let (column, row) = ((local % 8) as f64, (local / 8) as f64);
        (mx + (column - 3.5) * PIXEL_M, my + (3.5 - row) * PIXEL_M)
    }

    /// Larger half of the panel, metres.
    pub fn half_m(&self) -> f64 {
        (self.behind_first_m(self.columns.max(self.rows) - 1) + MODULE_M) / 2.0
    }

    /// Distance from the sample, metres: 9.6 half panels, so that every panel covers the same
    /// angles (up to 0.104 rad along its longer side) and shows the same picture.
    pub fn distance_m(&self) -> f64 {
        9.6 * self.half_m()
    }
}

/// What [`SimulatedPanel::bytes`] has for each pixel: the ASIC and channel of pixel 1..=64 of a module, read
/// off the picture in section 6 (column by column of the printed table, y downwards).
const PICTURE: [[(u8, u8); 8]; 8] = [
    [(1, 0), (1, 1), (1, 2), (1, 3), (0, 15), (0, 14), (0, 13), (0, 12)],
    [(1, 4), (1, 5), (1, 6), (1, 7), (0, 11), (0, 10), (0, 9), (0, 8)],
    [(1, 8), (1, 9), (1, 10), (1, 11), (0, 7), (0, 6), (0, 5), (0, 4)],
    [(1, 12), (1, 13), (1, 14), (1, 15), (0, 3), (0, 2), (0, 1), (0, 0)],
    [(3, 0), (3, 1), (3, 2), (3, 3), (2, 15), (2, 14), (2, 13), (2, 12)],
    [(3, 4), (3, 5), (3, 6), (3, 7), (2, 11), (2, 10), (2, 9), (2, 8)],
    [(3, 8), (3, 9), (3, 10), (3, 11), (2, 7), (2, 6), (2, 5), (2, 4)],
    [(3, 12), (3, 13), (3, 14), (3, 15), (2, 3), (2, 2), (2, 1), (2, 0)],
];

impl SimulatedPanel {
    /// The asic/channel byte (`asic << 6 | channel`) of each of a module's 64 pixels.
    pub fn bytes() -> [u8; MODULE_PIXELS] {
        std::array::from_fn(|i| {
            let (asic, channel) = PICTURE[i / 8][i % 8];
            asic << 6 | channel
        })
    }

    /// For each asic/channel byte its pixel, counted from 0; `None`: no pixel.
    pub fn pixel_of_byte() -> [Option<u8>; 256] {
        let mut table = [None; 256];
        for (pixel, byte) in SimulatedPanel::bytes().into_iter().enumerate() {
            table[usize::from(byte)] = Some(pixel as u8);
        }
        table
    }
}

impl SimulatedPanel {
    /// Text for `[detector] geometry` that describes this panel as `sender` sends it. With a single
    /// source port any sender is taken, so that the port need not be bound; otherwise lane `l` has to
    /// send from [`SimulatedPanel::source_port`]`(l)`.
    pub fn geometry_toml(&self, sender: IpAddr) -> String {
        let gap_mm = 1000.0 * (MODULE_M - 8.0 * PIXEL_M);
        let mut text = format!(
            "# {} simulated SoNDe modules, {} x {} pixels.\n\n[panel]\nname = \"sonde\"\n\
             pixel_mm = {:.2}\nmodule_gap_mm = {gap_mm:.2}\ndistance_m = {:.4}\n",
            self.modules(),
            self.size().0,
            self.size().1,
            1000.0 * PIXEL_M,
            self.distance_m(),
        );
        for module in 0..self.modules() {
            text.push_str("\n[[modules]]\n");
            if self.lanes() > 1 {
                let port = self.source_port(self.lane(module));
                text.push_str(&format!("source = \"{}\"\n", SocketAddr::new(sender, port)));
            }
            let (column, row) = self.place(module);
            text.push_str(&format!(
                "system = {}\npixel_offset = {}\ncell = [{column}, {row}]\n",
                self.system(module),
                module * MODULE_PIXELS,
            ));
            if self.order == Order::Groups {
                // A list of modules has no groups, so each has its position; x counts to the left there.
                let (x, y) = self.centre_m(module);
                let (x, y) = (-1000.0 * x, 1000.0 * y);
                text.push_str(&format!("centre_mm = [{x:.2}, {y:.2}]\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (ASIC, channel) to pixel by the formulas of section 6, for comparison with the picture.
    fn pixel(asic: usize, channel: usize) -> usize {
        let (c, r) = (channel % 4, channel / 4);
        let (x, y) = match asic {
            0 => (7 - c, 3 - r),
            1 => (c, r),
            2 => (7 - c, 7 - r),
            _ => (c, 4 + r),
        };
        8 * y + x
    }

    #[test]
    fn the_picture_agrees_with_the_formulas() {
        let bytes = SimulatedPanel::bytes();
        let back = SimulatedPanel::pixel_of_byte();
        for asic in 0..4 {
            for channel in 0..64 {
                let byte = asic << 6 | channel;
                if channel < 16 {
                    assert_eq!(usize::from(bytes[pixel(asic, channel)]), byte);
                    assert_eq!(back[byte], Some(pixel(asic, channel) as u8));
                } else {
                    assert_eq!(back[byte], None);
                }
            }
        }
        // The worked examples: ASIC 0, 1, 2 channel 10 are pixels 14, 19, 46.
        assert_eq!(
            [0x0a, 0x4a, 0x8a].map(|b| back[b].map(|p| p + 1)),
            [Some(14), Some(19), Some(46)]
        );
    }

    #[test]
    fn every_pixel_has_its_own_cell_and_modules_their_own_sender() {
        for panel in
            [SimulatedPanel::demo(), SimulatedPanel::full(), SimulatedPanel::new(4, 4).unwrap()]
        {
            let (columns, rows) = panel.size();
            let mut taken = vec![false; columns * rows];
            let mut senders = std::collections::HashSet::new();
            for i in 0..panel.pixels() {
                let (x, y) = panel.cell(i);
                assert!(!std::mem::replace(&mut taken[y * columns + x], true));
                let m = i / 64;
                senders.insert((panel.source_port(panel.lane(m)), panel.system(m)));
            }
            assert_eq!((taken.len(), senders.len()), (panel.pixels(), panel.modules()));
        }
    }

    #[test]
    fn the_planned_instrument_counts_group_by_group() {
        let p = SimulatedPanel::full();
        assert_eq!((p.modules(), p.lanes(), p.size()), (400, 13, (160, 160)));
        let places: Vec<_> = [0, 1, 2, 3, 4, 40, 399].map(|m| p.place(m)).to_vec();
        assert_eq!(places, [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (19, 19)]);
        assert_eq!((p.lane(399), p.system(399), p.source_port(12)), (12, 15, 50_131));
    }

    #[test]
    fn neighbours_are_6_mm_apart_and_modules_52() {
        let p = SimulatedPanel::demo();
        let (x0, y0) = p.pixel_m(0);
        let (x1, y1) = p.pixel_m(9);
        assert!((x1 - x0 - 0.006).abs() < 1e-12 && (y0 - y1 - 0.006).abs() < 1e-12);
        assert!((p.pixel_m(64).0 - x0 - 0.052).abs() < 1e-12);
        assert!((p.half_m() - 0.208).abs() < 1e-12, "8 modules without a gap between groups");
    }

    #[test]
    fn the_planned_instrument_is_the_one_of_the_example_file() {
        let example = include_str!("../../../../docs/examples/sonde-400-modules.toml");
        let number = |key: &str| -> f64 {
            let value = example.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(" = "));
            value.unwrap().split_whitespace().next().unwrap().parse().unwrap()
        };
        let p = SimulatedPanel::full();
        let near = |metres: f64, key: &str, factor: f64| {
            assert!((metres * factor - number(key)).abs() < 1e-9, "{key}: {metres} m");
        };
        near(PIXEL_M, "pixel_mm", 1000.0);
        near(MODULE_M - 8.0 * PIXEL_M, "module_gap_mm", 1000.0);
        near(GROUP_GAP_M, "group_gap_mm", 1000.0);
        near(p.distance_m(), "distance_m", 1.0);
        assert_eq!((number("columns"), number("rows")), (10.0, 10.0));
        assert!(example.contains("modules = [2, 2]\n"));
        // Modules 1 and 4 are the second and third of the top row: 52 mm, then 54 mm apart.
        let x = [0, 1, 4].map(|m| p.centre_m(m).0);
        assert!((x[1] - x[0] - 0.052).abs() < 1e-12 && (x[2] - x[1] - 0.054).abs() < 1e-12);
        // 19 steps of 52 mm and 9 gaps of 2 mm, around the panel's centre.
        assert!((x[0] + 0.503).abs() < 1e-12 && (p.centre_m(399).1 + 0.503).abs() < 1e-12);
    }

    #[test]
    fn geometry_names_ports_only_where_one_is_not_enough() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let one = SimulatedPanel::demo().geometry_toml(here);
        assert!(!one.contains("source") && one.matches("[[modules]]").count() == 32, "{one}");
        let last = "[[modules]]\nsystem = 31\npixel_offset = 1984\ncell = [7, 3]\n";
        assert!(one.ends_with(last), "{one}");
        assert!(one.contains("pixel_mm = 6.00\nmodule_gap_mm = 4.00\n"), "{one}");
        let many = SimulatedPanel::full().geometry_toml(here);
        let last = "source = \"127.0.0.1:50131\"\nsystem = 15\npixel_offset = 25536\n\
                    cell = [19, 19]\ncentre_mm = [-503.00, -503.00]\n";
        assert!(many.ends_with(last), "{many}");
        assert!(!one.contains("centre_mm"), "a grid without groups needs none");
    }

    #[test]
    fn impossible_panels_are_refused() {
        assert_eq!(SimulatedPanel::new(0, 3), Err(modules_refused(0, 3)));
        assert!(SimulatedPanel::new(usize::MAX, 2).is_err() && SimulatedPanel::new(64, 32).is_ok());
        assert_eq!(SimulatedPanel::grouped(3, 4), Err(groups_refused(3, 4)));
        assert!(SimulatedPanel::full().from_port(65_415).is_ok());
        let ports = ports_refused(65_416, 13, 65_415);
        assert_eq!(SimulatedPanel::full().from_port(65_416), Err(ports));
    }
}
